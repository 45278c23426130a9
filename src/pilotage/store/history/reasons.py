"""The stored form of reasons: a version, then packed numbers after a header that describes them.

    document = version, zlib(length of header (4 bytes), header (JSON), arrays)

Arrays are in the header's order, little-endian. The header gives the type and length of each. A separate
document has the facts that a commit's choices share: names, labels, columns and common refusals. Choices
refer to these by number. This program refuses a version that it does not know. See decision 19.
"""

import json
import struct
import sys
import zlib
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from pilotage.model.documents.decision import Asked, Label, Ordering
from pilotage.model.documents.reasons import (
    Facts,
    Given,
    PackedCandidates,
    PackedChoice,
    PackedRefusal,
    Shared,
    Values,
)

VERSION = 1
FAST = 1
"""Level of compression. Higher ones take twice as long and save a tenth."""

_as_json = json.JSONEncoder(separators=(",", ":")).encode
_ASKED = ("field", "value", "fixed", "each", "factor", "least", "instead")
_LABEL = ("rule", "name", "mend", "unit", "lifted_by")
_ORDERING = ("rule", "name", "keys", "unit")
_question, _label, _ordering = attrgetter(*_ASKED), attrgetter(*_LABEL), attrgetter(*_ORDERING)


class UnreadableReasons(ValueError):
    """Another program wrote these reasons, or the store lacks the facts that they refer to."""


