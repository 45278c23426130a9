"""Single matches: pilots ask for one job each, through the flow layer, while 50,000 wait at one queue."""

import multiprocessing
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, cycle
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from statistics import median

from pilotage.adapters.computing.loader import load
from pilotage.adapters.movers.loader import InstalledMovers
from pilotage.flow.calls.pilots.match import match
from pilotage.flow.runtime import Runtime
from pilotage.model.documents.decision import Candidates, Choice, Create, Decision, Move
from pilotage.model.records.federation import ComputingElement, Federation, Queue, Site, Storage
from pilotage.model.records.spec import Binding
from pilotage.model.records.states import JobState, PilotState
from pilotage.model.records.work import NewJob, NewPilot, NewTask, Requirements, TaskSpec
from pilotage.model.values.identity import Identity
from pilotage.server.process import collect_rarely
from pilotage.store import Store

from . import house

JOBS = 50_000
CLIENTS = 4
SECONDS = 5.0
TURN, TURNS = 1000, 16
"""Matches before the other side has its turn, and how many turns each side has."""

QUEUE, OTHER = "q", "r"
OWNER = Identity(name="bench", vo="bench")


Side = tuple[str, list[int]]
"""A store that matches are measured on: its address, and the pilots that ask there."""

Asked = list[list[float]]
"""Seconds of each match, in lists: one, or one for each turn, of the two sides alternately."""


def figures() -> dict[str, float]:
    """``matches_per_s`` and its kin; the latency is that of one client among four.

    ``elastic_match_cost`` is how many times as long a match takes that borrows its job from another queue.
    """
    found: dict[str, float] = {}
    cases: tuple[tuple[str, house.Database, int], ...] = (
        ("", "postgresql", 200),
        ("_2000tq", "postgresql", 2000),
        ("_sqlite", "sqlite", 200),
    )
    for suffix, database, queues in cases:
        with _side(database, queues) as side:
            seconds = list(chain.from_iterable(chain.from_iterable(_run(_ask, side))))
        found |= _speed(suffix, seconds)
    pairs: tuple[tuple[str, house.Database], ...] = (("", "postgresql"), ("_sqlite", "sqlite"))
    for suffix, database in pairs:
        cost, seconds = borrowing_cost(database)
        found |= _speed(f"_elastic{suffix}", seconds)
        found[f"elastic_match_cost{suffix}"] = cost
    return found


def _speed(suffix: str, seconds: list[float]) -> dict[str, float]:
    """Matches a second of all clients, and the 99th percentile of the milliseconds that one takes."""
    return {
        f"matches_per_s{suffix}": CLIENTS * len(seconds) / sum(seconds),
        f"matches_p99_ms{suffix}": sorted(seconds)[int(len(seconds) * 0.99)] * 1000,
    }


def borrowing_cost(database: house.Database) -> tuple[float, list[float]]:
    """Times that a borrowed match takes as long as one without, and the seconds of those that borrow.

    The two take turns, and each pair of turns has its own ratio, of which the median counts: a machine that
    is slower for some seconds is so for both.
    """
    with _side(database, 200) as plain, _side(database, 200, at=OTHER) as borrowing:
        answers = _run(_ask_in_turns, plain, borrowing)
    turns = [list(chain.from_iterable(parts)) for parts in zip(*answers, strict=True)]
    without, borrowed = turns[::2], turns[1::2]
    cost = median(sum(ours) / sum(theirs) for theirs, ours in zip(without, borrowed, strict=True))
    return cost, list(chain.from_iterable(borrowed))


