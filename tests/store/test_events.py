"""Events: written with each commit, read in the order of commits, deleted when they are old."""

import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from cachetools import LRUCache
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, text

from pilotage.model.records.borrowing import Borrowing
from pilotage.model.records.matching import BorrowableAttempt, BorrowRequest, ClaimRequest, Head
from pilotage.model.records.states import JobState as J
from pilotage.model.records.states import PilotState as P
from pilotage.model.records.states import TaskState as T
from pilotage.store import LoggedEvent, Store
from pilotage.store.commit import event_retention
from pilotage.store.history.events import MOST_RECORDS, NewEvents, packed, unpacked
from pilotage.store.history.history import KNOWN_MEANINGS
from pilotage.testing import NOW
from pilotage.testing.stores import decision, elastic, move, new_jobs, new_pilot, new_task
from tests.waiting import PATIENCE


def read(store: Store, after: int = 0) -> list[LoggedEvent]:
    """Every event after one."""
    return store.event_log.page(after, store.event_log.newest(), 100_000)


def test_numbers_of_records_are_packed_in_runs() -> None:
    assert packed([7, 3, 4, 5, 9]) == "3-5 7 9"
    assert list(unpacked("3-5 7 9")) == [3, 4, 5, 7, 9]


def test_a_commit_writes_one_event_for_the_same_transition_of_a_task(store: Store) -> None:
    task, other = new_task(store), new_task(store)
    jobs, others = new_jobs(store, task, 3), new_jobs(store, other, 2)
    after = store.event_log.newest()
    moved = move("job", [*jobs, *others], J.DEFINED, J.ACTIVATED, {"queue": "CERN-q"})
    store.commit(decision(moved, time=NOW + 5), "broker")
    first, second = read(store, after)
    assert (first.kind, first.task, first.source, first.target) == ("job", task, "defined", "activated")
    assert (first.cause, first.actor, first.time) == ("test", "broker", NOW + 5)
    assert (first.records, second.records) == (tuple(jobs), tuple(others))
    assert (first.owner, first.vo) == ("alice", "atlas")


