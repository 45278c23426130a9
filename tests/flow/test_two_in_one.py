"""Two Pilotages in one process, on the same storages: nothing of one is ever the other's."""

from collections.abc import Iterator
from pathlib import Path
from zlib import adler32

import pytest

from pilotage.model.documents.world import Output, Report
from pilotage.model.records.states import JobState
from pilotage.store import Store
from tests.waiting import wait_for

from .house import House, attempts


def run(house: House, text: str) -> str:
    """Run one job whose output is this text; returns where the output lies below the storage."""
    task = house.task(command=("write",), outputs=("out",))
    house.take("broker")
    pilot = house.pilot()
    answer = house.match(pilot)
    ((job, attempt),) = attempts(answer)
    scratch = house.place / "north" / answer.works[0].jobs[0].scratch
    scratch.mkdir(parents=True)
    (scratch / "out").write_text(text)
    output = Output(name="out", size=len(text), checksum=f"adler32:{adler32(text.encode()):08x}")
    house.report(pilot, "running", [(job, attempt)])
    house.tell(pilot, Report(job=job, attempt=attempt, state="done", outputs=(output,)))

    def is_delivered() -> bool:
        house.take("stage")
        house.now += 0.1
        return house.states(task) == {JobState.FINISHED: 1}

    wait_for(is_delivered, "the output is delivered")
    (file,) = house.store.queries.outputs(task)
    return file.name


@pytest.fixture(params=["sqlite", "postgresql"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[Store]]:
    """Two stores: two files, or two databases of one server."""
    if request.param == "sqlite":
        urls = [f"sqlite:///{tmp_path / name}.db" for name in ("one", "two")]
    else:
        urls = [request.getfixturevalue(name) for name in ("postgresql_url", "empty_postgresql_url")]
    opened = [Store.open(url) for url in urls]
    yield opened
    for store in opened:
        store.close()


def test_the_same_task_of_two_pilotages_leaves_two_outputs(stores: list[Store], tmp_path: Path) -> None:
    houses = [House(store, tmp_path, name) for store, name in zip(stores, ("one", "two"), strict=True)]
    names = [run(house, f"made by {house.name}") for house in houses]
    assert names == ["tasks/one/1/1/out", "tasks/two/1/1/out"]
    for name, house in zip(names, houses, strict=True):
        assert (tmp_path / "north" / name).read_text() == f"made by {house.name}"
    assert list((tmp_path / "north" / ".scratch").rglob("*out*")) == []
