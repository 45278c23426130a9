"""What holds for every world: properties of the production brokerage, beside the contract of every brokerage.

``test_extensions`` holds the contract.
"""

import random
from collections import Counter
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pilotage.model.documents.decision import Decision
from pilotage.model.documents.serialization import to_json
from pilotage.model.documents.world import World
from pilotage.model.records.federation import Federation, GlobalShare, Hardware, Queue
from pilotage.model.records.states import JobState
from pilotage.model.records.work import File, Job, JobKind, Measured, MergeSpec, Replica
from pilotage.model.values.identity import Identity
from pilotage.policies.brokerage.engine import spec_table, verdicts
from pilotage.policies.brokerage.engine.arrays import Mask
from pilotage.policies.brokerage.engine.job_groups import Group, groups_of
from pilotage.policies.brokerage.engine.queue_columns import QueueColumns
from pilotage.policies.brokerage.engine.task_columns import TaskColumns
from pilotage.policies.brokerage.engine.verdicts import Examination, FactsDraft, examine, mask_of
from pilotage.policies.brokerage.production import Production, cycle
from pilotage.policies.brokerage.production.checks import CHECKS
from pilotage.testing import federation, jobs, jobs_at, queue, task, world
from tests.properties import examples

T = TypeVar("T")
SITES = ("HOME", "AWAY", "FAR")
SHARES = (GlobalShare(name="default"), GlobalShare(name="gold", target=3))
NVIDIA_ONLY = Hardware(type="gpu", vendor=("nvidia", "excl"))
MERGE = MergeSpec(command=("merge",), outputs=("all",))
KINDS: tuple[JobKind, ...] = ("normal", "normal", "scout", "merge")
OPTIONS = {"off": ["B1"], "by_vo": {"atlas": {"off": ["B15"], "constants": {"nqueue_limit_site": 7}}}}
STATUSES = st.sampled_from(["online", "online", "standby", "offline"])


