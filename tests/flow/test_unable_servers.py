"""Of several servers only those that can do a piece of work take it; the others spend nobody's attempts."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import pytest

from pilotage.adapters.movers.loader import InstalledMovers
from pilotage.flow.brokerages import LOOKED_FOR_AGAIN
from pilotage.flow.calls.work import remarks
from pilotage.flow.outside import elements
from pilotage.flow.outside.workers import Inline, Workers
from pilotage.flow.runtime import Runtime
from pilotage.flow.step import read_world, take
from pilotage.flow.steps import STEPS, clean, step
from pilotage.model.records.constants import StagingConstants
from pilotage.model.records.federation import ComputingElement, TransferService
from pilotage.model.records.states import JobState, PilotState, TransferState
from pilotage.model.records.work import File, InputFile, Replica
from pilotage.policies.brokerage import Brokerage, UnknownPluginError
from pilotage.policies.brokerage.plugin import load
from pilotage.policies.staging import preparing
from pilotage.ports.adapters import AdapterError
from pilotage.ports.computing import ComputingElementPort
from pilotage.ports.moving import Mover
from pilotage.server.api.work.explanations import explained_transfer
from pilotage.store import TaskDetails
from pilotage.store.files.copies import copies
from pilotage.testing.stores import create
from tests.reading import BROKERED, world_of
from tests.waiting import wait_for

from .house import FakeElement, House
from .test_servers_gone import Endless, Named

LACKS = "no mover installed here reads memory://; boto3 is not installed"


class Lacking(InstalledMovers):
    """The movers of a machine that lacks what files in memory need."""

    def for_delivery(self, source: str, destination: str) -> Mover:
        if "memory" in (source.partition("://")[0], destination.partition("://")[0]):
            raise LookupError(LACKS)
        return super().for_delivery(source, destination)


def server(
    house: House, movers: Callable[..., InstalledMovers] = InstalledMovers, **ports: object
) -> Runtime:
    """Another server on the house's store."""
    given: dict[str, object] = {"load": lambda _: FakeElement(), **ports}
    return Runtime(
        house.store,
        STEPS,
        movers=movers,
        clock=lambda: house.now,
        seeds=lambda: 1,
        workers=Inline(),
        server_url="http://server",
        **given,  # type: ignore[arg-type]
    )


def passes(house: House, runtime: Runtime, name: str, count: int = 5) -> None:
    for _ in range(count):
        take(step(name), runtime, runtime.begin(1000))


def until(house: House, runtime: Runtime, task: int, states: dict[JobState, int]) -> None:
    """Passes of staging until a task's jobs are in these states; movers work in threads of their own."""

    def reached() -> bool:
        passes(house, runtime, "stage", 1)
        return house.states(task) == states

    wait_for(reached, f"jobs are {states}", 60)


@pytest.fixture
def far(house: House) -> House:
    """South's files lie where only some servers reach them."""
    found = house.store.federation()
    storages = (found.storages[0], replace(found.storages[1], url="memory://far"))
    staging = StagingConstants(max_prepared=3, highest_pass=0)
    house.store.save_federation(replace(found, storages=storages, staging=staging), "test")
    return house


def reading(house: House, place: Path, *names: str, storage: str = "south-disk") -> int:
    """A task whose jobs read a file each at a storage, as far as its transfers are asked for."""
    files = []
    for name in names:
        if storage == "south-disk":
            fsspec.filesystem("memory").pipe_file(f"/far/{name}", b"x")
        files.append(InputFile(name=name, size=1, checksum="", replicas=(storage,)))
    task = house.task(command=("run",), inputs=tuple(files), files_per_job=1, walltime=60)
    house.take("broker")
    return task


def transfers(house: House) -> list[tuple[TransferState, int]]:
    found = house.store.snapshots.whole(house.now, 1).transfers
    return [(one.state, one.attempt) for one in found]


def test_a_server_without_a_mover_leaves_transfers_to_one_that_has_it(far: House, tmp_path: Path) -> None:
    task = reading(far, tmp_path, "a", "b", "c", "d", "e")
    lacking, able = server(far, Lacking), server(far)
    passes(far, lacking, "stage")
    assert transfers(far) == [(TransferState.QUEUED, 1)] * 5, "no attempt is spent"
    until(far, able, task, {JobState.ACTIVATED: 5})
    assert transfers(far) == []


