"""Counters and events are the truth: random walks through all that may happen."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from sqlalchemy import func, select

from pilotage.model.documents.decision import Change, Create, Move, Value
from pilotage.model.records.counters import COUNTERS, Claim
from pilotage.model.records.states import TRANSITIONS, Kind, State
from pilotage.model.records.work import File, NewJob, NewPilot, NewTask, TaskSpec
from pilotage.store import Store
from pilotage.store.jobs.counters import counts
from pilotage.store.jobs.table import jobs
from pilotage.store.jobs.task_queues import LEVELS
from pilotage.store.records import RECORDS
from pilotage.testing import ALICE, NOW
from pilotage.testing.stores import decision, new_transfer

QUEUES, SHARES, STORAGES = ("q1", "q2", "q3"), ("s1", "s2"), ("d1", "d2")
STEPS: dict[Kind, list[tuple[State, State]]] = {
    kind: [(source, target) for of, source, target in TRANSITIONS if of == kind and source is not None]
    for kind in RECORDS
}


class Walk:
    """Makes and moves records at random, right and wrong ones."""

    def __init__(self, store: Store, seed: int) -> None:
        self.store = store
        self.random = random.Random(seed)
        self.made: Counter[Kind] = Counter()
        self.accepted = 0

    def step(self, time: float) -> None:
        changes = [self.random.choice([self.create, self.move, self.move, self.move])() for _ in range(4)]
        committed = self.store.commit(decision(*changes, time=time), "walk")
        self.accepted += sum(map(len, committed.accepted))
        for change, created in zip(changes, committed.created, strict=True):
            records = change.records if isinstance(change, Create) else ()
            for record, id_ in zip(records, created, strict=True):
                kind = {NewTask: "task", NewJob: "job", NewPilot: "pilot"}.get(type(record), "transfer")
                self.made[kind] += id_ is not None  # type: ignore[index]

    def create(self) -> Change:
        pick = self.random.choice
        count = self.random.randint(1, 8)
        if not self.made["task"] or self.random.random() < 0.2:
            return Create(records=(NewTask(spec=TaskSpec(name="t"), owner=ALICE),), cause="c")
        records: Any = {
            "job": lambda: NewJob(
                task=self.random.randint(1, self.made["task"]),
                kind="normal",
                share=pick(SHARES),
                priority=self.random.randint(1, 900),
                requirements=pick(("r1", "r2")),
            ),
            "transfer": lambda: new_transfer(
                f"f{self.random.randint(0, 9)}", pick(STORAGES), source=pick(STORAGES), share=pick(SHARES)
            ),
            "pilot": lambda: NewPilot(
                queue=pick(QUEUES),
                requirements="r",
                kind="generic",
                owner=ALICE,
                cores=1,
                memory=1,
                walltime=1,
            ),
        }[pick(("job", "job", "transfer", "pilot"))]
        return Create(records=tuple(records() for _ in range(count)), cause="c")

    def move(self) -> Change:
        kind: Kind = self.random.choice(("job", "job", "job", "transfer", "pilot", "task"))
        source, target = self.random.choice(STEPS[kind])
        top = self.made[kind] + 2
        ids = tuple(self.random.randint(1, top) for _ in range(self.random.randint(1, top)))
        changes: dict[str, Value] = {}
        if kind == "job" and self.random.random() < 0.5:
            changes["queue"] = self.random.choice(("", *QUEUES))
        if kind == "transfer" and self.random.random() < 0.5:
            changes["source"] = self.random.choice(STORAGES)
        return Move(
            kind=kind,
            ids=ids,
            source=source,
            target=target,
            cause="walk",
            changes=changes,
            attempts=tuple(self.random.choice((1, 1, 2)) for _ in ids)
            if self.random.random() < 0.3
            else None,
            next_attempt=kind in ("job", "transfer") and self.random.random() < 0.3,
            claims=self.claims(kind),
        )

    def claims(self, kind: Kind) -> tuple[Claim, ...]:
        if kind != "job" or self.random.random() < 0.7:
            return ()
        state = self.random.choice(STEPS["job"])[1]
        return (
            Claim(
                counter="jobs_by_queue", key=("q1", None), states=(state,), limit=self.random.randint(0, 5)
            ),
        )


def all_rows(store: Store, query: Any) -> Sequence[Any]:
    return store.database.read(lambda connection: connection.execute(query).all())


def counted(store: Store) -> Iterator[tuple[tuple[Any, ...], int]]:
    """Every counter as a real count of the records."""
    for name, (kind, columns) in COUNTERS.items():
        table = RECORDS[kind]
        keys = [table.c[column] for column in columns]
        query = select(*keys, table.c.state, func.count()).group_by(*keys, table.c.state)
        for *key, state, count in all_rows(store, query):
            first, *rest = map(str, key)
            second = " ".join(rest)
            yield (name, first, second, state), count


def kept(store: Store) -> dict[tuple[Any, ...], int]:
    sums: Counter[tuple[Any, ...]] = Counter()
    for *key, count in all_rows(store, select(counts)):
        sums[tuple(key)] += count
    return {key: count for key, count in sums.items() if count}


def standing(store: Store) -> tuple[dict[tuple[Any, ...], int], dict[tuple[Any, ...], int]]:
    """Task queues as the commit keeps them, and as a real count of the jobs."""
    columns = (jobs.c.queue, jobs.c.requirements, jobs.c.priority)
    real = select(*columns, func.count()).where(jobs.c.state == "activated").group_by(*columns)
    return tuple({tuple(key): count for *key, count in all_rows(store, query)} for query in (LEVELS, real))  # type: ignore[return-value]


def replayed(store: Store) -> dict[tuple[str, int], tuple[str, ...]]:
    """The states of every record by its events; each must begin where the one before it ended."""
    found: dict[tuple[str, int], tuple[str, ...]] = {}
    for kind, table in RECORDS.items():
        for (record,) in all_rows(store, select(table.c.id)):
            happened = store.queries.events(kind, record)
            sources, targets = [e.source for e in happened], [e.target for e in happened]
            assert sources == [None, *targets[:-1]]
            found[kind, record] = tuple(targets)
    return found


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.endurance) for seed in (2, 3))]
)
def test_counters_and_events_agree_with_the_records(store: Store, seed: int) -> None:
    walk = Walk(store, seed)
    names = [f"f{n}" for n in range(10)]
    store.commit(
        decision(Create(records=tuple(File(name=n, size=1, checksum="") for n in names), cause="c")),
        "walk",
    )
    for step in range(120):
        walk.step(NOW + step)
    assert walk.accepted > 100
    assert kept(store) == dict(counted(store))
    assert standing(store)[0] == standing(store)[1]
    history = replayed(store)
    for kind, table in RECORDS.items():
        assert dict(map(tuple, all_rows(store, select(table.c.id, table.c.state)))) == {
            id_: states[-1] for (of, id_), states in history.items() if of == kind
        }
    assert sum(len(states) - 1 for states in history.values()) == walk.accepted
