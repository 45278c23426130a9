"""Results of imports: a federation, and a note on every changed field."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from pilotage.model.records.federation import Federation

Action = Literal["guessed", "converted", "clipped", "dropped", "refused"]
"""The field was missing and guessed; its form was converted; it was cut to fit; it was left out; or the
whole entry was refused."""

LONGEST_VALUE = 200


class ImportSource(NamedTuple):
    """A document to import: its name in the report, and its text."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A note on one field of one entry. ``value`` is the original value; ``line`` is None if unknown.

    ``matters`` is true if the change may send jobs elsewhere. Fields that the model lacks do not.
    """

    action: Action
    file: str
    line: int | None
    entry: str
    field: str
    value: str
    text: str
    matters: bool = True

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return ": ".join(part for part in (place, self.entry, self.field, self.text) if part)


class Summary(NamedTuple):
    """All notes of one action on one field: their number, and the first note's text."""

    action: Action
    field: str
    times: int
    example: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """``federation`` is None if no entry remains. ``entries`` counts all entries, including refused ones."""

    federation: Federation | None
    entries: int
    notes: tuple[Note, ...]

    @property
    def refusals(self) -> tuple[Note, ...]:
        """Return why entries were left out of the federation."""
        return tuple(note for note in self.notes if note.action == "refused")

    def summary(self) -> list[Summary]:
        """Return the notes other than refusals, by action and field.

        Notes that may change where jobs go come first. Within both groups the order is losses, guesses,
        conversions.
        """
        noted = [note for note in self.notes if note.action != "refused"]
        counts = Counter((note.action, note.field) for note in noted)
        first: dict[tuple[Action, str], str] = {}
        for note in noted:
            text = f"{note.value}: {note.text}" if note.value else note.text
            first.setdefault((note.action, note.field), text)
        mattering = {(note.action, note.field) for note in noted if note.matters}
        rows = (Summary(*key, count, first[key]) for key, count in counts.items())
        return sorted(
            rows,
            key=lambda row: (row[:2] not in mattering, _ORDER.index(row.action), -row.times, row.field),
        )


_ORDER: Sequence[Action] = ("dropped", "clipped", "guessed", "converted", "refused")


class RefusedEntry(Exception):
    """An entry cannot be accepted: the faulty field, its value, and what would be right."""

    def __init__(self, field: str, value: object, message: str, remedy: str) -> None:
        self.field = field
        self.value = one_line(value)
        self.text = f"{message}; {remedy}"
        super().__init__(self.text)


class Entry:
    """One entry while being read. A refused entry has a single note: its refusal."""

    def __init__(self, file: str, line: int | None, name: str) -> None:
        self.file = file
        self.line = line
        self.name = name
        self.notes: list[Note] = []

    def note(
        self,
        action: Action,
        field: str,
        value: object,
        text: str,
        line: int | None = None,
        *,
        matters: bool = True,
    ) -> None:
        """Note what happened to a field, on ``line`` or else the entry's line."""
        self.notes.append(replace(self._note(action, field, one_line(value), text, line), matters=matters))

    @property
    def refused(self) -> bool:
        """Return whether the entry was refused."""
        return any(note.action == "refused" for note in self.notes)

    def refuse(self, refused: RefusedEntry, line: int | None = None) -> None:
        """Refuse the entry, and drop the notes on its fields."""
        self.notes = [self._note("refused", refused.field, refused.value, refused.text, line)]

    def _note(self, action: Action, field: str, value: str, text: str, line: int | None) -> Note:
        return Note(
            action=action,
            file=self.file,
            line=line or self.line,
            entry=one_line(self.name),
            field=one_line(field),
            value=value,
            text=one_line(text, length=2 * LONGEST_VALUE),
        )


def one_line(value: object, length: int = LONGEST_VALUE) -> str:
    """Return an untrusted value in a form for one line of a terminal. Cut it if it is long."""
    text = value if isinstance(value, str) else "" if value is None else repr(value)
    text = text if text.isprintable() else repr(text)[1:-1]
    return text if len(text) <= length else f"{text[: length - 3]}..."


def notes_of(entries: Iterable[Entry]) -> tuple[Note, ...]:
    """Return all notes, in the order of the entries."""
    return tuple(note for entry in entries for note in entry.notes)
