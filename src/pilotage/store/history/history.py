"""The history of a record: an entry for each change of state, in a column of its row, oldest first.

An entry is a line. It has the number of its meaning (states, cause and actor, in the table ``meanings``), the
time (ms since 1970 UTC, in base 36), the attempt if not the first, and the pilot or decision behind it. So a
job's life takes a hundred bytes and no further row.
"""

import re
import string
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Final, Literal, NamedTuple, cast

from cachetools import LRUCache
from sqlalchemy import Column, Connection, Index, String, Table, select

from pilotage.model.records.states import STATES, Kind, State
from pilotage.store.database import bulk
from pilotage.store.database.columns import Id, metadata, text_column
from pilotage.store.database.dialects import GAP
from pilotage.store.database.engine import Database
from pilotage.store.database.rows import among

meanings = Table(
    "meanings",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("kind", String, nullable=False),
    text_column("source"),
    Column("target", String, nullable=False),
    text_column("cause"),
    text_column("actor"),
    Index("meanings_once", "kind", "source", "target", "cause", "actor", unique=True),
)

Unknown = Literal["unknown"]
UNKNOWN: Final = "unknown"
"""Kind and state of a transition that this store or this program has no words for."""

LoggedKind = Kind | Literal["breaker", "federation"]
"""Kinds in events. Circuit breakers and federations have events, but no history."""

LONGEST_CAUSE, LONGEST_ACTOR = 400, 150
"""Most characters that are kept: longer ones do not fit PostgreSQL's index."""

KNOWN_MEANINGS = 20_000
"""Most cached meanings. After that the cache starts again."""

LEFT_OUT = "(much before this is not kept) "
"""Begins the cause of the first transition after the lost part of a long history."""

_PILOT = "pilot:"
_DIGITS = string.digits + string.ascii_lowercase
_m = meanings.c


_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventView:
    """One transition: its time, states, cause and actor. ``attempt`` is the attempt before it."""

    time: float
    source: State | Unknown | None
    target: State | Unknown
    cause: str
    actor: str
    attempt: int


class TransitionKind(NamedTuple):
    """The meaning of a transition: its states (no source: creation), its cause and its actor.

    All pilots share one actor; the entry names the pilot.
    """

    kind: LoggedKind
    source: str
    target: str
    cause: str
    actor: str

    @classmethod
    def of(
        cls, kind: LoggedKind, source: str | None, target: str, cause: str, actor: str
    ) -> "TransitionKind":
        """Return the meaning of a transition in stored form."""
        by = _PILOT if _pilot_of(actor) else actor[:LONGEST_ACTOR]
        # A database may change or refuse control characters. A search would then miss the meaning.
        words = _CONTROL.sub(" ", cause[:LONGEST_CAUSE])
        return cls(kind, str(source or ""), str(target), words, _CONTROL.sub(" ", by))


class TransitionKinds:
    """Numbers of meanings. They never change, so each is read once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._cache: LRUCache[TransitionKind, int] = LRUCache(KNOWN_MEANINGS)
        self._lock = threading.Lock()

    def numbers(self, meanings: Iterable[TransitionKind]) -> Mapping[TransitionKind, int]:
        """Return the numbers of these meanings. New ones get theirs in a separate transaction."""
        unique = dict.fromkeys(meanings)
        with self._lock:
            ids = {meaning: self._cache[meaning] for meaning in unique if meaning in self._cache}
        missing = [meaning for meaning in unique if meaning not in ids]
        if missing:
            # Use a separate transaction, so that the commit never locks a row that others wait for.
            new_ids = self._database.write(
                lambda connection: _numbered(connection, missing), alone=False, is_audited=False
            )
            ids |= {meaning: new_ids[meaning] for meaning in missing}
            with self._lock:
                self._cache.update(ids)
        return ids


def _numbered(connection: Connection, missing: list[TransitionKind]) -> dict[TransitionKind, int]:
    """Number new meanings. If another process was faster, use its number."""
    bulk.insert(connection, meanings, TransitionKind._fields, missing, once=True)
    causes = list(dict.fromkeys(meaning.cause for meaning in missing))
    query = select(_m.id, *(_m[name] for name in TransitionKind._fields)).where(among(_m.cause, "causes"))
    return {TransitionKind(*words): id_ for id_, *words in connection.execute(query, {"causes": causes})}


class Entries:
    """The entries of one commit."""

    def __init__(self, numbers: Mapping[TransitionKind, int], time: float, actor: str) -> None:
        self._numbers = numbers
        self._time = time
        self._actor = actor
        self._cache: dict[tuple[object, ...], Callable[[int], str]] = {}

    def entry(
        self, kind: Kind, source: State | None, target: State, cause: str, decision: int | None = None
    ) -> Callable[[int], str]:
        """Return the entry of a transition as a function of the attempt before it."""
        key = (kind, source, target, cause, decision)
        write_entry = self._cache.get(key)
        if write_entry is None:
            write_entry = self._cache[key] = self._entry(kind, source, target, cause, decision)
        return write_entry

    def number(self, kind: LoggedKind, source: str | None, target: str, cause: str) -> int:
        """Return the number of a transition's meaning."""
        return self._numbers[TransitionKind.of(kind, source, target, cause, self._actor)]

    def _entry(
        self, kind: Kind, source: State | None, target: State, cause: str, decision: int | None
    ) -> Callable[[int], str]:
        number = self.number(kind, source, target, cause)
        first = entry(number, self._time, self._actor, decision)

        def of(attempt: int) -> str:
            return first if attempt == 1 else entry(number, self._time, self._actor, decision, attempt)

        return of


