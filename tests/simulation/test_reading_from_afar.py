"""Jobs that read over links end when they have computed and read, and share links with all that moves."""

from dataclasses import replace
from pathlib import Path

import pytest

from pilotage.flow.matching.matched import Matched
from pilotage.model.records.states import JobState, TaskState
from pilotage.model.records.work import File, Job, Replica, Task, TaskSpec
from pilotage.model.values.identity import Identity
from pilotage.ports.computing import PilotOrder
from pilotage.simulation.payloads import SimulatedTask
from pilotage.simulation.pilots import VirtualPilot
from pilotage.simulation.reading import read
from pilotage.simulation.simulation import BEGIN, Simulation
from pilotage.simulation.sites import VirtualSite

ALICE = Identity(name="alice", vo="sim")
MIXED = Path(__file__).parents[2] / "examples" / "simulation" / "mixed.yaml"
SIZE = 6_000_000_000
"""Bytes: 100 s alone over the link from north to east."""


def ended(
    work: float, holder: str, jobs: int = 1, choice: int | None = 1, open_to: bool = True
) -> list[float]:
    """When jobs of so much work end in the east, whose cores have 10 HS23, reading a file each.

    ``open_to`` tells whether pilots may read storages from afar.
    """
    case = read(MIXED)
    storages = tuple(replace(one, remote_reads=open_to) for one in case.federation.storages)
    case = replace(case, federation=replace(case.federation, storages=storages))
    simulation = Simulation(case.federation, case.scenario, 1)
    scene, spec = simulation._sites["east"].scene, TaskSpec(name="t", command=("run",))
    site = VirtualSite("east", case.scenario.default_site, scene)
    storage = next(one for one in case.federation.storages if one.site == "east")
    order = PilotOrder(pilot=1, name="p", token="t", server_url="", slots=jobs, cores=jobs)
    pilot = VirtualPilot(site, order, 10, storage, node="east-1")
    scene.payloads.tasks[1] = SimulatedTask(spec=spec, owner=ALICE, work=(work,))
    task = Task(id=1, spec=spec, owner=ALICE, state=TaskState.RUNNING, created=BEGIN, since=BEGIN)
    given = Matched(
        federation=case.federation,
        queue=next(one for one in case.federation.queues if one.site == "east"),
        jobs=tuple(
            Job(
                id=id_,
                task=1,
                kind="normal",
                share="production",
                priority=500,
                requirements="",
                state=JobState.SENT,
                attempt=1,
                since=BEGIN,
                created=BEGIN,
                inputs=(f"f{id_}",),
                choice=choice,
            )
            for id_ in range(jobs)
        ),
        tasks=(task,),
        files=tuple(File(name=f"f{id_}", size=SIZE, checksum="", task=None, job=None) for id_ in range(jobs)),
        replicas=tuple(Replica(file=f"f{id_}", storage=holder) for id_ in range(jobs)),
    )
    pilot.take(given)
    simulation.clock.advance(BEGIN + 10_000)
    found = [time - BEGIN for time, *_ in simulation.journal.ended.values()]
    moved = simulation.journal.moved
    simulation.close()
    reads = holder != "east-disk" and choice is not None and open_to
    assert moved == (jobs * SIZE if reads else 0)
    return found


def test_a_job_reads_while_it_computes() -> None:
    assert ended(5000, "east-disk") == [500]
    assert ended(5000, "north-disk") == [500]
    assert ended(500, "north-disk") == pytest.approx([100])


def test_jobs_share_the_link_that_they_read_over() -> None:
    assert ended(500, "north-disk", jobs=3) == pytest.approx([300, 300, 300])


def test_e3_nothing_is_read_from_a_storage_that_is_not_open_to_pilots_elsewhere() -> None:
    assert ended(500, "north-disk", open_to=False) == [50]


def test_e3_a_job_that_stays_at_its_queue_reads_there_alone() -> None:
    assert ended(500, "north-disk", choice=None) == [50]
