"""What all groups of requests share: the connection, and what a request is about."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from pilotage.client.answers import Shape, check
from pilotage.client.errors import BadAnswer, NotFound, Refused
from pilotage.client.records import Record, Row, Table, required, submission
from pilotage.client.shapes import PAGE, SUBMISSION, TASK
from pilotage.client.subjects import RequestSubject, parse

from .connection import AsyncServerConnection, Value

if TYPE_CHECKING:
    from .records import AsyncJob, AsyncTask

Made = TypeVar("Made")

MOST_ROWS = 1000
"""Rows of one request where a list is read whole."""

LONGEST_KEY = 200
"""Most characters of an idempotency key."""


class AsyncApi:
    """Sends requests through one connection."""

    def __init__(self, connection: AsyncServerConnection) -> None:
        self._connection = connection

    async def close(self) -> None:
        """Close its connections."""
        await self._connection.close()

    async def subject(self, about: "int | str | RequestSubject | AsyncTask | AsyncJob") -> RequestSubject:
        """Return what something is: ``12``, ``"align"``, ``"job:345"``, ``"pilot:6"``, ``"queue:north"``.

        A name means the caller's newest task of that name. Raises ``NotFound`` if there is none.
        """
        word = about if isinstance(about, (int, str, RequestSubject)) else about.subject
        meaning = parse(word)
        if isinstance(meaning, RequestSubject):
            return meaning
        tasks = await self._table("tasks", "/tasks", TASK, name=meaning, mine=True, limit=1)
        if not tasks:
            remedy = "pilotage status lists tasks; give another person's task by its number"
            raise NotFound(f"you have no task of the name {meaning!r}; {remedy}")
        return RequestSubject("task", int(tasks[0]["id"]))

    async def each(self, rows: Any, *about: Any, **options: Any) -> AsyncIterator[Any]:
        """Yield the rows of all pages of a list: ``client.each(client.jobs, 12, state="failed")``."""
        after, pages = "", {""}
        while True:
            page = await rows(*about, **{"limit": MOST_ROWS, **options, "after": after})
            for row in page:
                yield row
            if not (after := page.next):
                return
            if after in pages:
                raise BadAnswer("the server's answer leads back to an earlier page")
            pages.add(after)

    async def with_versions(self, error: BadAnswer) -> BadAnswer:
        """Return the error for an answer that lacks something, with the versions of server and client."""
        return await self._connection.with_versions(error)

    async def _task(self, task: "int | str | RequestSubject | AsyncTask") -> dict[str, int | str]:
        """Return the values of a task's address. Raises ``Refused`` for anything but a task."""
        subject = await self.subject(task)
        if subject.kind != "task":
            raise Refused(f"{str(task)!r} is no task; give its number or its name")
        return subject.values

    async def _get(
        self,
        template: str,
        values: Mapping[str, int | str] | None = None,
        **query: Value | bool | None,
    ) -> Any:
        return await self._connection.send("GET", template, values, query=query)

    async def _understood(self, answer: Any, shape: Shape, make: Callable[[Any], Made]) -> Made:
        """Return what an answer is to the client. Raises ``BadAnswer``, with both versions, if it lacks
        something, or does not fit its shape."""
        try:
            return make(check(answer, shape))
        except BadAnswer as error:
            raise await self._connection.with_versions(error) from error

    async def _record(
        self,
        template: str,
        shape: Shape,
        values: Mapping[str, int | str] | None = None,
        **query: Value | bool | None,
    ) -> Record:
        return await self._understood(await self._get(template, values, **query), shape, Record)

    async def _posted(
        self,
        template: str,
        shape: Shape,
        values: Mapping[str, int | str] | None = None,
        body: object = None,
        *,
        needs: Sequence[str] = (),
        **query: Value | bool | None,
    ) -> Record:
        """Return the answer to a POST request, which has the fields that the client needs."""
        return await self._sent("POST", template, shape, values, needs=needs, query=query, body=body)

    async def _sent(
        self,
        method: str,
        template: str,
        shape: Shape,
        values: Mapping[str, int | str] | None = None,
        *,
        needs: Sequence[str] = (),
        **options: Any,
    ) -> Record:
        """Return the answer to a request, which has the fields that the client needs."""
        answer = await self._connection.send(method, template, values, **options)
        return await self._understood(answer, shape, lambda document: Record(required(document, needs)))

    async def _table(
        self,
        rows: str,
        template: str,
        shape: Shape,
        values: Mapping[str, int | str] | None = None,
        /,
        **query: Value | bool | None,
    ) -> Table[Record]:
        """Return the rows under a name of the answer to a GET request."""
        return await self._rows(rows, shape, Record, await self._get(template, values, **query))

    async def _rows(self, rows: str, shape: Shape, make: Callable[[Any], Row], answer: Any) -> Table[Row]:
        """Return the rows under a name of an answer."""
        document = PAGE | {rows: [shape]}
        return await self._understood(answer, document, lambda page: Table[Row].of(page, rows, make))

    async def _submitted(self, path: str, body: dict[str, Any], tasks: int, limit: int, key: str) -> Record:
        """Return the answer to a submission, which under the same key is done once.

        Raises ``Refused``, with every fault, if no task was accepted.
        """
        if tasks > limit:
            raise Refused(f"{tasks} tasks are more than the {limit} of one submission; split the file")
        if len(key) > LONGEST_KEY or not (key.isascii() and key.isprintable()):
            raise Refused(f"--key has at most {LONGEST_KEY} printable ASCII characters")
        # Each submission has its own key: after a lost answer it is repeated, and nothing runs twice.
        answer = await self._connection.send("POST", path, body=body, statuses=(422,), key=key or uuid4().hex)
        return await self._understood(answer, SUBMISSION, lambda document: submission(document, tasks))
