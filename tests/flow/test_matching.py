"""Matches from memory: exact however old the memory is, and no attempt twice (P13)."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from sqlalchemy import Connection, func, select

from pilotage.flow.errors import PilotGone
from pilotage.flow.matching.matching import Matching
from pilotage.model.records.federation import ComputingElement
from pilotage.model.records.matching import MatchRequest
from pilotage.model.records.states import JobState, PilotState
from pilotage.model.records.work import File
from pilotage.store import Store
from pilotage.store.jobs.counters import job_deltas
from pilotage.testing import NOW, requirements
from pilotage.testing.stores import FEDERATION, create, move, moved, new_jobs, new_pilot, new_task, states

QUEUE = "CERN-q"
J, P = JobState, PilotState


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    store = Store.open(store_url)
    queues = tuple(replace(queue, computing_element=ComputingElement()) for queue in FEDERATION.queues)
    store.save_federation(replace(FEDERATION, queues=queues), "tester")
    yield store
    store.close()


def activated(store: Store, task: int, count: int, memory: int, priority: int) -> list[int]:
    ids = new_jobs(store, task, count, requirements=requirements(memory=memory), priority=priority)
    moved(store, move("job", ids, J.DEFINED, J.ACTIVATED, {"queue": QUEUE}))
    return ids


def running(store: Store) -> int:
    pilot = new_pilot(store)
    moved(store, move("pilot", [pilot], P.CREATED, P.RUNNING))
    return pilot


def asked(store: Store, pilot: int, max_jobs: int = 1) -> MatchRequest:
    record = store.queries.pilot(pilot)
    assert record is not None
    return MatchRequest(
        pilot=pilot,
        queue=QUEUE,
        kind=record.kind,
        owner=record.owner,
        cores=max_jobs,
        memory=0,
        walltime=1e6,
        max_jobs=max_jobs,
    )


def counts(store: Store) -> dict[JobState, int]:
    (queue,) = (queue for queue in store.queries.queues() if queue.name == QUEUE)
    return dict(queue.jobs)


def left_beside(store: Store) -> int:
    def read(connection: Connection) -> int:
        return connection.execute(select(func.count()).select_from(job_deltas)).scalar_one()

    return store.database.read(read)


@pytest.mark.parametrize("max_jobs", [1, 7])
def test_two_servers_give_every_job_once_and_no_empty_answer_while_work_waits(
    store: Store, max_jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = new_task(store)
    ids = [id_ for memory in range(6) for id_ in activated(store, task, 20, memory, 100 + memory)]
    servers = [Matching(store), Matching(store)]
    pilots = [running(store) for _ in range(4)]

    def ask(number: int) -> list[list[tuple[int, int]]]:
        answers: list[list[tuple[int, int]]] = []
        request = asked(store, pilots[number], max_jobs)
        while not answers or answers[-1]:
            jobs = servers[number % 2].match(request, NOW, number).jobs
            answers.append([(job.id, job.attempt) for job in jobs])
        return answers

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(ask, range(4)))
    given = [attempt for answers in found for jobs in answers for attempt in jobs]
    assert sorted(given) == [(id_, 1) for id_ in sorted(ids)]
    assert set(states(store, task).values()) == {J.SENT}
    assert counts(store) == {J.SENT: len(ids)}
    matched = [pilot.matched for pilot in store.queries.pilots(P.RUNNING, None, 10)]
    assert sum(matched) == len(ids)
    history = store.queries.events("job", ids[0])
    assert [event.target for event in history] == [J.DEFINED, J.ACTIVATED, J.SENT]
    if store.database.is_postgresql:
        assert left_beside(store) > 0
    monkeypatch.setattr("pilotage.store.store.FOLDED_AFTER", 1)
    moved(store, move("job", ids[:1], J.SENT, J.RUNNING), move("job", ids[:1], J.RUNNING, J.FINISHED))
    assert left_beside(store) == 0
    assert counts(store) == {J.SENT: len(ids) - 1, J.FINISHED: 1}
    # What was left beside the counters is added to them by the next commit that runs alone.
    new_jobs(store, task)
    assert counts(store) == {J.SENT: len(ids) - 1, J.FINISHED: 1}


# What was known is Python's, whatever the database: once is enough for daily.
@pytest.mark.parametrize(
    "store_url", ["sqlite", pytest.param("postgresql", marks=pytest.mark.endurance)], indirect=True
)
@pytest.mark.slow
def test_old_knowledge_keeps_the_proportions(store: Store) -> None:
    task = new_task(store)
    pilot = running(store)
    firsts: Counter[int] = Counter()
    for number in range(150):
        (high,) = activated(store, task, 1, 1, 900)
        others = [*activated(store, task, 1, 1, 300), *activated(store, task, 1, 2, 600)]
        matching = Matching(store)
        matching.match(replace(asked(store, pilot), cores=0), NOW, number)
        # Somebody else takes the head of the first task queue: its claim falls from 900 to 300.
        moved(store, move("job", [high], J.ACTIVATED, J.CANCELLED))
        (job,) = matching.match(asked(store, pilot), NOW, number).jobs
        firsts[job.priority] += 1
        moved(store, move("job", set(others) - {job.id}, J.ACTIVATED, J.CANCELLED))
    assert firsts[900] == 0
    assert firsts[600] / firsts[300] == pytest.approx(2, rel=0.6)


def test_jobs_that_come_are_known_at_once_and_a_pilot_that_ends_is_refused(store: Store) -> None:
    matching, task, pilot = Matching(store), new_task(store), running(store)
    assert matching.match(asked(store, pilot), NOW, 1).jobs == ()
    (job,) = activated(store, task, 1, 0, 500)
    (given,) = matching.match(asked(store, pilot), NOW, 1).jobs
    assert (given.id, given.state, given.pilot) == (job, J.SENT, pilot)
    moved(store, move("pilot", [pilot], P.RUNNING, P.FINISHED))
    activated(store, task, 1, 0, 500)
    with pytest.raises(PilotGone):
        matching.match(asked(store, pilot), NOW, 1)


def test_p13_of_one_priority_the_oldest_job_goes_first_whatever_its_number(store: Store) -> None:
    """Two servers make jobs at the same time: the slower one's may be older, with higher numbers."""
    task, pilot = new_task(store), running(store)
    wanted = requirements()
    made = [new_jobs(store, task, 2, requirements=wanted, time=NOW - age) for age in (10, 1000, 100)]
    young, old, middle = made
    moved(store, move("job", [id_ for ids in made for id_ in ids], J.DEFINED, J.ACTIVATED, {"queue": QUEUE}))
    matching = Matching(store)
    first = matching.match(asked(store, pilot, 3), NOW, 1).jobs
    assert sorted(job.id for job in first) == [*old, middle[0]]
    rest = [job.id for _ in range(3) for job in matching.match(asked(store, pilot), NOW, 1).jobs]
    assert rest == [middle[1], *young]


