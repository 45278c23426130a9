"""The ways of a job's files in words."""

from dataclasses import replace

import pytest

from pilotage.explain.job_files import of_files, with_ways
from pilotage.model.records.federation import Federation, TransferService
from pilotage.model.records.states import TransferState
from pilotage.model.records.work import FileOfJob
from pilotage.testing import three_sites, transfer

MOVED = transfer(7, TransferState.DONE, file="ligo:a", source="west", share="ligo-download")
INPUT = FileOfJob(file="ligo:a", kind="input", size=1_230_000, storages=("west",))


def federation(url: str, service: TransferService | None = None) -> Federation:
    made = three_sites()
    changed = (replace(one, url=f"{url}/{one.name}", transfer_service=service) for one in made.storages)
    return replace(made, storages=tuple(changed))


@pytest.mark.parametrize(
    ("file", "afar", "said"),
    [
        (replace(INPUT, storages=("east", "west")), False, "is at east, the storage of its queue"),
        (INPUT, False, "is at west, and not at east"),
        (INPUT, True, "is at west, from where its pilot reads it"),
        (replace(INPUT, storages=()), False, "is at no storage, and not at east"),
        (replace(INPUT, kind="output"), False, "is at west"),
        (
            replace(INPUT, transfer=MOVED, took=12.0),
            False,
            "transfer 7 from west to east, streamed by the server: done in 12 s, share ligo-download, "
            "priority 25",
        ),
        (
            replace(INPUT, transfer=replace(MOVED, state=TransferState.QUEUED, attempt=2, error="no answer")),
            False,
            "transfer 7 from west to east, streamed by the server: queued, attempt 2, share ligo-download, "
            "priority 25; last error: no answer",
        ),
    ],
)
def test_the_way_of_a_file(file: FileOfJob, afar: bool, said: str) -> None:
    (found,) = with_ways([file], federation("file://"), "east", afar)
    assert found.way == said
    assert list(of_files([found])) == [f"  {file.kind} ligo:a, 1.23 MB: {said}"]


def test_who_carries_the_bytes() -> None:
    moved = replace(INPUT, transfer=MOVED)
    service = TransferService(url="https://fts.example:8446")
    told = [
        with_ways([one], of, "east", False)[0].way.partition("west to east, ")[2].partition(":")[0]
        for one, of in (
            (moved, federation("https://web")),
            (moved, federation("root://xrd")),
            (moved, federation("sftp://ssh")),
            (moved, replace(federation("s3://bucket"), storages=())),
            (moved, federation("https://web", service)),
        )
    ]
    themselves = "copied by the storages themselves where they can, else streamed"
    streamed = "streamed by the server"
    assert told == [themselves, themselves, streamed, streamed, "by the fts service https"]
