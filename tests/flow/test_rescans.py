"""A retry looks at the inputs again: what their owner replaced or restored is read as it is now."""

import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pilotage.flow.calls.data.rescans import RESCAN_TIME
from pilotage.flow.calls.work.retry import retry, retry_preview
from pilotage.flow.task_cancellation import cancel
from pilotage.model.documents.world import Report
from pilotage.model.records.federation import Storage
from pilotage.model.records.states import JobState
from pilotage.model.records.work import InputFile, InputPattern
from pilotage.ports.moving import StorageError
from pilotage.store.tasks.work import one_job
from tests.waiting import wait_for

from .house import House, attempts

J = JobState
ALICE = "user:alice"


def checksum(content: bytes) -> str:
    return f"adler32:{zlib.adler32(content):08x}"


def known(house: House, name: str) -> tuple[int, str, list[str]]:
    entry = house.store.catalogue.entry(f"ligo:{name}")
    assert entry is not None
    return entry.file.size, entry.file.checksum, [replica.storage for replica in entry.replicas]


@pytest.fixture
def north(house: House, tmp_path: Path) -> Path:
    """Three files; the task that reads them has failed at the second."""
    folder = tmp_path / "north"
    for name in "abc":
        (folder / f"{name}.fa").write_bytes(b"fine")
    pattern = InputPattern(storages=("north-disk",), glob="*.fa")
    house.task(command=("x",), inputs=(pattern,), max_attempts=1, walltime=60)
    house.take("broker")
    house.take("stage")
    pilot = house.pilot()
    for job, attempt in attempts(house.match(pilot)):
        is_bad = read_by(house, job) == ["ligo:b.fa"]
        lost = ("b.fa",) if is_bad else ()
        state = "failed" if is_bad else "done"
        house.tell(pilot, Report(job=job, attempt=attempt, state=state, error="no", lost_inputs=lost))  # type: ignore[arg-type]
    house.take("finish")
    assert house.states(1) == {J.FAILED: 1, J.FINISHED: 2}
    return folder


def read_by(house: House, job: int) -> Sequence[str]:
    (found,) = house.runtime.world(one_job(1, job)).jobs
    return list(found.inputs)


def sizes(house: House) -> dict[str, int]:
    """The inputs that the next attempts are told, with their sizes."""
    house.take("broker")
    house.take("stage")
    answer = house.match(house.pilot())
    return {file.name: file.size for work in answer.works for job in work.jobs for file in job.inputs}


def test_a_file_that_its_owner_replaced_is_read_as_it_is_now(house: House, north: Path) -> None:
    (north / "b.fa").write_bytes(b"mended")
    (job,) = (one.id for one in house.store.queries.jobs(1, J.FAILED, 9))
    assert retry(house.runtime, 1, ALICE, job).moved == {J.FAILED: 1}
    assert known(house, "b.fa") == (6, checksum(b"mended"), ["north-disk"])
    assert known(house, "a.fa")[:2] == (4, checksum(b"fine"))
    assert sizes(house) == {"b.fa": 6}


def test_a_file_that_was_missing_and_is_restored_is_found_again(house: House, north: Path) -> None:
    """The failed read has struck it from its storage."""
    assert known(house, "b.fa")[2] == []
    retry(house.runtime, 1, ALICE)
    assert known(house, "b.fa") == (4, checksum(b"fine"), ["north-disk"])
    assert sizes(house) == {"b.fa": 4}


def test_a_file_that_is_not_there_still_fails_its_job_with_what_to_do(house: House, north: Path) -> None:
    (north / "b.fa").unlink()
    retry(house.runtime, 1, ALICE)
    assert known(house, "b.fa") == (4, checksum(b"fine"), [])
    house.take("broker")
    (job,) = house.store.queries.jobs(1, J.FAILED, 9)
    assert "restore it, then retry the job" in job.error


