# Written by `make docs` from ../_async; do not edit.
"""Requests about workflows: tasks that come after each other."""

from collections.abc import Mapping, Sequence
from typing import Any

from pilotage.client.errors import NotFound
from pilotage.client.records import ExplainedRecord, Record, Table
from pilotage.client.subjects import RequestSubject, number_of

from .api import Api

MOST_STAGES = 200
"""Most tasks of a workflow."""


class WorkflowRequests(Api):
    """Workflows."""

    def submit_workflow(
        self, name: str, tasks: Sequence[Mapping[str, Any]], *, key: str = "", lease: float = 0
    ) -> Record:
        """Submit tasks as a workflow, all or none. Return its ``id`` and its ``tasks``.

        Names in ``after`` and ``inputs`` mean tasks of the workflow first. Raises ``Refused``, with
        every fault and its task.
        """
        body: dict[str, Any] = {"name": name, "tasks": [dict(task) for task in tasks]}
        if lease:
            body["lease"] = lease
        return self._submitted("/workflows", body, len(tasks), MOST_STAGES, key)

    def workflows(
        self, *, name: str = "", mine: bool = False, after: str | None = None, limit: int = 100
    ) -> Table[Record]:
        """Return workflows, newest first: the caller's, or for an operator everybody's unless ``mine``."""
        return self._table("workflows", "/workflows", name=name or None, mine=mine, after=after, limit=limit)

    def workflow(self, workflow: int | str | RequestSubject) -> Record:
        """Return a workflow with its ``tasks``, each after its predecessors, and ``why`` some wait.

        A name is that of the caller's newest such workflow. Raises ``NotFound`` if there is none.
        """
        return self._record("/workflows/{workflow}", self._number(workflow))

    def explain_workflow(self, workflow: int | str | RequestSubject, *, width: int = 0) -> ExplainedRecord:
        """Explain how a workflow's tasks stand, and what holds some of them. ``lines`` is the text."""
        template = "/workflows/{workflow}/explain"
        answer = self._get(template, self._number(workflow), width=width or None)
        return self._understood(ExplainedRecord, answer)

    def _number(self, workflow: int | str | RequestSubject) -> dict[str, int | str]:
        if isinstance(workflow, RequestSubject):
            return workflow.of_kinds("workflow").values
        if isinstance(workflow, int):
            return {"workflow": workflow}
        name = workflow.removeprefix("workflow:")
        if (number := number_of(name)) is not None:
            return {"workflow": number}
        found = self.workflows(name=name, mine=True, limit=1)
        if not found:
            raise NotFound(f"you have no workflow of the name {name!r}; pilotage workflows lists them")
        return {"workflow": found[0]["id"]}
