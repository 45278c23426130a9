"""Faults of documents: place, problem and remedy."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from pilotage import request_budget
from pilotage.model.values.urls import hidden

Path = tuple[str | int, ...]


def field_name(path: Path) -> str:
    """Return a path as people write it: ``queues[2].max_memory``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{_printable(part)}"
    return text.removeprefix(".")


def _printable(word: str) -> str:
    """Return an untrusted key in a form that is safe on one line of a terminal."""
    word = word if len(word) <= 100 else f"{word[:97]}..."
    return word if word.isprintable() else repr(word)[1:-1]


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a document, without a file. ``line`` is known if the text itself is at fault.

    The message hides the user and password of any URL.
    """

    path: Path
    message: str
    remedy: str = ""
    line: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", hidden(self.message))

    @property
    def text(self) -> str:
        """Return the problem and the remedy."""
        return f"{self.message}; {self.remedy}" if self.remedy else self.message


@dataclass(frozen=True, slots=True)
class FileFault:
    """One fault of a file. ``line`` counts from 1; None means the file as a whole."""

    file: str
    line: int | None
    field: str
    message: str
    remedy: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        parts = [place, self.field, self.message] if self.field else [place, self.message]
        return ": ".join(parts) + (f"; {self.remedy}" if self.remedy else "")


class BadDocument(Exception):
    """A document cannot be accepted. ``faults`` holds every fault found."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(f"{field_name(f.path) or 'document'}: {f.text}" for f in self.faults))


class BadFile(Exception):
    """A file cannot be accepted. ``faults`` holds every fault found, in order of line."""

    def __init__(self, faults: Iterable[FileFault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


def explained(all_faults: Iterable[Fault]) -> list[Fault]:
    """Return the faults of one document that the request's budget explains, and at least the first.

    Raises ``ClientGone`` or ``RequestTooLong``.
    """
    faults: list[Fault] = []
    request_budget.check()
    for fault in islice(all_faults, max(1, request_budget.faults_left())):
        faults.append(fault)
        request_budget.check()
    request_budget.take_faults(len(faults))
    return faults


def repeated(path: Path, names: Sequence[str]) -> Iterator[Fault]:
    """Yield a fault for each name that occurs earlier in the list."""
    earlier: set[str] = set()
    for at, name in enumerate(names):
        if name in earlier:
            yield Fault((*path, at), f"{name!r} is given twice", "keep one")
        earlier.add(name)


def show(value: object) -> str:
    """Return a value as people wrote it, cut short."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    words = {None: "nothing", True: "true", False: "false"}
    text = words[value] if value is None or isinstance(value, bool) else repr(value)
    # Hide passwords before cutting: the rest of a cut URL is not recognised as one.
    text = hidden(text)
    return text if len(text) <= 60 else f"{text[:57]}..."