def test_a_first_match_notes_the_node_also_where_what_was_known_had_changed(store: Store) -> None:
    matching, task, pilot, first = Matching(store), new_task(store), running(store), running(store)
    matching.match(asked(store, pilot), NOW, 1)
    (job,) = activated(store, task, 1, 0, 500)
    request = replace(asked(store, first), node="n1", containment="bubblewrap")
    assert [given.id for given in matching.match(request, NOW, 1).jobs] == [job]
    noted = store.queries.pilot(first)
    assert noted is not None
    assert (noted.node, noted.containment, noted.matched, noted.heartbeat) == ("n1", "bubblewrap", 1, NOW)


def test_a_pilot_stays_on_the_machine_that_it_told_first(store: Store) -> None:
    """With a name of another each time it would stand for several, of which two close a storage (F4)."""
    matching, task, pilot = Matching(store), new_task(store), running(store)
    activated(store, task, 3, 0, 500)
    for node in ("", "n1", "n2"):
        assert len(matching.match(replace(asked(store, pilot), node=node), NOW, 1).jobs) == 1
    noted = store.queries.pilot(pilot)
    assert noted is not None
    assert (noted.node, noted.matched) == ("n1", 3)


def test_a_federation_that_closes_the_queue_counts_at_once(store: Store) -> None:
    matching, task, pilot = Matching(store), new_task(store), running(store)
    activated(store, task, 2, 0, 500)
    assert len(matching.match(asked(store, pilot), NOW, 1).jobs) == 1
    federation = store.federation()
    queues = tuple(replace(queue, status="paused") for queue in federation.queues)
    store.save_federation(replace(federation, queues=queues), "tester")
    assert matching.match(asked(store, pilot), NOW, 1).jobs == ()


def test_what_a_job_reads_comes_with_it(store: Store) -> None:
    create(store, File(name="a", size=1, checksum=""), File(name="b", size=2, checksum=""))
    matching, task, pilot = Matching(store), new_task(store), running(store)
    reading = new_jobs(store, task, 1, requirements=requirements(), inputs=("b", "a"))
    moved(store, move("job", reading, J.DEFINED, J.ACTIVATED, {"queue": QUEUE}))
    plain = activated(store, task, 1, 1, 500)
    given = matching.match(asked(store, pilot, 4), NOW, 1)
    assert {job.id: job.inputs for job in given.jobs} == {reading[0]: ("b", "a"), plain[0]: ()}
    assert [file.name for file in given.files] == ["a", "b"]
    assert [one.id for one in given.tasks] == [task]


def test_the_specification_comes_with_the_job_however_large_it_is(store: Store) -> None:
    small = new_task(store)
    large = new_task(store, environment={f"V{number}": f"{number:x}" * 50 for number in range(300)})
    matching, pilot = Matching(store), running(store)
    for task in (small, large):
        activated(store, task, 2, task, 500)
    for _ in range(2):
        given = matching.match(asked(store, pilot, 2), NOW, 1)
        assert {task.id: task.spec for task in given.tasks} == {
            job.task: found.spec for job in given.jobs if (found := store.queries.task(job.task))
        }
    assert matching.match(asked(store, pilot, 2), NOW, 1).jobs == ()
