"""Whatever is done to a good document, an import gives a sound federation or refusals, and never breaks."""

import copy
import json
import math
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilotage.federation.checks import federation_faults
from pilotage.federation.documents import read, write
from pilotage.federation.importers import IMPORTERS, Imported, ImportSource
from pilotage.model.records.federation import Federation
from tests.properties import examples

from .test_import_cric import ENDPOINT, LINKS, QUEUE, SITES
from .test_import_gfactory import entry, factory

pytestmark = pytest.mark.slow

XML = factory(
    entry("A"),
    entry("B", attrs={"GLIDEIN_CPUS": "auto", "GLIDEIN_MaxMemMBs": ""}, submit={"+maxMemory": "16000"}),
    entry(
        "C", head={"rsl": "(count=8)(memory=4000)"}, attrs={"GLIDEIN_MaxMemMBs": None, "GLIDEIN_Site": "B"}
    ),
)
CRIC = {
    "queues": {
        "AGLT2": QUEUE,
        "UNIFIED": {**QUEUE, "capability": "ucore"},
        "CHILD": {**QUEUE, "parent": "UNIFIED", "corecount": 1},
    },
    "sites": SITES,
    "storages": {"AGLT2_DATADISK": ENDPOINT},
    "blacklist": {"AGLT2_DATADISK": {"write_wan": {"status": {"value": "OFF"}}}},
    "usage": {"AGLT2_DATADISK": {"storage": {"free": 5e12}}},
    "software": {
        "AGLT2": {"containers": ["any"], "tags": [{"sources": ["/a"]}], "architectures": [{"type": "cpu"}]},
        "ALL": {"tags": [{"container_name": "a", "sources": ["/a"]}]},
    },
    "closeness": LINKS[0],
}

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        ["", "-1", "0", "999999", "1e400", "auto", "AGLT2", "\ud800", "\x00", "a" * 300, 10**40, -1]
    ),
    st.lists(st.integers() | st.text(max_size=3), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers() | st.none(), max_size=2),
)


SOUND: set[str] = set()
"""Federations that were found sound."""


def holds(kind: str, text: str) -> Imported:
    """What must be true of any import of a document."""
    result = IMPORTERS[kind]([ImportSource("fuzz", text)], "fuzz")
    house = result.federation
    if house is None:
        assert result.refusals
        return result
    if repr(house) not in SOUND:  # most changes of a document leave the federation as it was
        assert federation_faults(house) == []
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "federation.yaml"
            file.write_text(write(house), encoding="utf-8")
            assert read(Federation, file) == house
        SOUND.add(repr(house))
    for note in result.notes:
        assert str(note).isprintable()
        json.dumps(note.value).encode()
    return result


@st.composite
def cut_and_spliced(draw: st.DrawFn, text: str) -> str:
    """The text with some pieces left out, doubled, moved or overwritten."""
    for _ in range(draw(st.integers(1, 4))):
        start, end = sorted(draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
        end = min(end, start + draw(st.sampled_from([0, 1, 3, 20, 400])))
        piece = draw(
            st.sampled_from(["", text[start:end] * 2, "0", "-", '"', "<", "&", "{", "\n", "é"]) | st.text()
        )
        text = text[:start] + piece + text[end:]
    return text


@settings(max_examples=examples(1.5), deadline=None)
@given(cut_and_spliced(XML))
def test_any_mutilated_factory_gives_a_federation_or_refusals(text: str) -> None:
    holds("gfactory", text)


@settings(max_examples=examples(1.5), deadline=None)
@given(cut_and_spliced(json.dumps(CRIC)))
def test_any_mutilated_cric_document_gives_a_federation_or_refusals(text: str) -> None:
    holds("cric", text)


ATTRIBUTE_NAMES = [
    "GLIDEIN_CPUS",
    "GLIDEIN_MaxMemMBs",
    "GLIDEIN_Max_Walltime",
    "GLIDEIN_Site",
    "GLIDEIN_Supported_VOs",
]
ATTRIBUTES = st.sampled_from(ATTRIBUTE_NAMES)
WORDS = st.one_of(
    st.none(),
    st.integers().map(str),
    st.floats().map(str),
    st.sampled_from(["", "auto", "True", "8 GB", "é", "a,b"]),
)


@settings(max_examples=examples(1.5), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("ABC"), st.dictionaries(ATTRIBUTES, WORDS)), min_size=1, max_size=5)
)
def test_each_entry_becomes_a_queue_or_one_refusal(entries: list[tuple[str, dict[str, str | None]]]) -> None:
    result = holds("gfactory", factory(*(entry(name, attrs=attrs) for name, attrs in entries)))
    queues = len(result.federation.queues) if result.federation else 0
    assert result.entries == len(entries) == queues + len(result.refusals)


def places(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value."""
    items = document.items() if isinstance(document, dict) else enumerate(document)
    found = [path] if path else []
    for key, value in items:
        inner = (*path, key)
        found += places(value, inner) if isinstance(value, dict | list) else [inner]
    return found


PLACES = places(CRIC)
EXTREMES = [5e-324, 1e-88, -1e-88, -0.0, 1e308, -1e308, math.inf, math.nan, 10**40, -(10**40)]


@pytest.mark.parametrize("number", EXTREMES)
def test_an_extreme_number_at_any_place_gives_a_federation_or_refusals(number: float) -> None:
    """The importer must bring every number within the bounds that a federation is read with."""
    for path in PLACES:
        document = copy.deepcopy(CRIC)
        at: Any = document
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = number
        holds("cric", json.dumps(document))
    for attribute in ATTRIBUTE_NAMES:
        holds("gfactory", factory(entry("A", attrs={attribute: f"{number:.400f}".rstrip("0")})))


@settings(max_examples=examples(3), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PLACES), VALUES), min_size=1, max_size=3))
def test_any_value_anywhere_in_cric_documents_gives_a_federation_or_refusals(
    changes: list[tuple[tuple[Any, ...], Any]],
) -> None:
    document: Any = copy.deepcopy(CRIC)
    for path, value in changes:
        with suppress(KeyError, IndexError, TypeError):  # an earlier change took the place away
            holder = document
            for key in path[:-1]:
                holder = holder[key]
            holder[path[-1]] = value
    holds("cric", json.dumps(document))
