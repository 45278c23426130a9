"""Files that the server hands on to pilots which cannot open their storage: their own, and no others."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import fsspec
import pytest

from pilotage.flow.calls.pilots.pilot_files import source_of
from pilotage.model.records.federation import Federation, Storage
from pilotage.server.api.edge import guard

from .conftest import BOB, House, Submit

OFFER = {"cores": 1, "memory": 1000, "walltime": 1000, "max_jobs": 1}
CONTENT = bytes(range(256)) * 9000
"""More than one part of a body, and of what is read at once."""


@dataclass
class Held:
    """A pilot that holds a job whose storage it cannot open, another that does not, and the job."""

    mine: Any
    other: Any
    job: int
    work: dict[str, Any]

    @property
    def path(self) -> str:
        return f"/pilot/content/{self.job}/1"


@pytest.fixture
def held(house: House, submit: Submit) -> Iterator[Held]:
    federation: Federation = house.store.federation()
    storage = replace(federation.storages[0], url="memory://north")
    house.runtime.save_federation(replace(federation, storages=(storage, *federation.storages[1:])), "test")
    memory = fsspec.filesystem("memory")
    memory.pipe("/north/a.dat", CONTENT)
    inputs = [{"name": "a.dat", "size": len(CONTENT), "replicas": ["north-disk"]}]
    task = submit(inputs=inputs, outputs=["out"])
    (job,) = house.activate(task)
    (_, mine), (_, other) = house.pilot(), house.pilot(owner=BOB)
    (work,) = mine.post("/pilot/match", json=OFFER).json()["works"]
    yield Held(mine, other, job, work)
    memory.store.clear()


def test_a_pilot_is_told_to_ask_and_nothing_that_opens_the_storage(held: Held) -> None:
    assert held.work["asks"] is True
    assert held.work["storage_options"] == {}
    web = Storage(name="w", site="s", url="https://w", options={"token_file": "/t", "headers": {"X-A": "b"}})
    assert (source_of(web).asks, source_of(web).options) == (True, {})
    plain = replace(web, options={"headers": {"X-A": "b"}, "vos": {}})
    assert (source_of(plain).asks, source_of(plain).options) == (False, {"headers": {"X-A": "b"}})
    assert source_of(replace(plain, options={"vos": {"atlas": {"token_file": "/t"}}})).asks


def test_an_input_comes_and_an_output_goes_through_the_server(held: Held) -> None:
    asked = held.mine.post("/pilot/access", json={"job": held.job, "attempt": 1, "name": "a.dat"})
    assert asked.json()["url"] == "", "a storage in memory has no addresses"
    answer = held.mine.get(held.path, params={"name": "a.dat"})
    assert (answer.status_code, answer.content) == (200, CONTENT)
    stored = held.mine.put(held.path, params={"name": "folder/out"}, content=CONTENT)
    assert stored.json()["size"] == len(CONTENT)
    scratch = held.work["jobs"][0]["scratch"]
    assert fsspec.filesystem("memory").cat(f"/north/{scratch}/folder/out") == CONTENT


@pytest.mark.parametrize("name", ["b.dat", "../a.dat", "/a.dat", ".scratch/x"])
def test_nothing_but_the_inputs_of_the_job_is_read(held: Held, name: str) -> None:
    assert held.mine.get(held.path, params={"name": name}).status_code in (403, 422)
    body = {"job": held.job, "attempt": 1, "name": name}
    assert held.mine.post("/pilot/access", json=body).status_code in (403, 422)


def test_nothing_is_read_or_written_for_another_pilot_attempt_or_storage(held: Held) -> None:
    """P9."""
    for client, path in ((held.other, held.path), (held.mine, f"/pilot/content/{held.job}/2")):
        assert client.get(path, params={"name": "a.dat"}).status_code == 403
        assert client.put(path, params={"name": "out"}, content=b"x").status_code == 403
    afar = held.mine.get(held.path, params={"name": "a.dat", "source": "south-disk"})
    assert (afar.status_code, "do not read from" in afar.text) == (403, True)


def test_a_file_that_is_gone_is_told_apart_from_one_that_cannot_be_read(held: Held) -> None:
    fsspec.filesystem("memory").rm("/north/a.dat")
    answer = held.mine.get(held.path, params={"name": "a.dat"})
    assert (answer.status_code, "north-disk" in answer.text) == (404, True)


def test_no_more_files_go_through_the_server_than_it_has_room_for(held: Held, house: House) -> None:
    with ExitStack() as full:
        for _ in range(8):
            full.enter_context(house.runtime.pilot_files.place())
        assert held.mine.get(held.path, params={"name": "a.dat"}).status_code == 503
        assert held.mine.put(held.path, params={"name": "out"}, content=b"x").status_code == 503
    assert held.mine.get(held.path, params={"name": "a.dat"}).status_code == 200


def test_an_upload_has_a_size_that_is_told_and_bounded(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    endless = held.mine.put(held.path, params={"name": "out"}, content=iter([b"a", b"b"]))
    assert endless.status_code == 411
    monkeypatch.setattr(guard, "LARGEST_FILE", 2)
    assert held.mine.put(held.path, params={"name": "out"}, content=b"abc").status_code == 413