def entry(meaning: int, time: float, actor: str, decision: int | None = None, attempt: int = 1) -> str:
    """Return one line of a history."""
    parts = [str(meaning), _base36(round(time * 1000))]
    parts += [f"a{attempt}"] if attempt != 1 else []
    parts += [f"p{pilot}"] if (pilot := _pilot_of(actor)) else []
    parts += [f"d{decision}"] if decision is not None else []
    return " ".join(parts) + "\n"


def meaning_of(entry: str) -> int:
    """Return the number of the meaning of one line of a history."""
    return int(entry.split(" ", 1)[0])


def events(connection: Connection, histories: Iterable[str]) -> list[tuple[EventView, ...]]:
    """Return the transitions of each history. Their times never decrease, even if a clock went back."""
    read = [_entries(history) for history in histories]
    numbers = {int(words[0]) for entries in read for words in entries}
    query = select(_m.id, *(_m[name] for name in TransitionKind._fields)).where(among(_m.id, "ids"))
    rows = connection.execute(query, {"ids": sorted(numbers)}) if numbers else ()
    meanings: dict[int, tuple[str, ...]] = {id_: tuple(words) for id_, *words in rows}
    return [
        tuple(
            _event(words, meanings.get(int(words[0])) or unknown(int(words[0])), time)
            for words, time in zip(entries, accumulate(map(_time, entries), max), strict=True)
        )
        for entries in read
    ]


def unknown(number: int) -> tuple[str, ...]:
    """Return the words of a transition for a number that has no meaning here.

    Another program wrote it, or a part of the store is missing. People see the rest of the history.
    """
    return UNKNOWN, "", UNKNOWN, f"unknown: the store has no meaning {number}", ""


def decisions_of(history: str) -> list[int]:
    """Return the numbers of the decisions that moved a record, oldest first."""
    return [int(word[1:]) for words in _entries(history) for word in words[2:] if word[0] == "d"]


def _time(words: list[str]) -> float:
    return int(words[1], 36) / 1000


def _event(words: list[str], meaning: tuple[str, ...], time: float) -> EventView:
    rest = {word[0]: word[1:] for word in words[2:]}
    kind, source, target, cause, actor = meaning
    return EventView(
        time=time,
        source=_state(kind, source) if source else None,
        target=_state(kind, target),
        cause=(LEFT_OUT if GAP in rest else "") + cause,
        actor=actor + rest.get("p", ""),
        attempt=int(rest.get("a", 1)),
    )


def _state(kind: str, name: str) -> State | Unknown:
    states = STATES.get(cast(Kind, kind))
    return states(name) if states and name in states.__members__.values() else UNKNOWN


def _entries(history: str) -> list[list[str]]:
    """Return the words of each entry. The first entry after a cut has the further word ``GAP``."""
    entries: list[list[str]] = []
    gap: list[str] = []
    for line in history.splitlines():
        if GAP in line:
            gap = [GAP]
        else:
            entries.append(line.split(" ") + gap)
            gap = []
    return entries


def _pilot_of(actor: str) -> str:
    number = actor.removeprefix(_PILOT)
    return number if number != actor and number.isdecimal() else ""


# All moves of one commit have the same time.
@lru_cache(maxsize=64)
def _base36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits or "0"
