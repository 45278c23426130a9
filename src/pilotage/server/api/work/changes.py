"""Requests to change fields of jobs, by ``set`` or with a retry."""

from typing import Any

from fastapi import Response
from pydantic import BaseModel, Field

from pilotage.explain.comparison import side_by_side
from pilotage.explain.layout import folded
from pilotage.federation.faults import BadDocument
from pilotage.flow.calls.work import effects
from pilotage.flow.calls.work.changes import Wanted
from pilotage.flow.runtime import Runtime
from pilotage.model.records.states import JobState
from pilotage.model.rules.verbs import Verb
from pilotage.server.api.edge.answers import answer, faults_of
from pilotage.server.api.edge.bodies import RequestBody

EXAMPLE = {"ram": 4000, "walltime": 7200}


class Told(BaseModel):
    """Jobs by the state that they were in; of a dry run, jobs that would change, and where they would go.

    Of a retry, ``lines`` name the inputs that were not looked at again, and what to do.
    """

    jobs: dict[JobState, int]
    lines: list[str] = []


class Retry(RequestBody):
    """Fields to change in a retry, named as in a task; ``anyway`` even if no queue would take the jobs."""

    dry_run: bool = False
    anyway: bool = False
    changes: dict[str, Any] = Field(default_factory=dict, examples=[EXAMPLE])

    def done(
        self, runtime: Runtime, verb: Verb, who: str, width: int, task: int, job: int | None = None
    ) -> Told | Response:
        """Do it, or with ``dry_run`` preview it; answer with the faults of the fields."""
        changes = Wanted(fields=self.changes, anyway=self.anyway)
        try:
            if self.dry_run:
                moved, comparison = effects.preview(runtime, verb, task, job, changes)
                lines = tuple(side_by_side(comparison, width))
            else:
                effect = effects.do(runtime, verb, who, task, job, changes)
                moved, lines = effect.moved, effect.lines
        except BadDocument as bad:
            return answer({"detail": faults_of(bad)}, 422)
        jobs = {JobState(state): count for state, count in moved.items()}
        return Told.model_construct(jobs=jobs, lines=folded(lines, width))


class Set(Retry):
    """Fields to change, named as in a task; ``anyway`` even if no queue would take the jobs."""

    changes: dict[str, Any] = Field(min_length=1, examples=[EXAMPLE])
