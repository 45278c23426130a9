# Written by `make docs` from ../_async; do not edit.
"""Requests that change tasks and jobs."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pilotage.client.records import Record
from pilotage.client.subjects import RequestSubject

from .api import Api

if TYPE_CHECKING:
    from .records import Job, Task


class Steering(Api):
    """Verbs on tasks and jobs. Each answers with its effects."""

    def retry(
        self,
        about: "int | str | RequestSubject | Task | Job",
        changes: Mapping[str, Any] | None = None,
        *,
        dry_run: bool = False,
        anyway: bool = False,
        width: int = 0,
    ) -> Record:
        """Run jobs again that failed, were cancelled or closed, with changed fields. The rest stays.

        A ``dry_run`` only says which, and where they would go; ``anyway`` takes changes that no queue meets.
        """
        body = {"changes": dict(changes or {}), "dry_run": dry_run, "anyway": anyway}
        return self._verb(about, "retry", body if any(body.values()) else None, width)

    def set(
        self,
        about: "int | str | RequestSubject | Task | Job",
        changes: Mapping[str, Any],
        *,
        dry_run: bool = False,
        anyway: bool = False,
        width: int = 0,
    ) -> Record:
        """Change fields of jobs that have not started, also of unmade ones."""
        body = {"changes": dict(changes), "dry_run": dry_run, "anyway": anyway}
        return self._verb(about, "set", body, width)

    def hold(self, task: "int | str | RequestSubject | Task") -> Record:
        """Start no more jobs of a task until it is released. Jobs that run go on."""
        return self._posted("/tasks/{task}/hold", self._task(task), needs=["task"])

    def release(self, task: "int | str | RequestSubject | Task") -> Record:
        """Let jobs of a held task start again."""
        return self._posted("/tasks/{task}/release", self._task(task), needs=["task"])

    def finish(self, task: "int | str | RequestSubject | Task") -> Record:
        """End a task with what it has: a merge takes the outputs so far; other jobs close."""
        return self._posted("/tasks/{task}/finish", self._task(task), needs=["task"])

    def cancel(self, about: "int | str | RequestSubject | Task | Job") -> Record:
        """Cancel a task with its jobs and transfers, or one job. Outputs that are stored stay."""
        return self._verb(about, "cancel", None, 0)

    def publish(self, task: "int | str | RequestSubject | Task") -> Record:
        """Register outputs that could not enter the task's dataset, after the obstacle is removed."""
        return self._posted("/tasks/{task}/publish", self._task(task), needs=["published"])

    def renew(self, task: "int | str | RequestSubject | Task", lease: float) -> Record:
        """Renew a task's lease, or set one: nothing of it runs after so many s."""
        return self._posted("/tasks/{task}/renew", self._task(task), {"lease": lease})

    def _verb(
        self, about: "int | str | RequestSubject | Task | Job", verb: str, body: Any, width: int
    ) -> Record:
        found = (self.subject(about)).of_kinds("task", "job")
        needs = ["id", "state"] if verb == "cancel" else ["jobs"] if found.kind == "task" else []
        return self._posted(f"{found.path}/{verb}", found.values, body, needs=needs, width=width or None)
