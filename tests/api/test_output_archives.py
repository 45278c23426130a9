"""Many small outputs in one answer."""

import io
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from pilotage.flow.outside import file_readers
from pilotage.model.documents.decision import Create
from pilotage.model.records.work import File, NewJob, Replica
from pilotage.model.values.paths import output_name
from pilotage.server.api.data import output_archives

from .conftest import OTHER_ALICE, House, Submit, federation

ODD = "plots/Größe (1) %#+.csv"


def archive(client: TestClient, task: int, **parameters: str | bool) -> dict[str, bytes]:
    """The members of an archive, by name, in its order."""
    found = client.get(f"/tasks/{task}/outputs/archive", params=parameters)
    assert (found.status_code, found.headers["content-type"]) == (200, "application/x-tar")
    with tarfile.open(fileobj=io.BytesIO(found.content)) as tar:
        return {one.name: read.read() for one in tar if (read := tar.extractfile(one))}


@pytest.fixture
def task(house: House, submit: Submit, tmp_path: Path) -> int:
    """A task of two jobs and a merge job, with outputs in the north."""
    house.store.save_federation(federation(tmp_path), "test")
    found = submit(jobs=2, outputs=["a.csv", ODD, "big"], scouts=0)
    house.split()
    merge = NewJob(task=found, kind="merge", share="default", priority=500, requirements="[]")
    house.commit(Create(records=(merge,), cause="merged"))
    for job in house.store.queries.jobs(found, None, 10):
        names = ("all.csv",) if job.kind == "merge" else ("a.csv", ODD, "big")
        for name in names:
            content = f"{job.id} {name}".encode() if name != "big" else bytes(output_archives.LARGEST + 1)
            path = tmp_path / "north" / output_name("small", found, job.id, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            file = f"user.alice~atlas:{output_name('small', found, job.id, name)}"
            house.commit(
                Create(
                    records=(
                        File(name=file, size=len(content), checksum="", task=found, job=job.id),
                        Replica(file=file, storage="north-disk"),
                    ),
                    cause="made",
                )
            )
    return found


def test_small_outputs_come_as_fetch_names_them_and_large_ones_do_not(alice: TestClient, task: int) -> None:
    found = archive(alice, task)
    assert found == {
        "1/a.csv": b"1 a.csv",
        f"1/{ODD}": f"1 {ODD}".encode(),
        "2/a.csv": b"2 a.csv",
        f"2/{ODD}": f"2 {ODD}".encode(),
        "all.csv": b"3 all.csv",
    }
    assert set(archive(alice, task, match="*.csv")) == set(found)
    assert set(archive(alice, task, match="a.csv")) == {"1/a.csv", "2/a.csv"}
    assert set(archive(alice, task, merged=True)) == {"all.csv"}


@pytest.mark.parametrize(("bound", "most"), [("MOST_FILES", 2), ("MOST_BYTES", 40), ("MOST_SECONDS", 0.0)])
def test_an_answer_is_bounded_and_the_next_goes_on(
    alice: TestClient, task: int, monkeypatch: pytest.MonkeyPatch, bound: str, most: float
) -> None:
    monkeypatch.setattr(output_archives, bound, most)
    outputs = {
        (f"{one['job']}/" if one["kind"] == "normal" else "") + one["name"].split("/", 4)[-1]: one["file"]
        for one in alice.get(f"/tasks/{task}/outputs").json()["files"]
    }
    came: list[str] = []
    while page := list(archive(alice, task, after=outputs[came[-1]] if came else "")):
        assert len(page) < 5
        came += page
    assert sorted(came) == sorted(name for name in outputs if "big" not in name)


def test_what_cannot_be_read_is_left_out(alice: TestClient, task: int, tmp_path: Path) -> None:
    files = sorted((tmp_path / "north").rglob("a.csv"))
    files[0].unlink()
    files[1].write_bytes(b"2 a.csv and more")
    assert set(archive(alice, task, match="a*")) == {"all.csv"}


def test_only_those_who_see_the_task_get_its_archive(house: House, task: int) -> None:
    refused = house.as_("user", OTHER_ALICE).get(f"/tasks/{task}/outputs/archive")
    assert refused.status_code == 404


@pytest.fixture
def busy(house: House) -> Iterator[None]:
    """Alice reads as many files as one person may."""
    with ExitStack() as held:
        for _ in range(file_readers.MOST_OF_ONE):
            held.enter_context(house.runtime.file_readers.place("atlas:alice"))
        yield


@pytest.mark.usefixtures("busy")
def test_an_archive_is_one_of_a_persons_readers(alice: TestClient, task: int) -> None:
    refused = alice.get(f"/tasks/{task}/outputs/archive")
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
