"""Requests that change tasks and jobs."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pilotage.client.records import Record, Table
from pilotage.client.shapes import DELETION, GRANT, STEERED_JOB, STEERED_TASK, TASK
from pilotage.client.subjects import RequestSubject

from .api import AsyncApi

if TYPE_CHECKING:
    from .records import AsyncJob, AsyncTask


class AsyncSteering(AsyncApi):
    """Verbs on tasks and jobs. Each answers with its effects."""

    async def retry(
        self,
        about: "int | str | RequestSubject | AsyncTask | AsyncJob",
        changes: Mapping[str, Any] | None = None,
        *,
        dry_run: bool = False,
        anyway: bool = False,
        width: int = 0,
    ) -> Record:
        """Run jobs again that failed, were cancelled or closed, with changed fields. The rest stays.

        A ``dry_run`` only lists them, and where they would go; ``anyway`` takes changes that no queue meets.
        """
        body = {"changes": dict(changes or {}), "dry_run": dry_run, "anyway": anyway}
        return await self._verb(about, "retry", body if any(body.values()) else None, width)

    async def set(
        self,
        about: "int | str | RequestSubject | AsyncTask | AsyncJob",
        changes: Mapping[str, Any],
        *,
        dry_run: bool = False,
        anyway: bool = False,
        width: int = 0,
    ) -> Record:
        """Change fields of jobs that have not started, also of unmade ones."""
        body = {"changes": dict(changes), "dry_run": dry_run, "anyway": anyway}
        return await self._verb(about, "set", body, width)

    async def hold(self, task: "int | str | RequestSubject | AsyncTask") -> Record:
        """Hold back a task's jobs until you release it. Running jobs go on."""
        return await self._posted("/tasks/{task}/hold", STEERED_TASK, await self._task(task), needs=["task"])

    async def release(self, task: "int | str | RequestSubject | AsyncTask") -> Record:
        """Let jobs of a held task start again."""
        return await self._posted(
            "/tasks/{task}/release", STEERED_TASK, await self._task(task), needs=["task"]
        )

    async def finish(self, task: "int | str | RequestSubject | AsyncTask") -> Record:
        """End a task now, also a failed one: a merge takes the outputs so far; other jobs close."""
        return await self._posted(
            "/tasks/{task}/finish", STEERED_TASK, await self._task(task), needs=["task"]
        )

    async def cancel(self, about: "int | str | RequestSubject | AsyncTask | AsyncJob") -> Record:
        """Cancel a task with its jobs and transfers, or one job. Outputs that are stored stay."""
        return await self._verb(about, "cancel", None, 0)

    async def delete(
        self, about: "int | str | RequestSubject | AsyncTask", *, outputs: bool = False, dry_run: bool = False
    ) -> Record:
        """Delete a task that has ended, or a workflow such as ``"workflow:3"``; with ``outputs`` these too.

        Copies that it alone used go with it. ``lines`` list the records; a ``dry_run`` deletes nothing.
        """
        subject = (await self.subject(about)).of_kinds("task", "workflow")
        body = {"outputs": outputs, "dry_run": dry_run}
        return await self._posted(f"{subject.path}/delete", DELETION, subject.values, body)

    async def grant(
        self,
        about: "int | str | RequestSubject | AsyncTask",
        reader: str,
        *,
        vo: str | None = None,
        until: float | None = None,
        manages: bool = False,
    ) -> Record:
        """Let others read a task, ``"workflow:3"`` or ``"dataset:NAME"``: results, logs and explanations.

        With ``manages`` they also change it. ``"group:NAME"`` is all work that is submitted in a group.

        The ``reader`` is a person, or ``"group:NAME"``, of your VO unless another is named. ``until`` is in
        s since 1970 UTC; None: until you revoke it.
        """
        body = await self._granted(about, reader, vo, until=until, manages=manages)
        return await self._posted("/grants", GRANT, None, body)

    async def revoke(
        self, about: "int | str | RequestSubject | AsyncTask", reader: str, *, vo: str | None = None
    ) -> Record:
        """End a grant. Raises ``NotFound`` if there is none."""
        return await self._posted("/grants/revoke", GRANT, None, await self._granted(about, reader, vo))

    async def grants(self, *, after: str | None = None, limit: int = 1000) -> Table[Record]:
        """Return the grants that you gave, and the ones that you may read by; an operator's: everybody's.

        ``after`` is the ``next`` of the page before.
        """
        return await self._table("grants", "/grants", GRANT, after=after, limit=limit)

    async def _granted(
        self, about: "int | str | RequestSubject | AsyncTask", reader: str, vo: str | None, **more: Any
    ) -> dict[str, Any]:
        group = reader.removeprefix("group:") if reader.startswith("group:") else ""
        body = {"person": "" if group else reader, "group": group, "vo": vo, **more}
        kind, _, name = about.partition(":") if isinstance(about, str) else ("", "", "")
        if kind in ("dataset", "group"):
            return {"kind": kind, "record": name, **body}
        subject = (await self.subject(about)).of_kinds("task", "workflow")
        return {"kind": subject.kind, "record": str(subject.id), **body}

    async def publish(self, task: "int | str | RequestSubject | AsyncTask") -> Record:
        """Register outputs that could not enter the task's dataset, after the obstacle is removed."""
        return await self._posted("/tasks/{task}/publish", TASK, await self._task(task), needs=["remarks"])

    async def renew(self, task: "int | str | RequestSubject | AsyncTask", lease: float) -> Record:
        """Renew a task's lease, or set one: nothing of it runs after so many s."""
        return await self._posted("/tasks/{task}/renew", TASK, await self._task(task), {"lease": lease})

    async def _verb(
        self, about: "int | str | RequestSubject | AsyncTask | AsyncJob", verb: str, body: Any, width: int
    ) -> Record:
        subject = (await self.subject(about)).of_kinds("task", "job")
        needs = ["id", "state"] if verb == "cancel" else ["jobs"] if subject.kind == "task" else []
        shape = STEERED_TASK if subject.kind == "task" else STEERED_JOB
        return await self._posted(
            f"{subject.path}/{verb}", shape, subject.values, body, needs=needs, width=width or None
        )