def test_what_a_server_that_ended_was_delivering_is_left_to_one_that_can(far: House, tmp_path: Path) -> None:
    """It begins to wait within the pass that puts it back."""
    reading(far, tmp_path, "a", "b")
    able = server(far, lambda _: Endless(), presence=Named("able"))  # type: ignore[arg-type,return-value]
    passes(far, able, "stage", 6)
    assert transfers(far) == [(TransferState.DELIVERING, 1)] * 2
    passes(far, server(far, Lacking, presence=Named("lacking", "able")), "stage", 6)
    assert transfers(far) == [(TransferState.QUEUED, 2)] * 2, "no attempt in the name of one that cannot"


def test_what_another_server_prepared_holds_up_nothing_that_this_one_can_move(
    far: House, tmp_path: Path
) -> None:
    """The bound on what is prepared is full of it when that server goes away."""
    reading(far, tmp_path, "a", "b", "c")
    found = far.store.federation()
    slow = replace(found, storages=(found.storages[0], replace(found.storages[1], transfer_slots=1)))
    far.store.save_federation(slow, "test")
    world = world_of(far.store, "stage", far.now, 1, 100)
    for _ in range(2):
        world = world_of(far.store, "stage", far.now, 1, 100)
        far.store.commit(preparing.prepare(world), "stage")
    prepared = [state for state, _ in transfers(far)].count(TransferState.PREPARED)
    assert prepared >= 2
    far.store.save_federation(replace(found, staging=replace(found.staging, max_prepared=prepared)), "test")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "local").write_bytes(b"x")
    found = far.store.federation()
    extra = replace(found.storages[0], name="extra", url=f"file://{tmp_path}/elsewhere")
    far.store.save_federation(replace(found, storages=(*found.storages, extra)), "test")
    task = reading(far, tmp_path, "local", storage="extra")
    lacking = server(far, Lacking)
    far.now += 61
    until(far, lacking, task, {JobState.ACTIVATED: 1})
    assert {attempt for _, attempt in transfers(far)} == {1}


def test_a_server_that_cannot_delete_a_copy_leaves_it_and_its_record_to_one_that_can(far: House) -> None:
    """It forgot the copy, and could not delete it: its bytes stayed for ever, and nobody knew of them."""
    path = ".copies/flow/ligo/f"
    memory = fsspec.filesystem("memory")
    memory.pipe_file(f"/far/{path}", b"four")
    create(
        far.store,
        File(name="ligo:f", size=4, checksum=""),
        Replica(file="ligo:f", storage="north-disk"),
        Replica(file="ligo:f", storage="south-disk", path=path),
    )
    far.now += 40 * 86400
    passes(far, server(far, Lacking), "clean")
    entry = far.store.catalogue.entry("ligo:f")
    assert entry is not None
    assert len(entry.replicas) == 2
    passes(far, server(far), "clean")
    entry = far.store.catalogue.entry("ligo:f")
    assert entry is not None
    assert [one.storage for one in entry.replicas] == ["north-disk"]
    passes(far, server(far, Lacking), "watch")
    assert memory.exists(f"/far/{path}")
    passes(far, server(far), "watch")
    assert not memory.exists(f"/far/{path}")


def copied(house: House, storage: str, *names: str) -> None:
    """Copies at a storage, of originals at the other one."""
    original = {"north-disk": "south-disk", "south-disk": "north-disk"}[storage]
    for name in names:
        create(
            house.store,
            File(name=f"ligo:{name}", size=4, checksum=""),
            Replica(file=f"ligo:{name}", storage=original),
            Replica(file=f"ligo:{name}", storage=storage, path=f".copies/flow/ligo/{name}"),
        )


def holders(house: House, name: str) -> list[str]:
    entry = house.store.catalogue.entry(f"ligo:{name}")
    assert entry is not None
    return [one.storage for one in entry.replicas]


def test_copies_that_a_server_cannot_delete_are_looked_for_once_in_a_period(far: House) -> None:
    """Each look reads all copies. Another server's period is its own."""
    copied(far, "south-disk", "f")
    far.now += 40 * 86400
    lacking = server(far, Lacking)
    passes(far, lacking, "clean", 1)
    again = read_world(step("clean"), lacking, lacking.begin(1000))
    assert (again.cleaned, again.copies_sizes) == (far.now, ())
    far.now += 3601
    again = read_world(step("clean"), lacking, lacking.begin(1000))
    assert again.copies_sizes
    passes(far, lacking, "clean", 2)
    assert holders(far, "f") == ["north-disk", "south-disk"]
    passes(far, server(far), "clean", 1)
    assert holders(far, "f") == ["north-disk"]