def test_a_preview_looks_at_nothing(house: House, north: Path) -> None:
    (north / "b.fa").write_bytes(b"mended")
    retry_preview(house.runtime, 1)
    assert known(house, "b.fa") == (4, checksum(b"fine"), [])


def brought(house: House, task: int) -> None:
    def is_there() -> bool:
        house.take("stage")
        return house.states(task) == {J.ACTIVATED: 1}

    wait_for(is_there, "the input is there")


def test_copies_of_the_former_bytes_are_not_read_any_more(house: House, tmp_path: Path) -> None:
    """The original lies in the south: the north has a copy of what it was."""
    (tmp_path / "south" / "s.fa").write_bytes(b"broken")
    pattern = InputPattern(storages=("south-disk",), glob="s.fa")
    task = house.task(command=("x",), inputs=(pattern,), max_attempts=1, walltime=60)
    house.take("broker")
    brought(house, task)
    pilot = house.pilot()
    ((job, attempt),) = attempts(house.match(pilot))
    house.tell(pilot, Report(job=job, attempt=attempt, state="failed", error="bad base", exit_code=1))
    assert known(house, "s.fa")[2] == ["north-disk", "south-disk"]
    (tmp_path / "south" / "s.fa").write_bytes(b"mended file")
    house.take("finish")
    retry(house.runtime, task, ALICE)
    assert known(house, "s.fa") == (11, checksum(b"mended file"), ["south-disk"])
    house.take("broker")
    brought(house, task)
    assert known(house, "s.fa")[2] == ["north-disk", "south-disk"]
    copies = [path.read_bytes() for path in (tmp_path / "north").rglob("s.fa")]
    assert copies == [b"mended file"]


def test_a_storage_that_cannot_be_seen_keeps_nobody_from_a_retry(house: House, tmp_path: Path) -> None:
    found = house.store.federation()
    gone = Storage(name="gone", site="north", url=f"file://{tmp_path}/not-there")
    house.store.save_federation(replace(found, storages=(*found.storages, gone)), "test")
    file = InputFile(name="f", size=4, replicas=("gone",))
    task = house.task(command=("x",), inputs=(file,), walltime=60)
    cancel(house.runtime, task, "enough", ALICE)
    assert retry(house.runtime, task, ALICE).moved == {J.CANCELLED: 1}
    assert known(house, "f") == (4, "", ["gone"])


def test_a_file_that_lies_at_several_storages_is_right_where_it_is_as_known(
    house: House, tmp_path: Path
) -> None:
    for name in ("north", "south"):
        (tmp_path / name / "f").write_bytes(b"fine")
    file = InputFile(name="f", size=4, checksum=checksum(b"fine"), replicas=("north-disk", "south-disk"))
    task = house.task(command=("x",), inputs=(file,), walltime=60)
    cancel(house.runtime, task, "enough", ALICE)
    (tmp_path / "south" / "f").write_bytes(b"other bytes")
    retry(house.runtime, task, ALICE)
    assert known(house, "f")[:2] == (4, checksum(b"fine"))


@pytest.mark.parametrize("away", ["north-disk", "south-disk"])
def test_a_storage_that_cannot_be_read_may_have_the_known_bytes(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, away: str
) -> None:
    """Others read the file there: what lies elsewhere describes it for nobody."""
    for name in ("north", "south"):
        (tmp_path / name / "f").write_bytes(b"fine")
    both = ("north-disk", "south-disk")
    task = house.task(command=("x",), inputs=(InputPattern(storages=both, glob="f"),), walltime=60)
    cancel(house.runtime, task, "enough", ALICE)
    for storage in both:
        if storage != away:
            (tmp_path / storage.removesuffix("-disk") / "f").write_bytes(b"f")
    scan = house.runtime.deliveries.scan

    def fails(storage: Storage, *given: Any, **options: Any) -> list[InputFile]:
        if storage.name == away:
            raise StorageError("down for an hour")
        return scan(storage, *given, **options)

    monkeypatch.setattr(house.runtime.deliveries, "scan", fails)
    retry(house.runtime, task, ALICE)
    assert known(house, "f") == (4, checksum(b"fine"), ["north-disk", "south-disk"])