class _Writer:
    """Arrays and bytes of one document, in order."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def array(self, values: "array[Any]") -> list[Any]:
        """Add an array. Return its type and length."""
        if sys.byteorder == "big":
            values = array(values.typecode, values)
            values.byteswap()
        self._parts.append(values.tobytes())
        return [values.typecode, len(values)]

    def raw(self, values: bytes) -> int:
        """Add bytes. Return their number."""
        self._parts.append(values)
        return len(values)

    def header_of(self, values: Given) -> Any:
        """Return a plain value, or an object with the place of the values."""
        if isinstance(values, Shared):
            return {"column": values.column}
        if isinstance(values, array):
            return {"array": self.array(values)}
        return {"list": values} if isinstance(values, tuple) else values

    def document(self, header: list[Any]) -> bytes:
        """Return everything after its header."""
        text = _as_json(header).encode()
        payload = b"".join((struct.pack("<I", len(text)), text, *self._parts))
        return bytes([VERSION]) + zlib.compress(payload, FAST)


class _FactsReader:
    """Reads values in the order in that they were written."""

    def __init__(self, document: bytes) -> None:
        if document[0] != VERSION:
            raise UnreadableReasons(
                f"reasons of version {document[0]} are stored, this program knows {VERSION}"
            )
        self._payload = zlib.decompress(memoryview(document)[1:])
        (length,) = struct.unpack_from("<I", self._payload)
        self._place = 4 + length
        self.header: list[Any] = json.loads(self._payload[4 : self._place])

    def array(self, kind: list[Any]) -> "array[Any]":
        """Return the next array."""
        values: array[Any] = array(kind[0])
        values.frombytes(self.raw(values.itemsize * kind[1]))
        if sys.byteorder == "big":
            values.byteswap()
        return values

    def raw(self, number: int) -> bytes:
        """Return the next bytes."""
        self._place += number
        return self._payload[self._place - number : self._place]

    def values_of(self, value: Any) -> Given:
        """Return the values that a header describes."""
        if not isinstance(value, dict):
            return value  # type: ignore[no-any-return]
        if "column" in value:
            return Shared(value["column"])
        return self.array(value["array"]) if "array" in value else tuple(value["list"])


@dataclass(frozen=True, slots=True)
class StoredFacts:
    """Facts, and the refusals that choices refer to by number."""

    facts: Facts
    refusals: Sequence[PackedRefusal]


def documents_of(facts: Facts, choices: Sequence[PackedChoice]) -> tuple[bytes, list[bytes]]:
    """Return the document of the shared facts, and the document of each choice."""
    # Compare identity: a shared value is one object, and comparing all others would cost much more.
    uses = Counter(id(item) for choice in choices for item in (*choice.refusals, *choice.waived))
    by_identity = {id(item): item for choice in choices for item in (*choice.refusals, *choice.waived)}
    shared = {key: number for number, key in enumerate(key for key, times in uses.items() if times > 1)}
    out = _Writer()
    header = [
        list(facts.queues),
        [_label(label) for label in facts.labels],
        [out.header_of(column if isinstance(column, array) else tuple(column)) for column in facts.columns],
        _refusals(out, [by_identity[key] for key in shared], {}),
    ]
    choice_documents = [_choice(choice, shared) for choice in choices]
    return out.document(header), choice_documents


def facts_of(document: bytes) -> StoredFacts:
    """Return the shared facts from their document."""
    read = _FactsReader(document)
    queues, labels, columns, refusals = read.header
    facts = Facts(
        queues=queues,
        labels=tuple(Label(**dict(zip(_LABEL, words, strict=True))) for words in labels),
        columns=tuple(_column(read, column) for column in columns),
    )
    return StoredFacts(facts, _refusals_of(read, refusals, ()))


def _column(read: _FactsReader, column: Any) -> Values:
    return read.values_of(column)  # type: ignore[return-value]


def _choice(choice: PackedChoice, shared: Mapping[int, int]) -> bytes:
    out, candidates = _Writer(), choice.candidates
    ordering = candidates.ordering
    header = [
        choice.task,
        choice.job_kind,
        choice.placed,
        choice.considered,
        choice.left,
        out.array(array("q", choice.jobs)),
        [
            out.array(candidates.queues),
            None if candidates.weights is None else out.array(candidates.weights),
            [[rule, out.array(values)] for rule, values in candidates.factors.items()],
            out.array(candidates.room),
            candidates.most,
            None if ordering is None else _ordering(ordering),
        ],
        _refusals(out, choice.refusals, shared),
        _refusals(out, choice.waived, shared),
    ]
    return out.document(header)


def choice_of(document: bytes, stored: StoredFacts) -> PackedChoice:
    """Return a choice from its document and the facts that it refers to."""
    read = _FactsReader(document)
    task, kind, placed, considered, remaining, jobs, candidates, refusals, waived = read.header
    return PackedChoice(
        task=task,
        job_kind=kind,
        placed=placed,
        considered=considered,
        left=remaining,
        jobs=tuple(read.array(jobs)),
        candidates=_candidates(read, *candidates),
        refusals=_refusals_of(read, refusals, stored.refusals),
        waived=_refusals_of(read, waived, stored.refusals),
    )


def _candidates(
    read: _FactsReader, queues: Any, weights: Any, factors: Any, room: Any, limit: int, ordering: Any
) -> PackedCandidates:
    rule_name_keys = None if ordering is None else dict(zip(_ORDERING, ordering, strict=True))
    return PackedCandidates(
        queues=read.array(queues),
        weights=None if weights is None else read.array(weights),
        factors={rule: read.array(values) for rule, values in factors},
        room=read.array(room),
        most=limit,
        ordering=None
        if rule_name_keys is None
        else Ordering(**rule_name_keys | {"keys": tuple(rule_name_keys["keys"])}),
    )


def _refusals(out: _Writer, refusals: Iterable[PackedRefusal], shared: Mapping[int, int]) -> list[Any]:
    """Write refusals, each in full or as a number among the shared ones."""
    return [shared[id(item)] if id(item) in shared else _refusal(out, item) for item in refusals]


def _refusal(out: _Writer, item: PackedRefusal) -> list[Any]:
    questions = [_question(field) for field in item.asked]
    return [item.label, out.raw(item.queues), out.header_of(item.need), out.header_of(item.have), questions]


def _refusals_of(
    read: _FactsReader, refusals: Iterable[Any], shared: Sequence[PackedRefusal]
) -> tuple[PackedRefusal, ...]:
    return tuple(shared[item] if isinstance(item, int) else _refusal_of(read, *item) for item in refusals)


def _refusal_of(
    read: _FactsReader, label: int, queues: int, need: Any, have: Any, questions: Any
) -> PackedRefusal:
    return PackedRefusal(
        label=label,
        queues=read.raw(queues),
        need=read.values_of(need),
        have=read.values_of(have),
        asked=tuple(Asked(**dict(zip(_ASKED, values, strict=True))) for values in questions),
    )
