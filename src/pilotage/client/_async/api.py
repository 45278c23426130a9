"""What all groups of requests share: the connection, and what a request is about."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pilotage.client.errors import NotFound, Refused
from pilotage.client.records import Record
from pilotage.client.subjects import Subject, parsed

from .connection import AsyncConnection, Value, required

if TYPE_CHECKING:
    from .records import AsyncJob, AsyncTask

About = "int | str | Subject | AsyncTask | AsyncJob"


class AsyncApi:
    """Sends requests through one connection."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def subject(self, about: "int | str | Subject | AsyncTask | AsyncJob") -> Subject:
        """Return what something is: ``12``, ``"align"``, ``"job:345"``, ``"pilot:6"``, ``"queue:north"``.

        A name is that of the caller's newest such task. Raises :class:`NotFound` if there is none.
        """
        word = about if isinstance(about, (int, str, Subject)) else about.subject
        found = parsed(word)
        if isinstance(found, Subject):
            return found
        query: dict[str, Value | bool | None] = {"name": found, "mine": True, "limit": 1}
        tasks = required(await self._connection.send("GET", "/tasks", query=query), ["tasks"])["tasks"]
        if not tasks:
            raise NotFound(f"you have no task of the name {found!r}; pilotage status lists tasks")
        return Subject("task", int(tasks[0]["id"]))

    async def _task(self, task: "int | str | Subject | AsyncTask") -> dict[str, int | str]:
        """Return the values of a task's address. Raises :class:`Refused` for what is no task."""
        found = await self.subject(task)
        if found.kind != "task":
            raise Refused(f"{str(task)!r} is no task; give its number or its name")
        return found.values

    async def _get(
        self,
        template: str,
        values: Mapping[str, int | str] | None = None,
        **query: Value | bool | None,
    ) -> Any:
        return await self._connection.send("GET", template, values, query=query)

    async def _post(
        self,
        template: str,
        values: Mapping[str, int | str] | None = None,
        body: object = None,
        **query: Value | bool | None,
    ) -> Any:
        return await self._connection.send("POST", template, values, query=query, body=body)

    async def _record(
        self,
        template: str,
        values: Mapping[str, int | str] | None = None,
        **query: Value | bool | None,
    ) -> Record:
        return Record(await self._get(template, values, **query))
