"""Events of circuit breakers: each change of state once, seen by everybody."""

from dataclasses import replace

from pilotage.flow.calls.places import circuit_breakers
from pilotage.model.circuit_breakers.breaker import EVERYBODY, CircuitBreaker
from pilotage.model.circuit_breakers.changes import NotedKey, breaker_changes
from pilotage.model.circuit_breakers.storages import FailedDelivery
from pilotage.model.documents.decision import Create, NoteBreakers
from pilotage.model.records.federation import StagingConstants
from pilotage.model.values.identity import Credential, Identity
from pilotage.server.api.work.event_hub import EventFilter
from pilotage.store import LoggedEvent
from pilotage.testing.stores import decision

from .house import ALICE, House

BREAKER = CircuitBreaker(kind="storage", place=("far", ""), since=10, until=70, failures=3, error="no")
BOB = Identity(name="bob", vo="atlas")
KEY: NotedKey = (BREAKER.key, EVERYBODY)


def test_changes_are_between_what_is_noted_and_what_has_tripped() -> None:
    (opened,) = breaker_changes({}, [BREAKER], 20)
    assert (opened.source, opened.target) == ("closed", "open")
    assert opened.cause == "reading from far: deliveries failed"
    (probed,) = breaker_changes({KEY: "open"}, [BREAKER], 80)
    assert (probed.source, probed.target) == ("open", "half-open")
    (closed,) = breaker_changes({KEY: "half-open"}, [], 90)
    assert (closed.source, closed.target, closed.key) == ("half-open", "closed", BREAKER.key)
    assert breaker_changes({KEY: "open"}, [BREAKER], 20) == ()


def test_a_breaker_of_one_owner_or_task_names_nobody_to_others(house: House) -> None:
    number = house.task(owner=BOB)
    both = [
        CircuitBreaker(
            kind="queue", place=("north", ""), whose=whose, since=10, until=70, failures=3, error="no"
        )
        for whose in (("atlas", "bob", 0), ("atlas", "bob", number))
    ]
    changes = breaker_changes({}, both, 20)
    house.store.commit(decision(NoteBreakers(changes=changes)), "test")
    of_owner, of_task = told(house)
    assert of_owner.cause == "jobs at north for one person: jobs failed fast"
    assert of_task.task == number
    seen = {
        name: [one.takes(event) for event in (of_owner, of_task)]
        for name, one in (
            ("alice", EventFilter.of(Credential(role="user", identity=ALICE), (), ())),
            ("bob", EventFilter.of(Credential(role="user", identity=BOB), (), ())),
        )
    }
    assert seen == {"alice": [True, False], "bob": [True, True]}


def fail(house: House, time: float) -> None:
    """Let three deliveries from a storage to two others fail."""
    failures = [
        FailedDelivery(
            transfer=number,
            attempt=1,
            file=f"f{number}",
            source="south-disk",
            destination="",
            time=time + number,
            error="no",
        )
        for number in range(1, 4)
    ]
    house.store.commit(decision(Create(records=tuple(failures), cause="test"), time=time), "test")


def told(house: House) -> list[LoggedEvent]:
    log = house.store.event_log
    return [one for one in log.page(0, log.newest(), 100) if one.kind == "breaker"]


def test_each_change_of_a_breaker_is_one_event_that_everybody_sees(house: House) -> None:
    known = house.store.federation()
    staging = StagingConstants(failing_files=3, storage_rest=60)
    house.store.save_federation(replace(known, staging=staging), "test")
    fail(house, house.now)
    house.now += 5
    circuit_breakers.note(house.runtime, "note-breakers")
    circuit_breakers.note(house.runtime, "note-breakers")
    (opened,) = told(house)
    assert (opened.source, opened.target, opened.actor) == ("closed", "open", "note-breakers")
    assert "south-disk" in opened.cause
    house.now += 100
    circuit_breakers.note(house.runtime, "note-breakers")
    circuit_breakers.lift(house.runtime, "south-disk", "olga")
    assert [(one.source, one.target, one.actor) for one in told(house)] == [
        ("closed", "open", "note-breakers"),
        ("open", "half-open", "note-breakers"),
        ("half-open", "closed", "olga"),
    ]
    assert len({one.records for one in told(house)}) == 1
    assert house.store.noted_breakers() == {}
    person = Credential(role="user", identity=ALICE)
    assert EventFilter.of(person, ["breaker"], ()).takes(opened)
    assert not EventFilter.of(person, ["breaker"], [1]).takes(opened)
