"""The guard F2 asks what a failure follows: random mixtures of bad nodes, bad inputs and bad tasks."""

from collections import defaultdict
from dataclasses import dataclass, field, replace
from random import Random

from hypothesis import example, given
from hypothesis import strategies as st

from pilotage.model.circuit_breakers.breaker import CircuitBreaker
from pilotage.model.circuit_breakers.jobs import job_breakers
from pilotage.model.records.failures import Failure, Tries, outweighed, tries_of
from pilotage.model.rules.failure_causes import Place, TaskOutcomes, judged
from pilotage.testing import federation, queue

FEDERATION = federation([queue()])
GUARD = FEDERATION.guard
MAX_ATTEMPTS = 3
ROUND = 10.0
"""Seconds between two times at which each node asks for a job."""


@dataclass
class TaskOf:
    """A task of an owner: ``inputs`` tells of each job whether its input is good."""

    id: int
    owner: str
    is_broken: bool
    inputs: list[bool]
    waiting: list[tuple[int, int]] = field(default_factory=list)
    done: set[int] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)
    well: set[Place] = field(default_factory=set)


@dataclass
class Mixture:
    """Nodes that ask in turn, each for one job, under the guard; a bad node fails all that it is given."""

    random: Random
    nodes: list[Place]
    bad: set[Place]
    tasks: list[TaskOf]
    failures: list[Failure] = field(default_factory=list)
    time: float = 0.0
    at_bad: dict[tuple[int, Place], int] = field(default_factory=lambda: defaultdict(int))

    def __post_init__(self) -> None:
        for task in self.tasks:
            task.waiting = [(number, 1) for number in range(len(task.inputs))]

    def step(self) -> None:
        """Each node takes one job and ends it."""
        self.time += ROUND
        now = job_breakers(self._judged(), FEDERATION)
        self._hold_open(now)
        for place in self.random.sample(self.nodes, len(self.nodes)):
            ready = [task for task in self.tasks if task.waiting and not self._is_closed(now, task, place)]
            if ready:
                self._run(self.random.choice(ready), place)

    def _hold_open(self, now: tuple[CircuitBreaker, ...]) -> None:
        """Assert that more than one task is kept only from bad places, or from a node where none did well.

        A person whose every second input is bad may meet with nothing else at a good node, once in some
        thousand mixtures. Then the node is closed to this person's tasks, and to nobody else's.
        """
        for one in now:
            queue, node = one.place
            _, owner, task = one.whose
            if task or any(bad == queue and node in ("", at) for bad, at in self.bad):
                continue
            assert node, one
            assert owner, one
            assert not any(one.place in each.well for each in self.tasks if each.owner == owner), one

    def _is_closed(self, now: tuple[CircuitBreaker, ...], task: TaskOf, place: Place) -> bool:
        return any(
            one.place[0] == place[0]
            and one.place[1] in ("", place[1])
            and one.holds_for("vo", task.owner, task.id)
            and one.state(self.time) == "open"
            for one in now
        )

    def _judged(self, *tasks: TaskOf) -> list[Failure]:
        found: list[Failure] = []
        for task in tasks or self.tasks:
            own = [one for one in self.failures if one.task == task.id]
            placed = frozenset((queue, "") for queue, _ in self.nodes) if task.waiting else frozenset()
            found += judged(TaskOutcomes(failures=own, well=frozenset(task.well), placed=placed), self.time)
        return found

    def _run(self, task: TaskOf, place: Place) -> None:
        number, attempt = task.waiting.pop(0)
        if place in self.bad:
            self.at_bad[task.id, place] += 1
            self._fail(task, number, attempt, place, "OSError: /scratch is read-only")
        elif task.is_broken:
            self._fail(task, number, attempt, place, "ModuleNotFoundError: No module named 'nunpy'")
        elif not task.inputs[number]:
            self._fail(task, number, attempt, place, f"cannot parse sample_{number}.fasta")
        else:
            task.done.add(number)
            task.well.add(place)
            changed = {(one.job, one.attempt): one for one in outweighed(self.failures, task.id, *place)}
            self.failures = [changed.get((one.job, one.attempt), one) for one in self.failures]

    def _fail(self, task: TaskOf, number: int, attempt: int, place: Place, ending: str) -> None:
        job = 1000 * task.id + number
        nodes = sum(queue == place[0] for queue, _ in self.nodes)
        failure = Failure(
            job=job,
            attempt=attempt,
            task=task.id,
            owner=task.owner,
            vo="vo",
            queue=place[0],
            node=place[1],
            pilot=1 + self.nodes.index(place),
            pilots=nodes,
            time=self.time,
            lasted=1,
            exit_code=1,
            ending=ending,
        )
        self.failures.append(failure)
        own = self._judged(task) if attempt >= MAX_ATTEMPTS else []
        if tries_of(own, job, GUARD, Tries(MAX_ATTEMPTS)).remain(attempt):
            task.waiting.insert(0, (number, attempt + 1))
        else:
            task.failed.add(number)