def test_events_keep_owner_and_cause_while_others_read_many(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_owners", "_meanings"):
        monkeypatch.setattr(store.event_log, name, LRUCache(1))
    made = [new_task(store) for _ in range(3)]
    for task in made:
        moved = replace(move("task", [task], T.REGISTERED, T.RUNNING), cause=f"cause {task}")
        store.commit(decision(moved), "splitter")
    found = [(event.task, event.owner, event.cause) for event in read(store) if event.target == "running"]
    assert found == [(task, "alice", f"cause {task}") for task in made]


def test_a_reader_remembers_so_many_causes_and_no_more(store: Store) -> None:
    assert store.event_log._meanings.maxsize == KNOWN_MEANINGS


def test_creations_and_ends_of_every_kind_are_events(store: Store) -> None:
    task = new_task(store)
    pilot = new_pilot(store)
    store.commit(decision(move("task", [task], T.REGISTERED, T.RUNNING)), "splitter")
    store.commit(decision(move("pilot", [pilot], P.CREATED, P.CANCELLED)), "director")
    told = [(event.kind, event.task, event.source, event.target, event.records) for event in read(store)]
    assert told == [
        ("task", task, "", "registered", (task,)),
        ("pilot", 0, "", "created", (pilot,)),
        ("task", task, "registered", "running", (task,)),
        ("pilot", 0, "created", "cancelled", (pilot,)),
    ]


def test_a_record_that_moves_twice_in_a_commit_keeps_the_order_of_its_events(store: Store) -> None:
    (job,) = new_jobs(store, new_task(store))
    after = store.event_log.newest()
    there, back = (J.DEFINED, J.PENDING), (J.PENDING, J.DEFINED)
    changes = [move("job", [job], *step) for step in (there, back, there)]
    store.commit(decision(*changes), "broker")
    assert [(event.source, event.target) for event in read(store, after)] == [there, back, there]


@given(st.lists(st.tuples(st.sampled_from("pqr"), st.sets(st.integers(1, 4), min_size=1)), max_size=12))
def test_the_events_of_a_commit_keep_the_order_of_each_record(notes: list[tuple[str, set[int]]]) -> None:
    events = NewEvents(0.0)
    noted, read = defaultdict[int, str](str), defaultdict[int, str](str)
    for meaning, records in notes:
        events.note("job", ord(meaning), 1, sorted(records))
        for record in records:
            noted[record] += meaning
    for number, _, found in events.groups:
        for record in found:
            read[record] += chr(number)
    assert read == noted


def test_many_records_make_few_small_events(store: Store) -> None:
    jobs = new_jobs(store, new_task(store), 3 * MOST_RECORDS)
    created = [event for event in read(store) if event.kind == "job"]
    assert [len(event.records) for event in created] == [MOST_RECORDS] * 3
    assert [job for event in created for job in event.records] == jobs
    longest = store.database.read(
        lambda connection: connection.execute(text("SELECT max(length(records)) FROM events")).scalar_one()
    )
    assert longest < 20


def test_jobs_that_pilots_get_are_events(store: Store) -> None:
    task = new_task(store)
    own, lent = new_jobs(store, task, 2), elastic(store, task, 1)
    store.commit(decision(move("job", own, J.DEFINED, J.ACTIVATED, {"queue": "CERN-q"})), "broker")
    pilot = new_pilot(store)
    for step in ((P.CREATED, P.SUBMITTED), (P.SUBMITTED, P.RUNNING)):
        store.commit(decision(move("pilot", [pilot], *step)), "director")
    after = store.event_log.newest()
    head = Head(requirements="r", priority=500, jobs=2)
    places: dict[str, Any] = {"preferred": "PIC-q", "queue": "CERN-q", "site": "CERN", "binding": "elastic"}
    numbers: dict[str, Any] = {"ahead": 0, "staging": 0.0, "ends_there": NOW, "ends_here": NOW}
    there = Borrowing(job=lent[0], attempt=1, time=NOW, **places, **numbers)
    attempt = BorrowableAttempt(state=J.ACTIVATED, requirements="r", borrowing=there)
    borrow = BorrowRequest(pilot=pilot, queue="CERN-q", site="CERN", jobs=(attempt,), most=1)
    store.commit(decision(ClaimRequest(pilot=pilot, queue="CERN-q", heads=(head,))), "matcher")
    store.commit(decision(borrow), "matcher")
    events = read(store, after)
    assert {(event.source, event.target, event.task, event.actor) for event in events} == {
        ("activated", "sent", task, "pilot")
    }
    assert sorted(job for event in events for job in event.records) == sorted([*own, *lent])


def test_old_events_go_in_batches_and_their_end_is_known(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_retention, "BATCH", 3)
    for at in range(5):
        new_pilot(store, time=NOW + at)
    forget = store.event_retention.forget
    assert [forget(NOW + 4), forget(NOW + 4), forget(NOW + 4)] == [3, 1, 0]
    ends = store.event_log.ends()
    assert [event.time for event in read(store)] == [NOW + 4]
    assert (ends.forgotten, ends.newest) == (read(store)[0].id - 1, read(store)[0].id)
    # The newest stays, so no number is used twice.
    assert forget(NOW + 100) == 0
    new_pilot(store)
    assert store.event_log.newest() == ends.newest + 1


@pytest.mark.slow
def test_a_reader_misses_no_event_however_commits_overlap(store: Store) -> None:
    """Writers commit side by side, some of them late; a reader sees every event once, in order."""
    jobs = new_jobs(store, new_task(store), 60)
    steps = list(pairwise((J.DEFINED, J.PENDING, J.DEFINED, J.HELD, J.DEFINED, J.PENDING)))
    start, ended, seen = store.event_log.newest(), threading.Event(), list[LoggedEvent]()
    _commit_late(store, random.Random(7))

    def write(mine: list[int]) -> None:
        for step in steps:
            for job in mine:
                store.commit(decision(move("job", [job], *step)), "tester")

    def follow() -> None:
        after, goes_on = start, True
        while goes_on:
            goes_on = not ended.is_set()
            newest = store.event_log.newest()
            seen.extend(store.event_log.page(after, newest, 100_000))
            after = newest

    reader = threading.Thread(target=follow)
    writers = [threading.Thread(target=write, args=(jobs[at::6],)) for at in range(6)]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join(PATIENCE)
    ended.set()
    reader.join(PATIENCE)
    by_job = defaultdict(list)
    for event in seen:
        by_job[event.records[0]].append((event.source, event.target))
    assert by_job == dict.fromkeys(jobs, steps)
    assert [event.id for event in seen] == sorted({event.id for event in seen})


def _commit_late(store: Store, waits: random.Random) -> None:
    """Let some commits wait between the numbers of their events and their end."""
    plain = store.database.write

    def late(
        work: Callable[[Connection], Any], alone: bool = True, tries: int = 0, is_audited: bool = True
    ) -> Any:
        def slow(connection: Connection) -> Any:
            result = work(connection)
            time.sleep(waits.uniform(0, 0.02) if waits.random() < 0.2 else 0)
            return result

        return plain(slow, alone, tries, is_audited)

    store.database.write = late  # type: ignore[method-assign]