def test_copies_that_a_server_cannot_delete_keep_no_others_from_going(far: House) -> None:
    few = replace(clean.STEP, reads=(copies(2), *clean.STEP.reads[1:]))
    copied(far, "south-disk", "a", "b", "c")
    far.now += 1
    copied(far, "north-disk", "d")
    far.now += 40 * 86400
    lacking = server(far, Lacking)
    for _ in range(3):
        take(few, lacking, lacking.begin(1000))
    assert holders(far, "d") == ["south-disk"]
    assert holders(far, "a") == ["north-disk", "south-disk"]


def test_a_transfer_service_that_a_server_lacks_keeps_no_copy_from_being_deleted(house: House) -> None:
    found = house.store.federation()
    service = TransferService(kind="not-installed", url="http://127.0.0.1:9")
    storages = tuple(replace(one, transfer_service=service) for one in found.storages)
    house.store.save_federation(replace(found, storages=storages), "test")
    copied(house, "north-disk", "f")
    house.now += 40 * 86400
    here = server(house)
    assert here.deliveries.unable(house.store.federation())
    passes(house, here, "clean", 2)
    assert holders(house, "f") == ["south-disk"]


def faults(runtime: Runtime, task: TaskDetails) -> list[str]:
    return [one.text for one in remarks.of_task(runtime, task) if one.kind == "fault"]


def test_status_and_explain_say_that_nobody_can(far: House, tmp_path: Path) -> None:
    task = reading(far, tmp_path, "a", "b")
    lacking = server(far, Lacking)
    passes(far, lacking, "stage")
    details = far.store.queries.task(task)
    assert details is not None
    (fault,) = faults(lacking, details)
    assert fault == (
        "2 transfers from south-disk to north-disk wait for a server that can move them; this one cannot: "
        f"{LACKS}"
    )
    (transfer, _) = far.store.snapshots.whole(far.now, 1).transfers
    lines = "\n".join(explained_transfer(lacking, transfer).lines)
    assert f"it waits for a server that can move it; this one cannot: {LACKS}" in lines
    assert faults(server(far), details) == []


def no_adapter(_: ComputingElement) -> ComputingElementPort:
    raise AdapterError("adapter 'fake' cannot be imported: htcondor2 is not installed")


def test_a_server_without_an_adapter_makes_and_fails_no_pilots(house: House) -> None:
    task = house.task(command=("run",), jobs=3, walltime=60)
    house.take("broker")
    house.take("stage")
    assert house.states(task) == {JobState.ACTIVATED: 3}
    lacking, element = server(house, load=no_adapter), FakeElement()
    able = server(house, load=lambda _: element)
    passes(house, lacking, "provision")
    assert house.store.snapshots.whole(house.now, 1).pilots == ()
    passes(house, able, "provision")
    assert len(element.orders) == 3
    house.now += 31
    passes(house, lacking, "provision")
    states = {pilot.state for pilot in house.store.snapshots.whole(house.now, 1).pilots}
    assert states == {PilotState.SUBMITTED}


def test_pilots_whose_submission_is_in_doubt_are_left_to_a_server_that_can(house: House) -> None:
    """After 30 s any server submits them again."""
    house.task(command=("run",), jobs=1, walltime=60)
    house.take("broker")
    pilot = house.pilot()
    house.now += 31
    passes(house, server(house, load=no_adapter), "provision")
    (found,) = house.store.snapshots.whole(house.now, 1).pilots
    assert (found.id, found.state) == (pilot, PilotState.CREATED)


def test_b26_a_queue_that_other_servers_serve_takes_jobs(house: House) -> None:
    lacking = server(house, load=no_adapter)
    world = world_of(house.store, BROKERED, house.now, 1, 10)
    assert [one.pilots_possible for one in lacking.elements.reported(world).queue_reports] == [False]
    house.task(command=("run",), jobs=1, walltime=60)
    house.take("broker")
    house.take("stage")
    passes(house, server(house), "provision")
    world = world_of(house.store, BROKERED, house.now, 1, 10)
    assert [one.pilots_possible for one in lacking.elements.reported(world).queue_reports] == [None]


