# Written by `make docs` from ../_async; do not edit.
"""What all groups of requests share: the connection, and what a request is about."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pilotage.client.errors import BadAnswer, NotFound, Refused
from pilotage.client.records import Record, required
from pilotage.client.subjects import RequestSubject, parsed

from .connection import ServerConnection, Value

if TYPE_CHECKING:
    from .records import Job, Task

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

        A name is that of the caller's newest such task. Raises :class:`NotFound` if there is none.
        """
        word = about if isinstance(about, (int, str, RequestSubject)) else about.subject
        found = parsed(word)
        if isinstance(found, RequestSubject):
            return found
        query: dict[str, Value | bool | None] = {"name": found, "mine": True, "limit": 1}
        tasks = required(self._connection.send("GET", "/tasks", query=query), ["tasks"])["tasks"]
        if not tasks:
            raise NotFound(f"you have no task of the name {found!r}; pilotage status lists tasks")
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

    def _task(self, task: "int | str | RequestSubject | Task") -> dict[str, int | str]:
        """Return the values of a task's address. Raises :class:`Refused` for anything but a task."""
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

    def _record(
        self,
        template: str,
        values: Mapping[str, int | str] | None = None,
        **query: Value | bool | None,
    ) -> Record:
        return Record(self._get(template, values, **query))

    def _submitted(self, path: str, body: dict[str, Any], tasks: int, most: int, key: str) -> Record:
        """Return the answer to a submission, which under the same key is done once."""
        if tasks > most:
            raise Refused(f"{tasks} tasks are more than the {most} of one submission; split the file")
        if len(key) > LONGEST_KEY or not (key.isascii() and key.isprintable()):
            raise Refused(f"--key is of at most {LONGEST_KEY} printable ASCII characters")
        # Each submission has its own key: after a lost answer it is repeated, and nothing runs twice.
        answer = self._connection.send("POST", path, body=body, also=(422,), key=key or uuid4().hex)
        if "tasks" not in answer:
            raise Refused(f"the server did not understand the tasks: {answer.get('detail')}")
        return Record(required(answer, ["refused"]))
