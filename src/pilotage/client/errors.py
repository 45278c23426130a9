"""What can go wrong with a request. The text of each error is the server's message."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Fault(NamedTuple):
    """A fault of one field of a request, and what would be right; of a submission, with the task's index."""

    field: str
    message: str
    task: int | None = None


class ClientError(Exception):
    """A request that did not succeed. ``status`` is the answer's code; None if no answer came."""

    status: int | None = None


class Refused(ClientError):
    """The request cannot be accepted as it is. ``faults`` are its fields, ``answer`` is the whole answer."""

    def __init__(
        self, message: str, faults: tuple[Fault, ...] = (), answer: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.faults = faults
        self.answer = answer or {}

    @property
    def is_of_tasks(self) -> bool:
        """Whether the faults belong to tasks, each with its index."""
        return bool(self.answer.get("refused"))


class NotSignedIn(ClientError):
    """The server knows no such token."""


class NotAllowed(ClientError):
    """The caller may not do this."""


class NotFound(ClientError):
    """There is no such thing, or it belongs to another person."""


class Conflict(ClientError):
    """The present state does not allow it. ``answer`` is the server's whole document."""

    def __init__(self, message: str, answer: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.answer = answer or {}


class Gone(ClientError):
    """It was there, and is deleted."""


class TooMany(ClientError):
    """Too many requests of the caller are worked on."""


class ServerFault(ClientError):
    """The server failed, or a proxy in front of it did."""


class Unreachable(ClientError):
    """No answer came."""


class NotPilotage(Unreachable):
    """What answers is no Pilotage."""


class OtherVersion(ClientError):
    """The server has another version, which does not know this request."""


class BadAnswer(ClientError):
    """The answer lacks a field that this client needs: the server has another version, or is no Pilotage.

    ``names_versions``: its text has the versions of both.
    """

    names_versions = False


class MissingField(BadAnswer, KeyError):
    """A document of the server lacks a field."""

    def __str__(self) -> str:
        return str(self.args[0])


class StillUnderWay(ClientError, TimeoutError):
    """The time was over before all tasks had ended. They go on."""


class FetchFailed(ClientError):
    """A file cannot be brought here, or not put where it belongs."""


class WrongChecksum(FetchFailed):
    """A file arrived complete, but is wrong. Its part is deleted."""


class CallFailed(ClientError):
    """The job of a function ended without a result."""


class TaskFailed(ClientError):
    """A task ended without finishing."""


_KINDS: Mapping[int, type[ClientError]] = {
    401: NotSignedIn,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    410: Gone,
    429: TooMany,
}
_REFUSALS = (400, 413, 415, 422)

PREFIX = "/api/v1"
"""The beginning of each path of the API."""

LONGEST_ADDRESS = 300
"""Most characters to show of a proxy's redirection."""


def error_of(status: int, reason: str, answer: Any) -> ClientError | None:
    """Return the error that an answer reports; None if the answer is not in a Pilotage's form."""
    detail = answer.get("detail") if isinstance(answer, dict) else None
    error: ClientError
    if detail is None:
        return None if status < 500 else _mark(ServerFault(failure_message(status, reason)), status)
    message = _sentence(detail)
    if status in _REFUSALS:
        error = Refused(message, _faults(detail), answer)
    elif status == 409:
        error = Conflict(message, answer)
    elif status >= 500:
        error = ServerFault(f"{failure_message(status, reason)}: {message}")
    else:
        error = _KINDS.get(status, ClientError)(message)
    return _mark(error, status)


def foreign_error(status: int, reason: str, location: str, url: str) -> ClientError:
    """Return the error for an answer that is not Pilotage's: a proxy may have answered in its place.

    ``location`` is the address that it redirects to, ``url`` is the server's.
    """
    if status == 413:
        return Refused(
            f"a proxy in front of {url} refuses a request of this size (413 {reason}): send less, "
            "or ask its operator for a higher limit"
        )
    if status == 429:
        return TooMany(f"a proxy in front of {url} refuses requests now (429 {reason}): try again later")
    if 300 <= status < 400 and location:
        address = "".join(sign for sign in location if sign.isprintable())[:LONGEST_ADDRESS]
        return NotPilotage(
            f"{url} sends on to {address.partition(PREFIX)[0]}; "
            "set PILOTAGE_URL to that address if it is the server's"
        )
    return NotPilotage(
        f"what answers at {url} is not Pilotage ({status} {reason}); set PILOTAGE_URL to the server's address"
    )


def failure_message(status: int, reason: str) -> str:
    """Return the message about a server that fails."""
    return f"the server failed with {status} {reason}"


def refusal(answer: Any) -> Refused:
    """Return the error for tasks that were all refused. Raises ``BadAnswer``."""
    try:
        faults = tuple(
            Fault(str(fault["field"]), str(fault["message"]), task["index"])
            for task in answer["refused"]
            for fault in task["errors"]
        )
    except (KeyError, TypeError):
        raise BadAnswer("the server's answer does not say why it refuses the tasks") from None
    several = len(answer["refused"]) > 1
    texts = (f"{f'task {fault.task}, ' if several else ''}{fault.field}: {fault.message}" for fault in faults)
    return Refused("; ".join(texts), faults, answer)


def _mark(error: ClientError, status: int) -> ClientError:
    error.status = status
    return error


def _sentence(detail: Any) -> str:
    faults = _faults(detail)
    return "; ".join(f"{fault.field}: {fault.message}" for fault in faults) if faults else str(detail)


def _faults(detail: Any) -> tuple[Fault, ...]:
    if not isinstance(detail, list):
        return ()
    return tuple(
        Fault(str(fault.get("field", "")), str(fault.get("message", "")))
        for fault in detail
        if isinstance(fault, dict)
    )