def paths(house: House, name: str) -> dict[str, str]:
    entry = house.store.catalogue.entry(f"ligo:{name}")
    assert entry is not None
    return {replica.storage: replica.path for replica in entry.replicas}


@pytest.mark.parametrize("lost", [True, False])
@pytest.mark.parametrize("content", [b"fine", b"mended"])
def test_an_input_behind_a_link_stays_where_the_link_led(
    house: House, tmp_path: Path, content: bytes, lost: bool
) -> None:
    """Replaced or restored: no access follows the link itself."""
    north = tmp_path / "north"
    (north / "runs").mkdir()
    (north / "runs/1.fa").write_bytes(b"fine")
    (north / "latest.fa").symlink_to("runs/1.fa")
    pattern = InputPattern(storages=("north-disk",), glob="latest.fa")
    task = house.task(command=("x",), inputs=(pattern,), max_attempts=1, walltime=60)
    house.take("broker")
    house.take("stage")
    pilot = house.pilot()
    ((job, attempt),) = attempts(house.match(pilot))
    lost_inputs = ("latest.fa",) if lost else ()
    house.tell(pilot, Report(job=job, attempt=attempt, state="failed", error="no", lost_inputs=lost_inputs))
    house.take("finish")
    assert paths(house, "latest.fa") == ({} if lost else {"north-disk": "runs/1.fa"})
    (north / "runs/1.fa").write_bytes(content)
    retry(house.runtime, task, ALICE)
    assert known(house, "latest.fa")[:2] == (len(content), checksum(content))
    assert paths(house, "latest.fa") == {"north-disk": "runs/1.fa"}


def test_a_link_that_leads_elsewhere_now_changes_no_input(house: House, tmp_path: Path) -> None:
    """Its file is looked at where the catalogue knows it."""
    north = tmp_path / "north"
    (north / "1.fa").write_bytes(b"fine")
    (north / "2.fa").write_bytes(b"others")
    (north / "latest.fa").symlink_to("1.fa")
    pattern = InputPattern(storages=("north-disk",), glob="latest.fa")
    task = house.task(command=("x",), inputs=(pattern,), walltime=60)
    cancel(house.runtime, task, "enough", ALICE)
    (north / "latest.fa").unlink()
    (north / "latest.fa").symlink_to("2.fa")
    retry(house.runtime, task, ALICE)
    assert known(house, "latest.fa")[:2] == (4, checksum(b"fine"))
    assert paths(house, "latest.fa") == {"north-disk": "1.fa"}


def test_inputs_beyond_the_time_of_a_retry_are_named_with_what_to_do(
    house: House, north: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "cde":
        (north / f"{name}.fa").write_bytes(b"fine")
    inputs = (InputPattern(storages=("north-disk",), glob="[a-e].fa"),)
    task = house.task(command=("x",), inputs=inputs, walltime=60)
    cancel(house.runtime, task, "enough", ALICE)
    now = [0.0]
    monkeypatch.setattr("pilotage.flow.calls.data.rescans.monotonic", lambda: now[0])
    scan = house.runtime.deliveries.scan

    def slow(*given: Any, **options: Any) -> Sequence[InputFile]:
        now[0] += 0.4 * RESCAN_TIME
        return scan(*given, **options)

    monkeypatch.setattr(house.runtime.deliveries, "scan", slow)
    (line,) = retry(house.runtime, task, ALICE).lines
    assert line == (
        "2 of 5 inputs were not looked at again within 30 s (d.fa, e.fa): jobs read what is known of them. "
        f"If you replaced one, retry its jobs again once they fail: pilotage retry {task}"
    )
    (north / "b.fa").write_bytes(b"mended")
    assert retry(house.runtime, 1, ALICE).lines == ()
