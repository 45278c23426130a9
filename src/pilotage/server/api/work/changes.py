"""Requests to change fields of jobs, by ``set`` or with a retry."""

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Response
from pydantic import BaseModel, Field

from pilotage.explain.comparison import WhatIf, side_by_side
from pilotage.explain.layout import folded
from pilotage.federation.faults import BadDocument
from pilotage.flow.calls.work import changes
from pilotage.flow.calls.work.changes import Wanted
from pilotage.flow.calls.work.retry import retry, retry_preview
from pilotage.flow.runtime import Runtime
from pilotage.model.records.states import JobState, State
from pilotage.server.api.edge.answers import answer, faults_of
from pilotage.server.api.edge.bodies import RequestBody

_Done = tuple[Mapping[State, int], Sequence[str]]
"""Jobs by the state that they were in, and what a person should know."""

EXAMPLE = {"ram": 4000, "walltime": 7200}


class Told(BaseModel):
    """Jobs by the state that they were in; of a dry run, jobs that would change, and where they would go.

    Of a retry, ``lines`` say which inputs were not looked at again, and what to do.
    """

    jobs: dict[JobState, int]
    lines: list[str] = []


def _by_state(moved: Mapping[State, int]) -> dict[JobState, int]:
    return {JobState(state): count for state, count in moved.items()}


class _Request(RequestBody):
    dry_run: bool = False
    anyway: bool = False

    def done(
        self, runtime: Runtime, task: int, who: str, width: int, job: int | None = None
    ) -> Told | Response:
        """Do it, or with ``dry_run`` say what it would do; answer with the faults of the fields."""
        try:
            if not self.dry_run:
                moved, lines = self._do(runtime, task, who, job)
                return Told.model_construct(jobs=_by_state(moved), lines=folded(lines, width))
            moved, found = self._preview(runtime, task, job)
        except BadDocument as bad:
            return answer({"detail": faults_of(bad)}, 422)
        return Told.model_construct(jobs=_by_state(moved), lines=folded(side_by_side(found, width), width))

    def _do(self, runtime: Runtime, task: int, who: str, job: int | None) -> _Done:
        raise NotImplementedError

    def _preview(self, runtime: Runtime, task: int, job: int | None) -> tuple[Mapping[State, int], WhatIf]:
        raise NotImplementedError


class Set(_Request):
    """Fields to change, named as in a task; ``anyway`` even if no queue would take the jobs."""

    changes: dict[str, Any] = Field(min_length=1, examples=[EXAMPLE])

    def _do(self, runtime: Runtime, task: int, who: str, job: int | None) -> _Done:
        wanted = Wanted(fields=self.changes, anyway=self.anyway)
        return changes.set_fields(runtime, task, wanted, who, job), ()

    def _preview(self, runtime: Runtime, task: int, job: int | None) -> tuple[Mapping[State, int], WhatIf]:
        return changes.set_preview(runtime, task, Wanted(fields=self.changes), job)


class Retry(_Request):
    """A retry, with fields to change; ``anyway`` even if no queue would take the jobs."""

    changes: dict[str, Any] = Field(default_factory=dict, examples=[EXAMPLE])

    def _do(self, runtime: Runtime, task: int, who: str, job: int | None) -> _Done:
        done = retry(runtime, task, who, job, Wanted(fields=self.changes, anyway=self.anyway))
        return done.moved, done.lines

    def _preview(self, runtime: Runtime, task: int, job: int | None) -> tuple[Mapping[State, int], WhatIf]:
        return retry_preview(runtime, task, job, Wanted(fields=self.changes))
