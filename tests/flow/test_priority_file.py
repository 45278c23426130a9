"""The file of priorities of transfers (D9)."""

from dataclasses import replace
from pathlib import Path

import pytest

from pilotage.flow.outside.operator_file import LARGEST, FileInbox
from pilotage.flow.step import take
from pilotage.flow.steps import step
from pilotage.flow.transfer_priorities import read_priorities, take_files
from pilotage.model.records.constants import StagingConstants
from pilotage.model.records.states import TransferState
from pilotage.model.records.work import File, Replica
from pilotage.model.values.slot_parts import SMALL_FILE
from pilotage.server.process import PRIORITY_FILES, runtime_of
from pilotage.testing.stores import create, new_transfer
from tests.reading import world_of

from .house import House, federation


@pytest.fixture(params=PRIORITY_FILES)
def file(request: pytest.FixtureRequest, house: House, tmp_path: Path) -> Path:
    """Where the operator leaves priorities: under the published name, or ours."""
    house.runtime.priorities = [FileInbox(tmp_path / name) for name in PRIORITY_FILES]
    found: Path = tmp_path / request.param
    return found


@pytest.fixture
def transfers(house: House) -> list[int]:
    """Two queued transfers of which one may be prepared: small files would share its slot."""
    constants = StagingConstants(preparing_slots=1, max_prepared=1, highest_pass=0, max_emergency=0)
    house.store.save_federation(replace(federation(house.place), staging=constants), "test")
    records = [
        new_transfer(f"file{number}", source="north-disk", destination="south-disk") for number in (1, 2)
    ]
    create(house.store, *(File(name=record.file, size=SMALL_FILE + 1, checksum="") for record in records))
    create(house.store, *(Replica(file=record.file, storage="north-disk") for record in records))
    return create(house.store, *records, time=house.now)


def queued(house: House) -> dict[int, int]:
    """Priorities of the transfers that wait for a slot."""
    world = world_of(house.store, "stage", house.now, 1, limit=100)
    return {one.id: one.priority for one in world.transfers if one.state is TransferState.QUEUED}


def test_d9_a_file_is_read_before_sorting_and_renamed(house: House, file: Path, transfers: list[int]) -> None:
    first, second = transfers
    file.write_text(f"{first} 20\n{second} 10\n{second} 90\n")
    take(step("stage"), house.runtime, house.runtime.begin(100))
    assert queued(house) == {first: 20}, "the second went first, by the last of its lines"
    assert {path.name for path in file.parent.glob("*.prio*")} == {f"{file.name}.read"}


def test_d9_a_server_reads_the_published_name_and_ours(
    house: House, transfers: list[int], tmp_path: Path
) -> None:
    runtime = runtime_of(house.store, home=tmp_path)
    for name, transfer, priority in zip(PRIORITY_FILES, transfers, (61, 62), strict=True):
        (tmp_path / name).write_text(f"{transfer} {priority}\n")
    take_files(runtime)
    assert queued(house) == dict(zip(transfers, (61, 62), strict=True))
    assert {path.name for path in tmp_path.glob("*.prio*")} == {"dtr.state.prio.read", "transfers.prio.read"}


def test_d9_what_applies_applies_and_the_rest_is_logged(
    house: House, file: Path, transfers: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    first, second = transfers
    file.write_text(f"{second} much\n{first} 77\n4711 50\n")
    take(step("stage"), house.runtime, house.runtime.begin(100))
    assert queued(house) == {second: 50}
    assert f"{file.name}: line 1" in caplog.text
    assert "transfer 4711 is not live" in caplog.text


@pytest.mark.parametrize("content", [b"1 50\n" * LARGEST, b"\xff\xfe"])
def test_d9_a_file_that_cannot_be_read_is_put_aside(
    house: House, file: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    file.write_bytes(content)
    for _ in range(2):
        take(step("stage"), house.runtime, house.runtime.begin(100))
    assert len(caplog.records) == 1
    assert f"{file.name}.read" in {path.name for path in file.parent.iterdir()}


def test_d9_a_link_is_not_followed(house: House, file: Path, transfers: list[int], tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text(f"{transfers[1]} 90\n")
    file.symlink_to(tmp_path / "elsewhere")
    take(step("stage"), house.runtime, house.runtime.begin(100))
    assert queued(house) == {transfers[1]: 50}


def test_d9_lines_of_id_and_priority_are_read_and_bad_ones_reported_by_number() -> None:
    text = "12 90\n\n  7\t95  \nabc 5\n3 0\n4 101\n5\n6 1 2\n-1 5\n# for a review\n  #\n8 60 # ada\n9 # 70\n"
    priorities, errors = read_priorities(text)
    assert priorities == [(12, 90), (7, 95), (8, 60)]
    assert [error.split(":")[0] for error in errors] == [f"line {n}" for n in (4, 5, 6, 7, 8, 9, 13)]
    assert "1..100" in errors[1]