@st.composite
def queues(draw: st.DrawFn) -> list[Queue]:
    """A handful of queues of three sites, many of them alike."""
    return [
        queue(
            f"{'TEST' if draw(st.integers(0, 9)) == 0 else 'Q'}{number}",
            site=draw(st.sampled_from(SITES)),
            status=draw(STATUSES),
            cores=draw(st.sampled_from([0, 1, 1, 8])),
            max_memory=draw(st.sampled_from([0, 1000, 2000, 4000])),
            max_walltime=draw(st.sampled_from([0, 86_400, 172_800])),
            num_slots=draw(st.sampled_from([None, 0, 5, 40])),
            fairshare_policy=draw(
                st.sampled_from(["", "", "type=evgen:0%", "priority>500:0%", "gshare=gold:1%"])
            ),
            event_service=draw(st.sampled_from(["all", "all", "std", "es"])),
            releases=draw(st.sampled_from([("ANY",), ("AUTO",)])),
            cmtconfigs=draw(st.sampled_from([(), ("p1",), ("p1", "p2")])),
            containers=draw(st.sampled_from([(), ("any",), ("hub/",)])),
            cvmfs=draw(st.sampled_from([(), ("atlas",)])),
            architectures=draw(st.sampled_from([(), (NVIDIA_ONLY,)])),
        )
        for number in range(draw(st.integers(1, 8)))
    ]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Some tasks of some jobs with and without input, on queues with and without work."""
    offered = draw(queues())
    house = replace(federation(offered), shares=SHARES)
    work, waiting = [], list[Job]()
    for number in range(1, draw(st.integers(1, 5)) + 1):
        spec = task(
            number,
            priority=draw(st.sampled_from([100, 500, 900])),
            cores=draw(st.sampled_from([0, 1, 8])),
            ram=draw(st.sampled_from([0, 500, 3000])),
            walltime=draw(st.sampled_from([0, 3600, 100_000])),
            nucleus=draw(st.sampled_from(["", "HOME"])),
            queues=draw(st.sampled_from([(), (), (offered[0].name, offered[-1].name)])),
            share=draw(st.sampled_from(["default", "gold"])),
            processing_type=draw(st.sampled_from(["", "evgen"])),
            event_service=draw(st.sampled_from([False, False, True])),
            architecture=draw(st.sampled_from(["", "", "p1", "p2&nvidia"])),
            container_name=draw(st.sampled_from(["", "", "hub/fit"])),
            merge=MERGE,
        )
        inputs = draw(st.sampled_from([(), ("a",), ("b",), ("a", "b")]))
        spec = replace(spec, owner=Identity(name="alice", vo=draw(st.sampled_from(["", "atlas"]))))
        work.append(spec)
        kind = draw(st.sampled_from(KINDS))
        waiting += jobs(spec, draw(st.integers(1, 60)), first=len(waiting) + 1, inputs=inputs, kind=kind)
    states = ("activated", "assigned", "starting", "running")
    return world(
        house,
        *work,
        jobs=tuple(waiting),
        files=(File(name="a", size=10, checksum=""), File(name="b", size=1000, checksum="")),
        replicas=tuple(
            Replica(file=name, storage=f"{site}-DISK")
            for name, site in (("a", "HOME"), ("b", "HOME"), ("a", "AWAY"))
            if site == "HOME" or site in {item.site for item in offered}
        ),
        job_counts=tuple(
            row
            for item in offered
            for row in jobs_at(item.name, **{state: draw(st.integers(0, 30)) for state in states})
        ),
    )


relaxed = settings(
    deadline=None,
    max_examples=examples(0.6),
    suppress_health_check=[HealthCheck.too_slow],
)


def decide(of: World) -> Decision:
    return Production().decide(of)


@relaxed
@given(worlds())
def test_every_job_is_placed_pending_or_left(state: World) -> None:
    decision = decide(state)
    moved = [number for move in decision.moves for number in move.ids]
    assert len(moved) == len(set(moved))
    assert len(moved) + sum(choice.left for choice in decision.choices) == len(state.jobs)
    for index, choice in enumerate(decision.choices):
        moves = [move for move in decision.moves if move.choice == index]
        assert choice.jobs == tuple(number for move in moves for number in move.ids)
        pending = sum(len(move.ids) for move in moves if move.target is JobState.PENDING)
        assert sum(choice.placed.values()) + pending == len(choice.jobs)
        assert not (pending and choice.left), "jobs are pending where no queue has room, all of them"


@relaxed
@given(worlds())
def test_b36_no_queue_ever_takes_more_than_its_limit(state: World) -> None:
    decision = decide(state)
    waiting = Counter[tuple[str, str, JobState]]()
    for row in state.job_counts:
        waiting[row.queue, row.share, row.state] += row.jobs
    shares = {job.id: job.share for job in state.jobs}
    for move in decision.moves:
        if move.target is not JobState.PENDING:
            (claim,) = move.claims
            name = str(move.changes["queue"])
            assert isinstance(move.target, JobState)
            (share,) = {shares[number] for number in move.ids}
            waiting[name, share, move.target] += len(move.ids)
            assert claim.key == (name, share)
            assert (
                sum(waiting[name, share, s] for s in claim.states if isinstance(s, JobState)) <= claim.limit
            )


@relaxed
@given(worlds(), st.randoms())
def test_the_order_of_the_records_does_not_matter(state: World, shuffler: random.Random) -> None:
    def shuffled(records: tuple[T, ...]) -> tuple[T, ...]:
        return tuple(shuffler.sample(records, len(records)))

    house = state.federation
    other = replace(
        state,
        federation=replace(
            house,
            queues=shuffled(house.queues),
            storages=shuffled(house.storages),
            shares=shuffled(house.shares),
        ),
        tasks=shuffled(state.tasks),
        jobs=shuffled(state.jobs),
        files=shuffled(state.files),
        replicas=shuffled(state.replicas),
        job_counts=shuffled(state.job_counts),
    )
    assert to_json(decide(other)) == to_json(decide(state))


@relaxed
@given(worlds(), worlds(), st.integers(1, 40))
def test_what_was_decided_before_does_not_matter(before: World, state: World, kept: int) -> None:
    measured = Measured(finished=1, memory=700)
    scouted = replace(state, tasks=tuple(replace(one, measured=measured) for one in state.tasks))
    expected = [to_json(decide(one)) for one in (state, scouted)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spec_table, "MOST_ROWS", kept)
        plugin = Production()
        plugin.decide(before)
        assert [to_json(plugin.decide(one)) for one in (state, scouted)] == expected


@relaxed
@given(worlds(), st.integers(1, 40), st.integers(1, 40))
def test_how_many_tasks_are_examined_together_does_not_matter(state: World, pairs: int, judged: int) -> None:
    expected = [to_json(Production(options).decide(state)) for options in ({}, OPTIONS)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cycle, "BLOCK", pairs)
        patch.setattr(cycle, "AT_ONCE", judged)
        patch.setattr(verdicts, "AT_ONCE", judged)
        assert [to_json(Production(options).decide(state)) for options in ({}, OPTIONS)] == expected


@relaxed
@given(worlds())
def test_what_holds_for_one_vo_changes_nothing_for_another(state: World) -> None:
    """Alone in the world, a task is decided by its own VO's options only."""
    own, without = Production(OPTIONS), Production({"off": ["B1"]})
    for item in state.tasks:
        alone = replace(state, tasks=(item,), jobs=tuple(job for job in state.jobs if job.task == item.id))
        same = to_json(own.decide(alone)) == to_json(without.decide(alone))
        assert same or item.owner.vo == "atlas"