def mixture(seed: int) -> Mixture:
    random = Random(seed)
    nodes = [(f"q{queue}", f"n{node}") for queue in range(random.randint(2, 3)) for node in range(3)]
    bad = set(random.sample(nodes, random.randint(0, 2)))
    tasks = [
        TaskOf(
            id=number,
            owner=random.choice("abc"),
            is_broken=random.random() < 0.2,
            inputs=[random.random() > part for _ in range(12)],
        )
        for number, part in enumerate(random.choices([0.0, 0.25, 0.5], k=4), 1)
    ]
    return Mixture(random, nodes, bad, tasks)


@given(st.integers(0, 10**6))
@example(91590)
def test_f2_good_places_stay_open_good_jobs_end_well_and_bad_nodes_are_found(seed: int) -> None:
    found = mixture(seed)
    for _ in range(40):
        found.step()
    for task in found.tasks:
        if not task.is_broken:
            good = {number for number, is_good in enumerate(task.inputs) if is_good}
            # Before anything has ended well, a job may use up its attempts at two bad nodes.
            lost = good - task.done
            assert len(lost) <= len(found.bad), (task.id, lost, task.failed)
    for (number, place), count in found.at_bad.items():
        task = found.tasks[number - 1]
        if task.well and all(task.inputs):
            assert count <= 2 * GUARD.in_a_row, (number, place, count)


def failure(**changes: object) -> Failure:
    known: dict[str, object] = {
        "job": 1,
        "attempt": 1,
        "task": 1,
        "owner": "a",
        "vo": "vo",
        "queue": "q",
        "node": "n",
        "pilot": 1,
        "pilots": 1,
        "time": 0.0,
        "lasted": 1.0,
        "exit_code": 1,
        "ending": "bad",
    }
    return Failure(**(known | changes))  # type: ignore[arg-type]


def at_queue(*failures: Failure, **known: object) -> list[str]:
    outcomes = TaskOutcomes(failures=failures, **known)  # type: ignore[arg-type]
    return [one.at_queue for one in judged(outcomes, 1.0)]


def test_f2_one_input_that_fails_at_two_queues_is_to_blame_whatever_it_says() -> None:
    there = failure(attempt=2, queue="other", ending="something else")
    assert at_queue(failure(), there, well=frozenset([("q", "n")])) == ["task", "task"]


def test_f2_one_command_that_fails_alike_where_it_does_well_is_to_blame() -> None:
    there = failure(job=2, queue="other", ending="bad")
    assert at_queue(failure(), there, well=frozenset([("q", "n")])) == ["task", "task"]
    quoted = failure(job=2, queue="other", ending="cannot open 'b.txt'")
    assert (
        at_queue(failure(ending="cannot open 'a.txt'"), quoted, well=frozenset([("q", "n")])) == ["task"] * 2
    )


def test_f2_two_bad_queues_where_it_never_did_well_are_to_blame() -> None:
    there = failure(job=2, queue="other")
    assert at_queue(failure(), there, well=frozenset([("third", "n")])) == ["place", "place"]


def test_f2_a_task_that_never_does_well_is_to_blame_from_the_third_queue_on() -> None:
    some = [failure(job=number, queue=f"q{number}") for number in range(3)]
    placed = frozenset([("elsewhere", "")])
    assert at_queue(*some[:2], placed=placed) == ["doubt", "doubt"]
    assert at_queue(*some, placed=placed) == ["task"] * 3


def test_f2_where_nothing_else_will_tell_nothing_is_closed() -> None:
    assert at_queue(failure(), placed=frozenset([("q", "")])) == ["unknown"]
    assert at_queue(failure(exit_code=None)) == ["doubt"], "its payload never ran"


def test_f2_what_happens_as_often_elsewhere_is_no_fault_of_the_place() -> None:
    here = [failure(job=number, ending=f"way {'x' * number}") for number in range(5)]
    there = [replace(one, job=one.job + 10, queue="other", ending="y" + one.ending) for one in here]
    well = frozenset([("q", "n"), ("other", "n")])
    assert set(at_queue(*here, *there, well=well)) == {"unknown"}
    assert set(at_queue(*here, well=well)) == {"place"}
