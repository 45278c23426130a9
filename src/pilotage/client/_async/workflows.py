"""Requests about workflows: tasks that come after each other."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from pilotage.client.errors import refusal
from pilotage.client.records import Record, Table
from pilotage.client.subjects import Subject

from .api import AsyncApi


class AsyncWorkflowRequests(AsyncApi):
    """Workflows."""

    async def submit_workflow(
        self, name: str, tasks: Sequence[Mapping[str, Any]], *, key: str = "", lease: float = 0
    ) -> Record:
        """Submit tasks as a workflow, all or none. Return its ``id`` and its ``tasks``.

        Names in ``after`` and ``inputs`` mean tasks of the workflow first. Raises :class:`Refused` with every
        fault.
        """
        body: dict[str, Any] = {"name": name, "tasks": [dict(task) for task in tasks]}
        if lease:
            body["lease"] = lease
        key = key or uuid4().hex
        answer = await self._connection.send("POST", "/workflows", body=body, also=(422,), key=key)
        if not answer.get("tasks"):
            raise refusal(answer)
        return Record(answer)

    async def workflows(
        self, *, name: str = "", mine: bool = False, limit: int = 100, before: int | None = None
    ) -> Table[Record]:
        """Return workflows, newest first: the caller's, or for an operator everybody's unless ``mine``."""
        answer = await self._get("/workflows", name=name or None, mine=mine, limit=limit, before=before)
        return Table[Record].of(answer, "workflows", Record)

    async def workflow(self, workflow: int | Subject) -> Record:
        """Return a workflow with its ``tasks``, each after its predecessors, and ``why`` some wait."""
        return await self._record("/workflows/{workflow}", self._number(workflow))

    async def explain_workflow(self, workflow: int | Subject, *, width: int = 0) -> Record:
        """Explain how a workflow's tasks stand, and what holds some of them. ``lines`` is the text."""
        return await self._record(
            "/workflows/{workflow}/explain", self._number(workflow), width=width or None
        )

    def _number(self, workflow: int | Subject) -> dict[str, int | str]:
        if isinstance(workflow, Subject):
            return workflow.of_kinds("workflow").values
        return {"workflow": workflow}
