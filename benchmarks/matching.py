"""Single matches: pilots ask for one job each, through the flow layer, while 50,000 wait at one queue."""

import multiprocessing
import shutil
import tempfile
import time
from itertools import chain, count
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from pathlib import Path

from pilotage.computing.loader import load
from pilotage.flow.calls.match import match
from pilotage.flow.runtime import Runtime
from pilotage.model.decision import Candidates, Choice, Create, Decision, Move
from pilotage.model.federation import ComputingElement, Federation, Queue, Site, Storage
from pilotage.model.identity import Identity
from pilotage.model.spec import Binding
from pilotage.model.states import JobState, PilotState
from pilotage.model.work import NewJob, NewPilot, NewTask, Requirements, TaskSpec
from pilotage.movers.loader import InstalledMovers
from pilotage.server import collect_rarely
from pilotage.store import Store

from . import house

JOBS = 50_000
CLIENTS = 4
SECONDS = 5.0
QUEUE, OTHER = "q", "r"
OWNER = Identity(name="bench", vo="bench")


def figures() -> dict[str, float]:
    """``matches_per_s`` and its kin; the latency is that of one client among four."""
    found: dict[str, float] = {}
    cases: tuple[tuple[str, house.Database, int], ...] = (
        ("", "postgresql", 200),
        ("_2000tq", "postgresql", 2000),
        ("_sqlite", "sqlite", 200),
        ("_elastic", "postgresql", 200),
        ("_elastic_sqlite", "sqlite", 200),
    )
    for suffix, database, queues in cases:
        rate, p99 = measure(database, queues, borrowing="elastic" in suffix)
        found[f"matches_per_s{suffix}"] = rate
        found[f"matches_p99_ms{suffix}"] = p99 * 1000
    return found


def measure(database: house.Database, queues: int, borrowing: bool = False) -> tuple[float, float]:
    """Matches a second, and the 99th percentile of the seconds that one takes.

    ``borrowing``: pilots are at another queue than the one where all jobs wait, and borrow them.
    """
    place = Path(tempfile.mkdtemp(prefix="pilotage-bench-"))
    place.chmod(0o755)
    try:
        with house.store(database, place) as url:
            return _run(url, prepare(url, queues, at=OTHER if borrowing else QUEUE))
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


def _run(url: str, pilots: list[int]) -> tuple[float, float]:
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(CLIENTS), context.SimpleQueue()
    parts = [pilots[number::CLIENTS] for number in range(CLIENTS)]
    running = [context.Process(target=_ask, args=(url, part, barrier, answers)) for part in parts]
    for process in running:
        process.start()
    seconds = sorted(chain.from_iterable(answers.get() for _ in running))
    for process in running:
        process.join()
    return len(seconds) / SECONDS, seconds[int(len(seconds) * 0.99)]


def _ask(url: str, pilots: list[int], barrier: Barrier, answers: "SimpleQueue[list[float]]") -> None:
    """One process asks for one job after the other, for each of its pilots in turn."""
    collect_rarely()  # as a server does, for which it stands
    store = Store.open(url)
    runtime = Runtime(store, (), load=load, movers=InstalledMovers)
    for pilot in pilots:
        match(runtime, pilot, 1, 0, 1e6, 1)
    barrier.wait()
    times: list[float] = []
    end = time.perf_counter() + SECONDS
    for number in count():
        begun = time.perf_counter()
        if begun >= end:
            break
        answer = match(runtime, pilots[number % len(pilots)], 1, 0, 1e6, 1)
        times.append(time.perf_counter() - begun)
        if not answer.works:
            raise RuntimeError("an empty answer while jobs wait")
    answers.put(times)
    runtime.close()
    store.close()