class Missing:
    """A machine on which a plugin is not installed, until it is."""

    def __init__(self, *names: str) -> None:
        self.names, self.tries = set(names), 0

    def __call__(self, name: str, options: Any) -> Brokerage:
        if name in self.names:
            self.tries += 1
            raise UnknownPluginError(f"no brokerage is called {name!r}")
        return load(name, options)


@pytest.fixture
def lacks(monkeypatch: pytest.MonkeyPatch) -> Missing:
    missing = Missing("matchmaking")
    monkeypatch.setattr("pilotage.policies.brokerage.load", missing)
    return missing


def test_tasks_of_a_plugin_that_a_server_lacks_are_left_to_others(
    house: House, lacks: Missing, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is set aside for it, others' tasks go on, and it is said in one line."""
    theirs = house.task(command=("run",), jobs=3, walltime=60, brokerage="matchmaking")
    ours = house.task(command=("run",), jobs=2, walltime=60)
    here = server(house)
    for name in ("broker", "lift", "rebind", "broker"):
        passes(house, here, name)
    assert house.states(theirs) == {JobState.DEFINED: 3}
    assert JobState.DEFINED not in house.states(ours)
    assert house.store.set_aside.everything() == ()
    told = [record for record in caplog.records if "left to servers" in record.getMessage()]
    assert len(told) == 1
    assert told[0].exc_info is None
    assert lacks.tries == 1, "it is not looked for in every pass"
    details = house.store.queries.task(theirs)
    assert details is not None
    (said,) = faults(here, details)
    assert said == (
        "its jobs wait for a server that has its brokerage; this one has not: "
        "no brokerage is called 'matchmaking'"
    )
    lacks.names.clear()
    assert faults(server(house), details) == []


def test_many_tasks_of_a_plugin_that_is_lacking_keep_no_others_waiting(house: House, lacks: Missing) -> None:
    for _ in range(12):
        house.task(command=("run",), jobs=1, walltime=60, brokerage="matchmaking", priority=900)
    ours = house.task(command=("run",), jobs=1, walltime=60, priority=10)
    here = server(house)
    for _ in range(6):
        take(step("broker"), here, here.begin(3))
    assert JobState.DEFINED not in house.states(ours)


def test_a_plugin_that_is_installed_later_is_found(house: House, lacks: Missing) -> None:
    theirs = house.task(command=("run",), jobs=1, walltime=60, brokerage="matchmaking")
    here = server(house)
    passes(house, here, "broker")
    assert here.brokerages.left_of(house.store.federation_version, house.now) == {theirs}
    lacks.names.clear()
    house.now += LOOKED_FOR_AGAIN + 1
    passes(house, here, "broker")
    ours = house.task(command=("run",), jobs=1, walltime=60)
    passes(house, here, "broker")
    assert JobState.DEFINED not in house.states(ours)
    assert here.brokerages.left_of(house.store.federation_version, house.now) == frozenset()


def test_an_adapter_that_hangs_while_it_is_made_holds_up_its_own_queue_alone(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elements, "MADE_WITHIN", 0.2)
    go_on = threading.Event()
    hangs = replace(house.store.federation().queues[0], name="hangs", computing_element=HANGS)
    well = replace(hangs, name="well", computing_element=ComputingElement(kind="fake"))

    def make(element: ComputingElement) -> ComputingElementPort:
        if element == HANGS:
            go_on.wait(30)
        return FakeElement()

    made = elements.Elements(make, Workers(), lambda: None)
    begun = time.monotonic()
    assert made.problem(hangs) == "its adapter was not ready within 0.2 s"
    assert made.problem(well) == ""
    stuck = threading.Thread(target=made.adapter, args=(hangs, ""), daemon=True)
    stuck.start()
    assert made.adapter(well, "") is made.adapter(well, "")
    assert made.submissions.news() == ()
    assert made.sightings.news() == ()
    assert time.monotonic() - begun < 15
    go_on.set()
    wait_for(lambda: made.problem(hangs) == "", "it is ready after all", 30)
    stuck.join(30)


HANGS = ComputingElement(kind="hangs")
