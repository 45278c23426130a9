"""Leases belong to jobs: no two attempts of a job run at the same time, whatever their workflows (rules T).

The network may fail at any moment, in either direction, and agents of before know one lease for all.
"""

import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilotage.agent.jobs import JobRunner
from pilotage.agent.node import Resources
from pilotage.agent.payload.attempt import Attempt
from pilotage.agent.pilot_job import PilotJob, lease_of
from pilotage.agent.wire import MatchAnswer, Work
from pilotage.flow.calls.pilots import report
from pilotage.flow.errors import PilotGone
from pilotage.model.documents.world import Report
from pilotage.model.records.federation import TimeoutConstants
from pilotage.model.records.states import JobState, PilotState
from pilotage.store import Store
from tests.properties import examples

from .house import House

J = JobState
WORKFLOWS = ("", "short", "long")
TIMEOUTS = TimeoutConstants(
    heartbeat=7200,
    heartbeat_by_workflow={"short": 300, "long": 5 * 86400},
    sent=1800,
    starting=86400,
    running=1e8,
)
"""A long job may be silent for longer than it may be starting."""


@dataclass
class ModelPilot:
    """The promise of an agent, with its own code for leases; what it holds lives until ``ends``."""

    number: int
    is_old: bool
    contact: float = 0.0
    ends: dict[PilotJob, float] = field(default_factory=dict)
    said: set[PilotJob] = field(default_factory=set)
    is_gone: bool = False

    def __post_init__(self) -> None:
        self.runner = JobRunner(self, Resources(), Mock())  # type: ignore[arg-type]

    def take(self, answer: MatchAnswer, begun: float) -> None:
        for work in answer.works:
            for order in work.jobs:
                known = Work(task=work.task, command=work.command) if self.is_old else work
                held = PilotJob(Attempt(known, order), begun, lease_of(known, answer))
                self.runner.attempts[held.attempt.pair] = held
                self.ends[held] = self.runner.lease_end(held)

    def runs(self, now: float) -> list[int]:
        """The jobs of which something runs here, or may begin to run."""
        return [held.attempt.order.job for held, end in self.ends.items() if now < end and not self.is_gone]


class Play:
    """Pilots at one queue, and a server that watches; calls take their time, and answers get lost."""

    def __init__(self, house: House, pilots: Sequence[int]) -> None:
        self.house = house
        house.store.save_federation(replace(house.store.federation(), timeouts=TIMEOUTS), "test")
        self.pilots = [ModelPilot(pilot, is_old=at == 2) for at, pilot in enumerate(pilots)]

    def ask(self, at: int, takes: float, outcome: str) -> None:
        if self.pilots[at].is_gone:
            self.pilots[at] = ModelPilot(self.house.pilot(), self.pilots[at].is_old)
        pilot = self.pilots[at]
        if pilot.ends and self.house.now > pilot.contact + 60:
            # A report that is due goes first, and while it is not answered nothing is asked for.
            self.tell(at, takes, outcome)
            if outcome != "answered":
                return
        begun = self.house.now
        if outcome == "not heard":
            return
        self.house.now += takes
        try:
            answer = self.house.match(pilot.number, 3)
        except PilotGone:
            pilot.is_gone = True
            return
        if outcome == "answered":
            pilot.take(answer, begun)

    def tell(self, at: int, takes: float, outcome: str) -> None:
        pilot, begun = self.pilots[at], self.house.now
        if pilot.is_gone or outcome == "not heard":
            return
        self.house.now += takes
        now, runner = self.house.now, pilot.runner
        held = [one for one in pilot.ends if begun < pilot.ends[one]]
        ended = [one for one in pilot.ends if begun >= pilot.ends[one]]
        reports = [self._report(one, "running" if one in pilot.said else "starting") for one in held]
        reports += [self._report(one, "failed") for one in ended]
        pilot.said |= {*held}
        try:
            stops = report.report(
                self.house.runtime, pilot.number, [one.attempt.pair for one in pilot.ends], reports
            )
        except PilotGone:
            pilot.is_gone = outcome == "answered"
            return
        if outcome != "answered":
            return
        pilot.contact = begun
        runner.confirm([one.attempt.pair for one in held])
        for one in [*pilot.ends]:
            if one in ended or one.attempt.pair in stops:
                del pilot.ends[one], runner.attempts[one.attempt.pair]
            elif now < pilot.ends[one]:
                pilot.ends[one] = max(pilot.ends[one], runner.lease_end(one))

    @staticmethod
    def _report(held: PilotJob, state: Literal["starting", "running", "failed"]) -> Report:
        job, attempt = held.attempt.pair
        return Report(job=job, attempt=attempt, state=state, error="its lease was over")

    def watch(self) -> None:
        for name in ("watch", "broker"):
            self.house.take(name)

    def check(self) -> None:
        running = Counter(job for pilot in self.pilots for job in pilot.runs(self.house.now))
        twice = {job: many for job, many in running.items() if many > 1}
        assert not twice, "two attempts of a job run at the same time"


