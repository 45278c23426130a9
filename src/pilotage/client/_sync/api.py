# Written by `make docs` from ../_async; do not edit.
"""What all groups of requests share: the connection, and what a request is about."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from pilotage.client.errors import BadAnswer, NotFound, Refused
from pilotage.client.records import Record, Table, required, submission
from pilotage.client.subjects import RequestSubject, parsed

from .connection import ServerConnection, Value

if TYPE_CHECKING:
    from .records import Job, Task

Made = TypeVar("Made")

PAGE = 1000
"""Rows of one request where a list is read whole."""

LONGEST_KEY = 200
"""Most characters of an idempotency key."""


class Api:
    """Sends requests through one connection."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    def subject(self, about: "int | str | RequestSubject | Task | Job") -> RequestSubject:
        """Return what something is: ``12``, ``"align"``, ``"job:345"``, ``"pilot:6"``, ``"queue:north"``.

        A name is that of the caller's newest such task. Raises ``NotFound`` if there is none.
        """
        word = about if isinstance(about, (int, str, RequestSubject)) else about.subject
        found = parsed(word)
        if isinstance(found, RequestSubject):
            return found
        tasks = self._table("tasks", "/tasks", name=found, mine=True, limit=1)
        if not tasks:
            remedy = "pilotage status lists tasks; give a task of somebody else by its number"
            raise NotFound(f"you have no task of the name {found!r}; {remedy}")
        return RequestSubject("task", int(tasks[0]["id"]))

    def each(self, rows: Any, *about: Any, **options: Any) -> Iterator[Any]:
        """Yield the rows of all pages of a list: ``client.each(client.jobs, 12, state="failed")``."""
        after = ""
        while True:
            page = rows(*about, **{"limit": PAGE, **options, "after": after})
            for row in page:
                yield row
            if not page.next:
                return
            if page.next == after:
                raise BadAnswer("the server's answer leads to itself as the next page")
            after = page.next

    def with_versions(self, error: BadAnswer) -> BadAnswer:
        """Return the error for an answer that lacks something, with the versions of server and client."""
        return self._connection.with_versions(error)

    def _task(self, task: "int | str | RequestSubject | Task") -> dict[str, int | str]:
        """Return the values of a task's address. Raises ``Refused`` for anything but a task."""
        found = self.subject(task)
        if found.kind != "task":
            raise Refused(f"{str(task)!r} is no task; give its number or its name")
        return found.values

    def _get(
        self,
        template: str,
        values: Mapping[str, int | str] | None = None,
        **query: Value | bool | None,
    ) -> Any:
        return self._connection.send("GET", template, values, query=query)

    def _post(
        self,
        template: str,
        values: Mapping[str, int | str] | None = None,
        body: object = None,
        **query: Value | bool | None,
    ) -> Any:
        return self._connection.send("POST", template, values, query=query, body=body)

    def _understood(self, make: Callable[[Any], Made], answer: Any) -> Made:
        """Return what an answer is to the client. Raises ``BadAnswer`` with both versions if it lacks
        something."""
        try:
            return make(answer)
        except BadAnswer as error:
            raise self._connection.with_versions(error) from error

    def _record(
        self,
        template: str,
        values: Mapping[str, int | str] | None = None,
        **query: Value | bool | None,
    ) -> Record:
        return self._understood(Record, self._get(template, values, **query))

    def _posted(
        self,
        template: str,
        values: Mapping[str, int | str] | None = None,
        body: object = None,
        *,
        needs: Sequence[str] = (),
        **query: Value | bool | None,
    ) -> Record:
        """Return the answer to a POST request, which has the fields that the client needs."""
        return self._sent("POST", template, values, needs=needs, query=query, body=body)

    def _sent(
        self,
        method: str,
        template: str,
        values: Mapping[str, int | str] | None = None,
        *,
        needs: Sequence[str] = (),
        **options: Any,
    ) -> Record:
        """Return the answer to a request, which has the fields that the client needs."""
        answer = self._connection.send(method, template, values, **options)
        return self._understood(lambda found: Record(required(found, needs)), answer)

    def _table(
        self,
        rows: str,
        template: str,
        values: Mapping[str, int | str] | None = None,
        /,
        **query: Value | bool | None,
    ) -> Table[Record]:
        """Return the rows under a name of the answer to a GET request."""
        answer = self._get(template, values, **query)
        return self._understood(lambda found: Table[Record].of(found, rows, Record), answer)

    def _submitted(self, path: str, body: dict[str, Any], tasks: int, most: int, key: str) -> Record:
        """Return the answer to a submission, which under the same key is done once.

        Raises ``Refused``, with every fault, if no task was accepted.
        """
        if tasks > most:
            raise Refused(f"{tasks} tasks are more than the {most} of one submission; split the file")
        if len(key) > LONGEST_KEY or not (key.isascii() and key.isprintable()):
            raise Refused(f"--key is of at most {LONGEST_KEY} printable ASCII characters")
        # Each submission has its own key: after a lost answer it is repeated, and nothing runs twice.
        answer = self._connection.send("POST", path, body=body, also=(422,), key=key or uuid4().hex)
        return self._understood(lambda found: submission(found, tasks), answer)
