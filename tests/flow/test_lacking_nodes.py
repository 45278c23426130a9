"""Queues whose nodes lack what jobs need: one pilot looks, and the checks heed what it finds (B14, P12)."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import pytest

from pilotage.explain.plans import of_decision
from pilotage.explain.remarks import sentence
from pilotage.flow import planning
from pilotage.flow.calls.pilots.match import match
from pilotage.flow.calls.pilots.pilot_end import end
from pilotage.flow.calls.places import circuit_breakers
from pilotage.flow.calls.work import remarks, stuck, sure_waits
from pilotage.model.documents.decision import Refusal
from pilotage.model.records.federation import ComputingElement
from pilotage.model.records.states import JobState as J
from pilotage.model.records.states import PilotState
from pilotage.model.values.step_names import BROKER
from pilotage.store import StageView, TaskView
from pilotage.store.worlds.whole import WHOLE

from .house import FakeElement, House

TICK = 5
IDLE = 30
CONTAINER: Mapping[str, Any] = {"walltime": 60, "container_name": "docker://alpine"}


class Cluster(House):
    """Two queues at two sites. Pilots call 5 s after their submission, and leave after 30 s without work."""

    def begin(self, brokerage: str = "production") -> None:
        self.element = FakeElement()
        self.programs: dict[str, tuple[str, ...]] = {"north-queue": (), "south-queue": ()}
        self.sent: Counter[str] = Counter()
        self._idle: dict[int, float] = {}
        element = ComputingElement(kind="fake", max_pilots=50)
        self.federate(num_slots=None, computing_element=element)
        known = self.store.federation()
        (north,) = known.queues
        south = replace(north, name="south-queue", site="south", storage="south-disk")
        balanced = replace(known.director, policy="balanced")
        plugins = {"": brokerage}
        found = replace(known, queues=(north, south), director=balanced, plugins=plugins)
        self.store.save_federation(found, "test")

    def pass_time(self, seconds: float) -> None:
        """Let loops and pilots go on."""
        until = self.now + seconds
        while self.now < until:
            for name in ("advertise", "watch", "lift", "broker", "rebind", "provision"):
                self.take(name)
            self.now += TICK
            self._call()

    def _call(self) -> None:
        for pilot in self.store.queries.pilots(PilotState.SUBMITTED, None, 100):
            self.sent[pilot.queue] += 1
            self._idle[pilot.id] = self.now
        for number, since in list(self._idle.items()):
            record = self.store.queries.pilot(number)
            assert record is not None
            programs = self.programs[record.queue]
            node = {"gpus": (), "containers": programs}
            has, name = bool(programs), f"n{number}"
            works = match(self.runtime, number, 1, 0, 86_400, 1, containers=has, node=name, found=node).works
            if works or self.now - since >= IDLE:
                del self._idle[number]
            if not works and self.now - since >= IDLE:
                end(self.runtime, number, "idle")

    def planned(self) -> str:
        """What ``plan broker`` says of the world."""
        world = self.runtime.world(*WHOLE)
        decision = planning.plan(BROKER, world)
        return "\n".join(of_decision(decision, world, ()))

    def refusals(self, task: int) -> list[Refusal]:
        (choice, *_) = self.store.queries.task_choices(task)
        return [one for one in choice.refusals if one.rule == "B14"]

    def warned(self, task: int) -> list[str]:
        found = self.store.queries.task(task)
        assert found is not None
        return [*map(sentence, sure_waits.of_task(self.runtime, found))]


@pytest.fixture
def cluster(house: House) -> Cluster:
    made = Cluster(house.store, house.place)
    made.begin()
    return made


@pytest.mark.parametrize("brokerage", ["production", "matchmaking"])
def test_b14_a_container_job_waits_with_the_reason_where_no_node_has_a_program_for_it(
    cluster: Cluster, brokerage: str
) -> None:
    cluster.begin(brokerage)
    task = cluster.task(jobs=9, **CONTAINER)
    cluster.pass_time(60)
    assert cluster.states(task) == {J.PENDING: 9}
    assert cluster.sent == {"north-queue": 1, "south-queue": 1}, "one probe of each, not nine"
    (refusal,) = cluster.refusals(task)
    assert (refusal.name, refusal.mend) == ("container runtime", "operator")
    assert dict(zip(refusal.queues, refusal.have, strict=True)) == dict.fromkeys(
        ("north-queue", "south-queue"), "no container runtime (1 node checked)"
    )
    assert "none of 2 queues can take them" in cluster.planned()
    (warning,) = cluster.warned(task)
    assert "container runtime at 2 queues, operator: north-queue has no container runtime" in warning
    known = cluster.store.queries.task(task)
    assert known
    (fault,) = [one for one in remarks.of_task(cluster.runtime, known) if one.kind in ("fault", "warning")]
    assert (fault.rule, fault.mend) == ("B14", "operator")
    assert fault.text == "9 jobs wait for a queue that can take them: container runtime at 2 queues"
    (row,) = stuck.everything(cluster.runtime)
    assert (row.what, row.remark) == ("1 task waits until somebody acts", fault), "as status says"
    view = {field.name: getattr(known, field.name) for field in fields(TaskView)}
    stage = StageView(**view, predecessors=(), on_end=False)
    assert [*remarks.of_workflow(cluster.runtime, [stage])] == [(stage, fault)]
    cluster.pass_time(1800)
    assert sum(cluster.sent.values()) <= 12, "one probe at a time, more and more seldom"


def test_b14_jobs_go_on_where_a_node_has_it_and_come_back_once_an_operator_lifts_the_breaker(
    cluster: Cluster,
) -> None:
    cluster.programs["south-queue"] = ("apptainer",)
    task, plain = cluster.task(jobs=9, **CONTAINER), cluster.task(jobs=4, walltime=60)
    north_alone = cluster.task(jobs=2, queues=("north-queue",), **CONTAINER)
    cluster.pass_time(60)
    assert {one.queue for one in cluster.store.queries.jobs(task, None, 10)} == {"south-queue"}
    assert cluster.states(plain) == {J.SENT: 4}, "what needs no container runs anywhere"
    assert cluster.states(north_alone) == {J.PENDING: 2}
    assert cluster.warned(task) == []
    assert "north-queue has no container runtime (1 node checked)" in cluster.warned(north_alone)[0]
    cluster.programs["north-queue"] = ("podman",)
    (lifted,) = circuit_breakers.lift(cluster.runtime, "north-queue", "root")
    assert lifted.place == ("north-queue", "containers")
    cluster.pass_time(180)
    assert (cluster.states(task), cluster.states(north_alone)) == ({J.SENT: 9}, {J.SENT: 2})


def test_b14_a_half_open_breaker_closes_by_one_probe_that_finds_it(cluster: Cluster) -> None:
    task = cluster.task(jobs=9, **CONTAINER)
    cluster.pass_time(90)
    assert cluster.states(task) == {J.PENDING: 9}
    cluster.programs = dict.fromkeys(cluster.programs, ("apptainer",))
    before = cluster.sent.total()
    cluster.pass_time(15)
    assert cluster.sent.total() - before == 2, "one probe of each"
    cluster.pass_time(120)
    assert cluster.states(task) == {J.SENT: 9}
    found = circuit_breakers.of_pilots_and_servers(cluster.runtime)
    assert [one for one in found if one.place[1]] == []


def test_b14_a_forwarder_s_own_node_needs_no_program_for_containers(cluster: Cluster) -> None:
    task = cluster.task(**CONTAINER)
    for name in ("broker", "provision"):
        cluster.take(name)
    for pilot in cluster.store.queries.pilots(None, None, 10):
        node = {"gpus": (), "containers": ()}
        match(cluster.runtime, pilot.id, 1, 0, 86_400, 1, containers=True, found=node)
    assert all(not one.lacks for one in cluster.store.queries.pilots(None, None, 10))
    assert cluster.states(task) == {J.SENT: 1}
