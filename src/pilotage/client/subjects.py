"""What requests are about, as people write it: ``12``, ``"align"``, ``"job:345"``, ``"queue:north"``."""

import re
from dataclasses import dataclass

from .errors import Refused

_KINDS = ("task", "job", "pilot", "transfer", "queue", "workflow")
TASK_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@+-]*")


@dataclass(frozen=True, slots=True)
class RequestSubject:
    """A task, job, pilot or transfer by its number, or a queue by its name."""

    kind: str
    id: int | str

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"

    @property
    def path(self) -> str:
        """Return the template of its address."""
        return f"/{self.kind}s/{{{self.kind}}}"

    @property
    def values(self) -> dict[str, int | str]:
        """Return the values of the template."""
        return {self.kind: self.id}

    def of_kinds(self, *kinds: str) -> "RequestSubject":
        """Return the same. Raises ``Refused`` if it has none of these kinds."""
        if self.kind not in kinds:
            raise Refused(f"{self} is no {' and no '.join(kinds)}")
        return self


def number_of(word: str) -> int | None:
    """Return the number that a word is; None if it is none."""
    return int(word) if word.isascii() and word.isdigit() else None


def parse(word: "int | str | RequestSubject") -> "RequestSubject | str":
    """Return what a word means, or the plain name of a task. Raises ``Refused`` for anything else."""
    if isinstance(word, RequestSubject):
        return word
    if isinstance(word, int):
        return RequestSubject("task", word)
    kind, colon, rest = word.partition(":")
    kind = kind.lower() if colon else "task"
    plain = rest if colon and kind in _KINDS else word
    number = number_of(plain)
    if kind == "queue" and plain:
        return RequestSubject("queue", plain)
    if number is not None:
        return RequestSubject(kind if kind in _KINDS else "task", number)
    if kind in _KINDS and kind != "task":
        raise Refused(f"{word!r} is no number of a {kind}; give for example {kind}:345")
    if not TASK_NAME.fullmatch(plain):
        raise Refused(f"{word!r} is neither the number nor the name of a task")
    return plain