@contextmanager
def _side(database: house.Database, queues: int, at: str = QUEUE) -> Iterator[Side]:
    """A store of its own whose pilots are at this queue; where the jobs wait at another they borrow them."""
    place = Path(tempfile.mkdtemp(prefix="pilotage-bench-"))
    place.chmod(0o755)
    try:
        with house.store(database, place) as url:
            yield url, prepare(url, queues, at=at)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def prepare(
    url: str, queues: int, jobs: int = JOBS, pilots: int = CLIENTS * 25, at: str = QUEUE
) -> list[int]:
    """A queue with activated jobs in so many task queues, and the pilots of its clients at a queue."""
    store = Store.open(url)
    site, storage = Site(name="s", nucleus=True), Storage(name="d", site="s", url="file:///tmp")
    declared = tuple(
        Queue(name=name, site="s", storage="d", computing_element=ComputingElement())
        for name in (QUEUE, OTHER)
    )
    store.save_federation(Federation(name="b", sites=(site,), storages=(storage,), queues=declared), "bench")
    specs = [TaskSpec(name=f"t{number}", ram=number + 1) for number in range(queues)]
    tasks = _made(store, *(NewTask(spec=spec, owner=OWNER) for spec in specs))
    new = [
        NewJob(
            task=task,
            kind="normal",
            share="default",
            priority=100 + number % 700,
            requirements=Requirements.of(spec, OWNER).text,
        )
        for number, (task, spec) in enumerate(zip(tasks, specs, strict=True))
        for _ in range(jobs // queues)
    ]
    ids = _made(store, *new)
    _activate(store, tasks, ids, "early" if at == QUEUE else "elastic")
    pilot = NewPilot(
        queue=at, requirements="r", kind="generic", owner=OWNER,
        cores=1, memory=0, walltime=1e7,
    )  # fmt: skip
    ids = _made(store, *[pilot] * pilots)
    _moved(store, Move(
        kind="pilot", ids=tuple(ids), source=PilotState.CREATED, target=PilotState.RUNNING, cause="b",
    ))  # fmt: skip
    store.close()
    return ids


def _made(store: Store, *records: NewTask | NewJob | NewPilot) -> list[int]:
    change = Create(records=records, cause="b")
    committed = store.commit(Decision(step="b", time=time.time(), seed=1, changes=(change,)), "bench")
    return [id_ for id_ in committed.created[0] if id_ is not None]


def _activate(store: Store, tasks: list[int], ids: list[int], binding: Binding) -> None:
    """Bring the jobs of each task to the queue, for ten hours, with the choice that both queues passed in."""
    each = len(ids) // len(tasks)
    began = time.time() - 36_000
    candidates = Candidates(queues=(QUEUE, OTHER), weights=(1.0, 1.0))
    choices = [
        Choice(
            task=task, job_kind="normal", jobs=(), placed={QUEUE: each}, considered=2,
            candidates=candidates, refusals=(),
        )
        for task in tasks
    ]  # fmt: skip
    moves = [
        Move(
            kind="job", ids=tuple(ids[number * each : (number + 1) * each]), source=JobState.DEFINED,
            target=JobState.ACTIVATED, cause="b", changes={"queue": QUEUE}, choice=number, binding=binding,
        )
        for number in range(len(tasks))
    ]  # fmt: skip
    decision = Decision(step="b", time=began, seed=1, changes=tuple(moves), choices=tuple(choices))
    store.commit(decision, "bench")


def _moved(store: Store, move: Move) -> None:
    store.commit(Decision(step="b", time=time.time(), seed=1, changes=(move,)), "bench")


def _run(ask: Callable[..., None], *sides: Side) -> list[Asked]:
    """What each of the client processes measured, which have a part of every side's pilots."""
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(CLIENTS), context.SimpleQueue()
    running = []
    for number in range(CLIENTS):
        parts = [(url, pilots[number::CLIENTS]) for url, pilots in sides]
        running.append(context.Process(target=ask, args=(barrier, answers, *parts)))
    for process in running:
        process.start()
    found: list[Asked] = [answers.get() for _ in running]
    for process in running:
        process.join()
    return found


def _ask(barrier: Barrier, answers: "SimpleQueue[Asked]", side: Side) -> None:
    """One process asks for one job after the other, for some seconds."""
    collect_rarely()  # as a server does, for which it stands
    with client(side) as match_once:
        barrier.wait()
        times: list[float] = []
        end = time.perf_counter() + SECONDS
        while time.perf_counter() < end:
            times.append(match_once())
        answers.put([times])


def _ask_in_turns(barrier: Barrier, answers: "SimpleQueue[Asked]", first: Side, second: Side) -> None:
    """One process asks on two sides by turns; which of a pair begins changes with every pair."""
    collect_rarely()
    with client(first) as one, client(second) as other:
        turns: Asked = []
        for pair in range(TURNS):
            order = (one, other) if pair % 2 == 0 else (other, one)
            taken: Asked = []
            for match_once in order:
                barrier.wait()
                taken.append([match_once() for _ in range(TURN // CLIENTS)])
            turns += taken if pair % 2 == 0 else taken[::-1]
        answers.put(turns)


@contextmanager
def client(side: Side) -> Iterator[Callable[[], float]]:
    """What asks for one job, for each of a side's pilots in turn, and says the seconds that it took."""
    url, pilots = side
    store = Store.open(url)
    runtime = Runtime(store, (), load=load, movers=InstalledMovers)
    asking = cycle(pilots)

    def match_once() -> float:
        pilot = next(asking)
        begun = time.perf_counter()
        answer = match(runtime, pilot, 1, 0, 1e6, 1)
        took = time.perf_counter() - begun
        if not answer.works:
            raise RuntimeError("an empty answer while jobs wait")
        return took

    for _ in pilots:
        match_once()
    yield match_once
    runtime.close()
    store.close()
