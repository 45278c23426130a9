"""Storages are asked for their free space every ten minutes; what they told is in worlds and views (B18)."""

import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pilotage.adapters.movers.loader import InstalledMovers
from pilotage.adapters.movers.processes import processes
from pilotage.explain import queues as explained
from pilotage.flow.calls.data import storage_moves
from pilotage.flow.calls.places import conditions
from pilotage.flow.loops import loops
from pilotage.flow.loops.loops import Loops
from pilotage.flow.runtime import Runtime
from pilotage.flow.steps import STEPS, step
from pilotage.model.documents.serialization import from_json, to_json
from pilotage.model.documents.world import World
from pilotage.model.records.federation import BrokerageConstants, Storage
from pilotage.model.records.storage_spaces import FreeSpace, StorageSpace
from pilotage.server.api.data.storages import Storages, get_storages
from pilotage.store import Store
from pilotage.testing.stores import create
from tests.reading import BROKERED, world_of
from tests.waiting import wait_for

from .house import Deaf, House

PERIOD = BrokerageConstants().storage_space_period


def told(house: House) -> dict[str, StorageSpace]:
    return {one.storage: one for one in house.store.transfer_queries.storage_spaces()}


def declare(house: House, *more: Storage, **storage: Any) -> None:
    """Declare north's storage otherwise, and further ones, each with a queue that reads it."""
    found = house.store.federation()
    (queue,) = found.queues
    changed = tuple(replace(one, **storage) if one.name == "north-disk" else one for one in found.storages)
    queues = (queue, *(replace(queue, name=f"{one.name}-queue", storage=one.name) for one in more))
    house.store.save_federation(replace(found, storages=(*changed, *more), queues=queues), "test")


def shown(house: House) -> Storages:
    return Storages.model_validate_json(bytes(get_storages(house.runtime).body))


def test_b18_storages_are_asked_once_in_a_period(house: House, tmp_path: Path) -> None:
    declare(house, free=40)
    house.take("survey")
    first = told(house)
    free = shutil.disk_usage(tmp_path).free / 1e9
    assert first["north-disk"].told == house.now
    assert first["north-disk"].free == pytest.approx(free, abs=10), "measured, whatever the file says"
    house.now += PERIOD - 1
    house.take("survey")
    assert told(house) == first
    house.now += 1
    house.take("survey")
    assert told(house)["north-disk"].asked == house.now


def test_b18_a_storage_that_tells_nothing_is_declared(house: House) -> None:
    declare(house, Storage(name="bare", site="north", url="memory://bare", free=40))
    house.take("survey")
    assert storage_moves.free_space(house.runtime)["bare"] == FreeSpace(
        gigabytes=40, problem="it tells no free space"
    )
    space = {one.name: one.space for one in shown(house).storages}["bare"]
    assert (space.free, space.source, space.measured) == (40, "declared", None)
    (seen,) = conditions.of_queues(house.runtime, ["bare-queue"])
    lines = "\n".join(explained.of_queue(seen))
    assert "storage bare: 40 GB free, declared; not measured: it tells no free space" in lines


def test_b18_views_and_worlds_show_what_was_measured_and_when(house: House) -> None:
    declare(house, free=40)
    house.take("survey")
    space = {one.name: one.space for one in shown(house).storages}["north-disk"]
    assert (space.source, space.measured) == ("measured", house.now)
    (seen,) = conditions.of_queues(house.runtime, ["north-queue"])
    assert "GB free, measured 2027-01-15 08:00:00 UTC" in "\n".join(explained.of_queue(seen))
    whole = house.store.snapshots.whole(house.now, 1)
    saved = from_json(World, to_json(whole))
    assert saved.free_spaces == whole.free_spaces
    assert saved.free_spaces["north-disk"].measured_at == house.now
    asked = world_of(house.store, BROKERED, house.now, 1, limit=1)
    assert asked.storage_spaces == whole.storage_spaces


def test_b18_an_old_answer_gives_way_to_what_is_declared(house: House) -> None:
    declare(house, free=40)
    house.take("survey")
    measured = told(house)["north-disk"].free
    house.now += 3 * PERIOD - 1
    assert storage_moves.free_space(house.runtime)["north-disk"].gigabytes == measured
    house.now += 1
    found = storage_moves.free_space(house.runtime)["north-disk"]
    assert (found.gigabytes, found.measured_at) == (40, None)
    assert "its last answer is of 2027-01-15 08:00:00 UTC" in found.text


def test_b18_a_failed_question_keeps_the_last_answer_and_says_why(house: House, tmp_path: Path) -> None:
    with listening() as port:
        url = f"http://127.0.0.1:{port}"
    declare(house, Storage(name="web", site="north", url=url, free=40))
    before = StorageSpace(storage="web", url=url, asked=house.now - PERIOD, told=house.now - PERIOD, free=300)
    create(house.store, before, time=house.now - PERIOD)
    house.take("survey")
    found = told(house)["web"]
    assert (found.free, found.told, found.asked) == (300, house.now - PERIOD, house.now)
    assert "ConnectionError" in found.problem
    assert storage_moves.free_space(house.runtime)["web"].gigabytes == 300


def test_b18_a_server_that_cannot_ask_says_nothing(house: House) -> None:
    """Another server may have the mover: its answer is not to be replaced."""
    declare(house, Storage(name="tape", site="north", url="tape+nobody://x", free=40))
    house.take("survey")
    assert "tape" not in told(house)


@contextmanager
def listening() -> Iterator[int]:
    """A port that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as silent:
        yield silent.getsockname()[1]


def test_b18_storages_that_hang_hold_up_no_other(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More of them than are asked at once."""
    monkeypatch.setattr(processes, "SPACE_LIMIT", 1.0)
    monkeypatch.setattr(loops, "PAUSE_AFTER_FAULT", 0.1)
    house = House(store, tmp_path)
    with listening() as port:
        hanging = [
            Storage(name=f"a-hangs-{number}", site="north", url=f"http://127.0.0.1:{port}/{number}")
            for number in range(9)
        ]
        declare(house, *hanging)
        runtime = Runtime(
            store,
            STEPS,
            load=lambda _: Deaf(),
            movers=lambda on_news: InstalledMovers(on_news, processes=True),
        )
        running = Loops(runtime, [step("survey")])
        running.start()
        try:
            wait_for(lambda: told(house).keys() >= {"north-disk", "a-hangs-8"}, "all have been asked")
        finally:
            running.stop()
            runtime.close()
    assert told(house)["north-disk"].free
    assert "no answer" in told(house)["a-hangs-0"].problem
