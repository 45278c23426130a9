"""Requests about workflows: tasks that come after each other."""

from collections.abc import Mapping, Sequence
from typing import Any

from pilotage.client.errors import NotFound
from pilotage.client.records import ExplainedRecord, Record, Table
from pilotage.client.shapes import LINES, STAGES, WORKFLOW
from pilotage.client.subjects import RequestSubject, number_of

from .api import AsyncApi

MOST_STAGES = 200
"""Most tasks of a workflow."""


class AsyncWorkflowRequests(AsyncApi):
    """Workflows."""

    async def submit_workflow(
        self,
        name: str,
        tasks: Sequence[Mapping[str, Any]],
        *,
        key: str = "",
        lease: float = 0,
        resume: bool = False,
    ) -> Record:
        """Submit tasks as a workflow, all or none. Return its ``id`` and its ``tasks``.

        Names in ``after`` and ``inputs`` mean tasks of the workflow first. With ``resume``, earlier tasks of
        a workflow of this name stand for the stages that did not change: ``stages`` has the ``task`` of each
        skipped one, and the ``reason`` why others run. Raises ``Refused``, with every fault and its task.
        """
        body: dict[str, Any] = {"name": name, "tasks": [dict(task) for task in tasks]}
        if resume:
            body["resume"] = True
        if lease:
            body["lease"] = lease
        return await self._submitted("/workflows", body, len(tasks), MOST_STAGES, key)

    async def workflows(
        self, *, name: str = "", mine: bool = False, after: str | None = None, limit: int = 100
    ) -> Table[Record]:
        """Return workflows, newest first: the caller's, or for an operator everybody's unless ``mine``."""
        return await self._table(
            "workflows", "/workflows", WORKFLOW, name=name or None, mine=mine, after=after, limit=limit
        )

    async def workflow(self, workflow: int | str | RequestSubject) -> Record:
        """Return a workflow with its ``tasks``, each after its predecessors, and ``remarks`` on some.

        A name means the caller's newest workflow of that name. Raises ``NotFound`` if there is none.
        """
        return await self._record("/workflows/{workflow}", STAGES, await self._number(workflow))

    async def explain_workflow(
        self, workflow: int | str | RequestSubject, *, width: int = 0
    ) -> ExplainedRecord:
        """Explain the states of a workflow's tasks, and what holds some of them. ``lines`` is the text."""
        template = "/workflows/{workflow}/explain"
        answer = await self._get(template, await self._number(workflow), width=width or None)
        return await self._understood(answer, LINES, ExplainedRecord)

    async def _number(self, workflow: int | str | RequestSubject) -> dict[str, int | str]:
        if isinstance(workflow, RequestSubject):
            return workflow.of_kinds("workflow").values
        if isinstance(workflow, int):
            return {"workflow": workflow}
        name = workflow.removeprefix("workflow:")
        if (number := number_of(name)) is not None:
            return {"workflow": number}
        workflows = await self.workflows(name=name, mine=True, limit=1)
        if not workflows:
            raise NotFound(f"you have no workflow of the name {name!r}; pilotage workflows lists them")
        return {"workflow": workflows[0]["id"]}
