"""A world without a subject has none of its records: whoever adds a field says whose they are."""

from dataclasses import fields, is_dataclass
from typing import get_args, get_type_hints

from pilotage.model.documents.subjects import RECORDS_OF
from pilotage.model.documents.world import World

STAY = {
    "what is known of a place, whoever it was learnt from": {
        *(("failures", name) for name in ("queue", "job", "pilot")),
        *(("failed_deliveries", name) for name in ("transfer", "job", "task", "file")),
        *(("storage_spaces", "storage"), ("space_sightings", "storage"), ("copies_sizes", "storage")),
    },
    "what was made already, and is there": {("files", "task"), ("files", "job"), ("copies", "storage")},
    "left out with the pilots that are there": {
        ("pilots", "queue"),
        ("pilots", "site"),
        ("requests", "queue"),
    },
    "jobs that run elsewhere, or wait without a queue": {
        *(("borrowings", "queue"), ("borrowings", "site"), ("ahead", "queue"), ("ahead", "pilot")),
    },
    "results that wait: without them their attempts would end": {
        *(("waiting_results", name) for name in ("job", "pilot", "queue")),
    },
    "times that are over": {("absences", "queue")},
    "no subject with these": {("transfers", "file"), ("publications", "file")},
}
"""Records with an attribute of a subject's name that stay where the subject is left out, and why."""


def test_every_field_says_whose_its_records_are() -> None:
    stay = set[tuple[str, str]]().union(*STAY.values())
    named = {(name, key) for of in RECORDS_OF.values() for name, key in of.items()}
    found = {
        (name, one.name)
        for name, hint in get_type_hints(World).items()
        for record in get_args(hint)[:1]
        if is_dataclass(record)
        for one in fields(record)
        if one.name in RECORDS_OF
    }
    assert sorted(found - named - stay) == [], "say in RECORDS_OF whose these are, or here why they stay"
    assert sorted(stay - found) == []


def test_every_record_has_the_attribute_that_says_whose_it_is() -> None:
    hints = get_type_hints(World)
    named = [(name, key) for of in RECORDS_OF.values() for name, key in of.items() if key]
    missing = [
        (name, key)
        for name, key in named
        if key not in {one.name for one in fields(get_args(hints[name])[0])}
    ]
    assert missing == []
