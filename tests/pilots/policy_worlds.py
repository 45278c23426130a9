"""Small worlds for the policies about pilots."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pilotage.model.decision import Decision, Move
from pilotage.model.federation import ComputingElement, Federation, Queue, Site, Storage
from pilotage.model.identity import Identity
from pilotage.model.states import JobState, PilotState, TaskState, is_allowed
from pilotage.model.work import Job, Pilot, Requirements, Task, TaskSpec
from pilotage.model.world import MatchRequest, World

NOW = 1_000_000.0
ALICE = Identity(name="alice", vo="physics", group="users")
BOB = Identity(name="bob", vo="physics", group="users")


def queue(name: str = "q1", *, max_pilots: int = 10, slots: int = 1, **changes: Any) -> Queue:
    element = ComputingElement(max_pilots=max_pilots, pilot_slots=slots)
    return replace(Queue(name=name, site="here", storage="disk", computing_element=element), **changes)


def federation(*queues: Queue, **changes: Any) -> Federation:
    return Federation(
        name="test",
        sites=(Site(name="here"),),
        storages=(Storage(name="disk", site="here", url="file:///disk"),),
        queues=queues or (queue(),),
        **changes,
    )


def requirements(owner: Identity = ALICE, **changes: Any) -> str:
    asked = Requirements(
        vo=owner.vo, group=owner.group, owner=owner.name, cores=1, memory=1000, cpu_time=3600
    )
    return replace(asked, **changes).text


def job(id_: int, state: JobState = JobState.ACTIVATED, **changes: Any) -> Job:
    made = Job(
        id=id_,
        task=1,
        kind="normal",
        share="default",
        priority=500,
        requirements=requirements(),
        state=state,
        attempt=1,
        since=NOW - 3600,
        created=NOW - 7200,
        queue="q1",
    )
    return replace(made, **changes)


def task(id_: int = 1, **spec: Any) -> Task:
    return Task(
        id=id_,
        spec=TaskSpec(name=f"task-{id_}", **spec),
        owner=ALICE,
        state=TaskState.RUNNING,
        created=NOW - 9000,
        since=NOW - 9000,
    )


def pilot(id_: int = 1, state: PilotState = PilotState.RUNNING, **changes: Any) -> Pilot:
    made = Pilot(
        id=id_,
        queue="q1",
        requirements=requirements(),
        kind="generic",
        owner=Identity(name="generic"),
        submit_pool="default",
        cores=1,
        memory=1000,
        walltime=172_800,
        state=state,
        created=NOW - 600,
        since=NOW - 300,
        reference="batch-1",
        heartbeat=NOW - 60,
    )
    return replace(made, **changes)


def request(pilot_id: int = 1, **changes: Any) -> MatchRequest:
    made = MatchRequest(
        pilot=pilot_id,
        queue="q1",
        kind="generic",
        owner=Identity(name="generic"),
        cores=1,
        memory=0,
        walltime=172_000,
        max_jobs=1,
    )
    return replace(made, **changes)


def world(**contents: Any) -> World:
    return World(**{"time": NOW, "seed": 7, "federation": federation(), **contents})


def follow(jobs: Sequence[Job], decision: Decision) -> dict[int, tuple[JobState, int]]:
    """State and attempt of every job after a decision; fails at a move that the commit would refuse."""
    now = {entry.id: (entry.state, entry.attempt) for entry in jobs}
    for move in decision.moves:
        assert is_allowed(move.kind, move.source, move.target), move
        assert len(set(move.ids)) == len(move.ids)
        if move.kind == "job":
            _step(now, move)
    return now


def _step(now: dict[int, tuple[JobState, int]], move: Move) -> None:
    assert move.attempts is not None
    for id_, attempt in zip(move.ids, move.attempts, strict=True):
        assert now[id_] == (move.source, attempt)
        now[id_] = (JobState(move.target), attempt + move.next_attempt)
