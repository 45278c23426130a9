"""A job's explanation tells the way of each of its files, in text and as a document."""

from dataclasses import replace
from pathlib import Path

from pilotage.explain.job_files import with_ways
from pilotage.model.records.federation import TransferService
from pilotage.model.records.work import InputFile
from pilotage.server.api.work.explanations import JobExplanation, explained_job

from .house import ALICE, House


def explained(house: House, job: int) -> JobExplanation:
    found = house.store.queries.job(job)
    assert found is not None
    return explained_job(house.runtime, found, ())


def test_a_job_tells_where_its_inputs_are_and_what_brings_them(house: House, tmp_path: Path) -> None:
    for name, root in (("far", "south"), ("near", "north")):
        (tmp_path / root).mkdir(exist_ok=True)
        (tmp_path / root / name).write_bytes(b"x" * 2000)
    inputs = (
        InputFile(name="far", size=2000, replicas=("south-disk",)),
        InputFile(name="near", size=2000, replicas=("north-disk",)),
    )
    house.task(inputs=inputs, queues=("north-queue",), files_per_job=2)
    house.take("broker")
    told = explained(house, 1)
    assert [(one.file, one.kind, one.storages) for one in told.files] == [
        (f"{ALICE.vo}:far", "input", ("south-disk",)),
        (f"{ALICE.vo}:near", "input", ("north-disk",)),
    ]
    far, near = told.files
    assert far.transfer is not None
    assert far.way == (
        "transfer 1 from south-disk to north-disk, streamed by the server: queued, attempt 1, "
        f"share {far.transfer.share}, priority 25"
    )
    assert near.way == "is at north-disk, the storage of its queue"
    assert f"  input {ALICE.vo}:far, 2 kB: {far.way}" in told.lines
    federation = house.store.federation()
    service = TransferService(url="https://fts.example:8446", options={})
    carried = replace(
        federation, storages=tuple(replace(one, transfer_service=service) for one in federation.storages)
    )
    (again, _) = with_ways(told.files, carried, "north-disk", is_remote=False)
    assert "by the fts service https://fts.example:8446: queued" in again.way