def _stricter(item: Queue) -> Queue:
    return replace(
        item, max_memory=min(item.max_memory or 1e9, 900), max_walltime=min(item.max_walltime or 1e9, 50_000)
    )


@relaxed
@given(worlds(), st.data())
def test_a_stricter_queue_never_gains(state: World, data: st.DataObject) -> None:
    chosen = data.draw(st.sampled_from(state.federation.queues))
    stricter = tuple(_stricter(item) if item is chosen else item for item in state.federation.queues)
    house: Federation = replace(state.federation, queues=stricter)
    one = tuple(job for job in state.jobs if job.task == 1)
    before = decide(replace(state, jobs=one)).choices[0]
    after = decide(replace(state, jobs=one, federation=house)).choices[0]
    assert after.placed.get(chosen.name, 0) <= before.placed.get(chosen.name, 0)
    others, left = (set(choice.candidates.queues) - {chosen.name} for choice in (before, after))
    assert others <= left
    # Checks that are lifted where no queue would be left (B8, B11) let others in.
    assert left - others <= {name for refusal in after.waived for name in refusal.queues}


def _examined(state: World) -> tuple[Examination, QueueColumns, list[Group]]:
    columns = QueueColumns.of(state.federation).during(state)
    groups = groups_of(state, columns)
    return examine(CHECKS, TaskColumns.of(groups, columns), columns, FactsDraft(columns)), columns, groups


@relaxed
@given(worlds())
def test_each_check_alone_says_the_same_for_each_task_alone(state: World) -> None:
    """In the bits that decide, and in the reasons."""
    together, columns, groups = _examined(state)
    names = columns.names.tolist()
    for row, group in enumerate(groups):
        alone = TaskColumns.of([group], columns)
        told = {item.label: item for item in together.refusals(row)}
        labels = {(item.label.rule, item.label.name): item for item in together.rulings}
        for check in CHECKS:
            mask = np.broadcast_to(check.judge(alone, columns).refused, (1, len(names)))[0]
            ruling = labels.get((check.rule, check.name))
            bits = ruling.bits[ruling.rows[row]] if ruling else np.zeros(len(names), dtype=np.uint8)
            assert (mask_of(bits, len(names)) == mask).all()
            assert (ruling is not None and ruling.number in told) == mask.any()
        assert (mask_of(together.refused(np.array([row])), len(names))[0] == _any(alone, columns)).all()


def _any(alone: TaskColumns, columns: QueueColumns) -> Mask:
    masks = [np.broadcast_to(check.judge(alone, columns).refused, (1, len(columns)))[0] for check in CHECKS]
    refused: Mask = np.logical_or.reduce(masks)
    return refused