outcomes = st.sampled_from(["answered", "answered", "answered", "answer lost", "not heard"])
passing = st.sampled_from([0, 0, 0, 30, 200, 310, 1200, 1900, 4000, 7300, 90_000, 300_000])
calls = st.tuples(
    passing, st.sampled_from(["ask", "ask", "tell"]), st.integers(0, 2), st.sampled_from([0, 25]), outcomes
)
plays = st.lists(calls, min_size=6, max_size=20)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """A database with brokered jobs of each workflow, and three pilots."""
    path = tmp_path_factory.mktemp("plays") / "scene.db"
    store = Store.open(f"sqlite:///{path}")
    house = House(store, path.parent)
    pilots = [house.pilot() for _ in range(3)]
    for pilot in pilots:
        house.match(pilot)
    for workflow in WORKFLOWS:
        house.task(workflow=workflow, max_attempts=20)
    house.take("broker")
    store.close()
    return path, pilots


@settings(max_examples=examples(0.5))
@given(events=plays)
def test_no_two_attempts_of_a_job_run_at_the_same_time_with_mixed_workflows(
    scene: tuple[Path, list[int]], events: list[tuple[int, str, int, int, str]]
) -> None:
    path, pilots = scene
    copy = shutil.copy(path, path.with_name("copy.db"))
    store = Store.open(f"sqlite:///{copy}")
    try:
        house = House(store, path.parent)
        play = Play(house, pilots)
        play.ask(0, 0, "answered")
        for seconds, call, *rest in events:
            if seconds:
                house.now += seconds
                play.check()
                play.watch()
            getattr(play, call)(*rest)
            play.check()
    finally:
        store.close()


def test_a_match_tells_each_job_its_own_lease_and_older_agents_the_shortest(house: House) -> None:
    pilot = house.pilot()
    house.store.save_federation(replace(house.store.federation(), timeouts=TIMEOUTS), "test")
    for workflow in WORKFLOWS:
        house.task(workflow=workflow)
    house.take("broker")
    answer = house.match(pilot)
    assert sorted((work.lease, work.first_lease) for work in answer.works) == [
        (180, 180),
        (4320, 1080),
        (259_200, 1080),
    ]
    assert (answer.lease, answer.first_lease, answer.pilot_lease) == (180, 180, 4320)


def test_many_jobs_that_may_be_silent_for_longer_hide_none_that_may_not(house: House) -> None:
    """Not even where they fill all that the watchdog reads in a pass."""
    pilot = house.pilot()
    known = house.store.federation()
    few = replace(known, timeouts=TIMEOUTS, loops=replace(known.loops, batch=2))
    house.store.save_federation(few, "test")
    long, short = house.task(jobs=5, workflow="long"), house.task(jobs=2, workflow="short")
    house.take("broker")
    given = [(order.job, order.attempt) for work in house.match(pilot).works for order in work.jobs]
    house.report(pilot, "running", given)
    house.now += 300
    house.take("watch")
    assert house.states(long) == {J.RUNNING: 5}
    assert house.states(short) == {J.DEFINED: 2}


@pytest.mark.parametrize(
    ("workflows", "lost_after"),
    [(("short",), 300), (("",), 7200), ((), 7200), (("short", "", "long"), 5 * 86_400)],
)
def test_a_pilot_is_lost_after_the_longest_time_out_of_the_jobs_that_it_has(
    house: House, workflows: tuple[str, ...], lost_after: int
) -> None:
    """Not after that of all workflows: a dead one would keep its place for days."""
    pilot, busy = house.pilot(), house.pilot()
    few = replace(house.store.federation(), timeouts=TIMEOUTS)
    house.store.save_federation(replace(few, loops=replace(few.loops, batch=2)), "test")
    for workflow in workflows:
        house.task(jobs=3, workflow=workflow)
    house.take("broker")
    given = [(order.job, order.attempt) for work in house.match(pilot).works for order in work.jobs]
    house.report(pilot, "running", given)
    begun = house.now
    for after in (299, 300, 7199, 7200, 5 * 86_400 - 1, 5 * 86_400):
        house.now = begun + after
        house.report(busy, "running", [])
        house.take("watch")
        found, other = house.store.queries.pilot(pilot), house.store.queries.pilot(busy)
        assert found is not None
        assert other is not None
        assert (found.state is PilotState.FAILED) == (after >= lost_after), after
        assert other.state is PilotState.RUNNING
