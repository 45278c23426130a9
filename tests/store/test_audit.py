"""The audit: a record commits with its change, links show what is missing, and nothing grows for ever."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Connection, delete, func, select, update

from pilotage.model.records.audit import LONGEST_TEXT, NewAuditRecord
from pilotage.model.records.states import TaskState as T
from pilotage.model.values.durations import DAY, HOUR
from pilotage.model.values.identity import Credential, Identity, Owners, WholeVo
from pilotage.store import Act, AuditQuery, Description, Store, acting, note_act
from pilotage.store.audit.chain import FORGOTTEN, LINKED
from pilotage.store.audit.refusals import MOST_ADDRESSES, MOST_READS, Refusals
from pilotage.store.audit.table import audit_links as links
from pilotage.store.audit.table import audit_records as rows
from pilotage.store.database.acts import ACT
from pilotage.store.history.numbers import numbers
from pilotage.store.jobs.ended_attempts import ADDED
from pilotage.store.restored import restored
from pilotage.testing import ALICE, NOW
from pilotage.testing.stores import decision, move, new_task

BOB = Identity(name="bob", vo="belle")


def act_of(store: Store, verb: str = "cancel", who: Identity = ALICE, **facts: Any) -> Act:
    credential = Credential(role="user", identity=who)
    act = Act(
        store.clock, "north", credential=credential, token="3f1c", describe=lambda: Description(verb=verb)
    )
    act.note(**facts)
    return act


def add(store: Store, count: int, verb: str = "cancel", who: Identity = ALICE, **facts: Any) -> None:
    for _ in range(count):
        store.audit.write(act_of(store, verb, who, **facts))


def write(store: Store, statement: Any) -> None:
    store.database.write(lambda connection: connection.execute(statement) and None)


def faults(store: Store, most: int = 1000) -> list[tuple[int, str]]:
    after, found = 0, []
    while True:
        check = store.audit.verify(after, most)
        found += [(fault.record, fault.text) for fault in check.faults]
        if not (after := check.next):
            return found


def count(store: Store, table: Any) -> int:
    return store.database.read(
        lambda connection: int(connection.execute(select(func.count()).select_from(table)).scalar_one())
    )


def test_a_change_and_its_record_commit_together(store: Store) -> None:
    task = new_task(store)
    with acting(act := act_of(store)):
        store.commit(decision(move("task", [task], T.REGISTERED, T.CANCELLED)), "user:alice")
        store.commit(decision(move("task", [task], T.CANCELLED, T.WAITING)), "user:alice")
    assert act.is_recorded
    (record,) = store.audit.page(AuditQuery())
    assert (record.verb, record.person, record.vo, record.role) == ("cancel", ALICE.name, ALICE.vo, "user")
    assert (record.token, record.server) == ("3f1c", "north")
    assert (record.before, record.after) == ({f"task {task}": "registered"}, {f"task {task}": "cancelled"})


def test_a_change_that_fails_leaves_no_record(store: Store) -> None:
    def fail(_: Connection) -> bool:
        raise ValueError("no")

    with acting(act := act_of(store)):
        with pytest.raises(ValueError, match="no"):
            store.database.write(fail)
        # Another one has moved it: nothing of the decision is left.
        store.commit(decision(move("task", [new_task_without(store)], T.WAITING, T.REGISTERED)), "user:alice")
        assert not act.is_recorded
        assert store.tokens.revoke("3f1c09aa7be2") is None
    assert act.is_due
    assert not [*store.audit.page(AuditQuery())]


def new_task_without(store: Store) -> int:
    """A new task that is no part of the current act."""
    token = ACT.set(None)
    try:
        return new_task(store)
    finally:
        ACT.reset(token)


def test_loops_and_pilots_leave_no_record(store: Store) -> None:
    task = new_task(store)
    store.commit(decision(move("task", [task], T.REGISTERED, T.CANCELLED)), "watch")
    note_act(before={"a": 1})
    assert not [*store.audit.page(AuditQuery())]


def test_texts_are_bounded(store: Store) -> None:
    add(store, 1, record="x" * 9000, why="y" * 9000, before={"z" * 999: "a" * 9000})
    add(store, 1, after={str(number): "b" * 9000 for number in range(500)})
    (many, long) = store.audit.page(AuditQuery())
    assert len(long.record) == LONGEST_TEXT
    assert {len(name) for name in long.before} == {LONGEST_TEXT}
    assert len(repr(many)) < 6000


def test_people_see_what_they_did_and_what_was_done_to_theirs(store: Store) -> None:
    add(store, 2)
    add(store, 1, "read", BOB, owner=ALICE)
    add(store, 1, "submit", BOB)
    add(store, 1, "submit", Identity(name=ALICE.name, vo="belle"))

    def seen(sight: Owners, **query: Any) -> list[str]:
        return [record.verb for record in store.audit.page(AuditQuery(sight=sight, **query))]

    alice = ALICE
    assert seen(alice) == ["read", "cancel", "cancel"]
    assert seen(WholeVo("belle")) == ["submit", "submit", "read"], "a whole VO"
    assert len(seen(None)) == 5
    assert seen(None, person="bob", verb="submit") == ["submit"]
    (read, cancel, _) = store.audit.page(AuditQuery(sight=alice))
    assert (read.token, cancel.token) == ("", "3f1c"), "of others, people see what they did alone"
    assert {record.token for record in store.audit.page(AuditQuery())} == {"3f1c"}
    assert seen(None, since=store.clock() + 60) == []
    assert seen(None, until=1.0) == []


def test_pages_go_in_both_directions(store: Store) -> None:
    add(store, 5)
    first = store.audit.page(AuditQuery(limit=2))
    then = store.audit.page(AuditQuery(limit=9, after=first.next))
    every = [record.id for record in (*first, *then)]
    assert every == sorted(every, reverse=True)
    assert len(every) == 5
    oldest = store.audit.page(AuditQuery(limit=3, oldest_first=True))
    rest = store.audit.page(AuditQuery(oldest_first=True, after=str(oldest[-1].id)))
    assert [record.id for record in (*oldest, *rest)] == every[::-1]


def test_parallel_changes_are_all_linked_once(store: Store) -> None:
    with ThreadPoolExecutor(6) as pool:
        for number in range(60):
            pool.submit(add, store, 1, f"verb {number}")
            if number % 10 == 0:
                pool.submit(store.audit.link)
    for _ in range(2):
        store.audit.link()
    assert (count(store, rows), count(store, links)) == (60, 60)
    assert faults(store) == faults(store, 7) == []


TAMPERS: dict[str, tuple[Callable[[], list[Any]], list[tuple[int, str]]]] = {
    "changed": (
        lambda: [update(rows).where(rows.c.id == 3).values(person="mallory")],
        [(3, "the record was changed")],
    ),
    "deleted": (lambda: [delete(rows).where(rows.c.id == 3)], [(3, "the record is missing")]),
    "deleted with its link": (
        lambda: [
            delete(table).where(key == 3) for table, key in ((rows, rows.c.id), (links, links.c.record))
        ],
        [(4, "records between 2 and 4 are missing")],
    ),
    "deleted at the end": (
        lambda: [delete(table).where(key > 4) for table, key in ((rows, rows.c.id), (links, links.c.record))],
        [(6, "records from 5 to 6 are missing")],
    ),
    "deleted at the beginning": (
        lambda: [delete(table).where(key < 3) for table, key in ((rows, rows.c.id), (links, links.c.record))],
        [(3, "records between 0 and 3 are missing")],
    ),
    "link changed": (
        lambda: [update(links).where(links.c.record == 3).values(hash="0" * 64)],
        [(3, "the record was changed"), (4, "the record was changed")],
    ),
}


@pytest.mark.parametrize("how", TAMPERS)
def test_what_was_deleted_or_changed_is_named(store: Store, how: str) -> None:
    add(store, 6)
    store.audit.link()
    statements, expected = TAMPERS[how]
    for statement in statements():
        write(store, statement)
    assert faults(store) == expected
    add(store, 1)
    store.audit.link()
    # SQLite has numbered the new record like a deleted one at the end.
    later = expected if how != "deleted at the end" else faults(store)
    assert faults(store, 2) == later != [], "also later, and in small parts"


def test_an_added_record_is_named(store: Store) -> None:
    add(store, 3)
    store.audit.link()
    write(store, delete(links).where(links.c.record == 2))
    assert faults(store) == [(2, "the record was added later"), (3, "records between 1 and 3 are missing")]


def test_old_records_go_and_the_chain_goes_on(store: Store) -> None:
    add(store, 5)
    assert store.audit.forget(store.clock() + DAY) == 0, "none has a link yet"
    store.audit.link()
    assert store.audit.forget(store.clock() - DAY) == 0
    assert [record.id for record in store.audit.old(store.clock() + DAY, 3)] == [1, 2, 3]
    assert store.audit.forget(store.clock() + DAY, 3) == 3
    assert faults(store) == []
    assert store.audit.forget(store.clock() + DAY) == 1, "the newest stays: the next number follows it"
    assert (count(store, rows), count(store, links)) == (1, 2)
    add(store, 2)
    store.audit.link()
    assert faults(store) == faults(store, 1) == []
    write(store, delete(links).where(links.c.record == 4))
    assert faults(store)[0] == (4, "the link that the next one goes on from is missing")


def test_the_chain_and_attempts_go_on_after_a_restore(store: Store) -> None:
    add(store, 3)
    store.audit.link()
    write(store, numbers.insert().values(kind=ADDED, last=7))
    with acting(act_of(store, "restore")):
        restored(store)
    marks = dict(
        store.database.read(
            lambda connection: connection.execute(select(numbers.c.kind, numbers.c.last)).all()
        )
    )
    assert (marks[LINKED], marks[ADDED]) == (3, 7)
    assert FORGOTTEN not in marks
    store.audit.link()
    assert faults(store) == []


class Clock:
    now = NOW

    def __call__(self) -> float:
        return self.now


def test_refused_sign_ins_are_counted_and_bounded() -> None:
    clock = Clock()
    refusals = Refusals(clock)
    for _ in range(1000):
        refusals.count("10.1.1.1", "expired")
    (first,) = refusals.take("north")
    assert (first.verb, first.address, first.why, first.times) == (
        "sign-in refused",
        "10.1.1.1",
        "expired",
        1000,
    )
    for number in range(5000):
        refusals.count(f"10.2.{number}", "unknown")
        refusals.count("10.1.1.1", "expired")
    taken = refusals.take("north")
    assert sum(record.times for record in taken) == 5000, "of the first address only when the hour is over"
    assert len(taken) == MOST_ADDRESSES
    assert refusals.take("north") == []
    clock.now += HOUR
    (last,) = refusals.take("north")
    assert (last.address, last.times) == ("10.1.1.1", 5000)
    assert refusals.take("north") == []


def test_refusals_that_could_not_be_written_are_counted_again() -> None:
    refusals = Refusals(Clock())
    refusals.count("10.1.1.1", "expired")
    refusals.restore(refusals.take("north"))
    refusals.count("10.1.1.1", "expired")
    assert [record.times for record in refusals.take("north")] == [2]


def test_reads_of_others_are_bounded(store: Store) -> None:
    assert store.audit.is_new_read(BOB, "/tasks/1")
    store.audit.note_read(BOB, "/tasks/1")
    assert not store.audit.is_new_read(BOB, "/tasks/1")
    for number in range(MOST_READS - 1):
        assert store.audit.is_new_read(BOB, f"/jobs/{number}")
        store.audit.note_read(BOB, f"/jobs/{number}")
    assert not store.audit.is_new_read(BOB, "/tasks/2")
    assert store.audit.is_new_read(ALICE, "/tasks/1")


def test_the_store_writes_counted_refusals_with_its_measurements(store: Store) -> None:
    store.audit.refusals.count("10.1.1.1", "expired")
    store.add_measurements()
    store.add_measurements()
    (record,) = store.audit.page(AuditQuery())
    assert (record.verb, record.times) == ("sign-in refused", 1)
    assert isinstance(record, NewAuditRecord)
    assert faults(store) == []
    assert store.audit.verify(0, 10).records == 1
