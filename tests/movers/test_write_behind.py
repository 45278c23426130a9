"""Large files leave the system's memory once they are on the disk; small ones stay."""

import ctypes
import mmap
import os
from pathlib import Path

import pytest

from pilotage.adapters.movers.storages.local import LocalBackend
from pilotage.adapters.movers.storages.part_files import LARGE, WINDOW

BLOCK = bytes(range(256)) * 4096


def resident(file: Path) -> int:
    """Bytes of a file that the system has in memory."""
    with file.open("r+b") as stream, mmap.mmap(stream.fileno(), 0) as view:
        held = (ctypes.c_ubyte * -(-len(view) // mmap.PAGESIZE))()
        begin = ctypes.c_ubyte.from_buffer(view)
        address = ctypes.c_void_p(ctypes.addressof(begin))
        failed = ctypes.CDLL(None).mincore(address, ctypes.c_size_t(len(view)), held)
        del begin  # else the mapping cannot be closed
        assert not failed
        return sum(page & 1 for page in held) * mmap.PAGESIZE


@pytest.fixture
def forgetful(tmp_path: Path) -> Path:
    """A directory on a disk: files of some file systems are nowhere but in memory."""
    trial = tmp_path / "trial"
    with trial.open("wb") as file:
        file.write(BLOCK)
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if resident(trial):
        pytest.skip("files of the tests' directory stay in memory")
    return tmp_path


def test_a_large_file_leaves_memory(forgetful: Path) -> None:
    size = LARGE + 2 * WINDOW
    LocalBackend(f"file://{forgetful}", {}).store("large", ".part", [BLOCK] * (size // len(BLOCK)), size)
    assert (forgetful / "large").stat().st_size == size
    assert resident(forgetful / "large") < size / 10


def test_a_part_that_was_gone_on_with_leaves_memory(forgetful: Path) -> None:
    backend = LocalBackend(f"file://{forgetful}", {})
    (forgetful / ".old").write_bytes(BLOCK * (LARGE // len(BLOCK)))
    with backend.part(".new", [".old"]) as part:
        for _ in range(2 * WINDOW // len(BLOCK)):
            part.write(BLOCK)
        part.publish("large")
    assert (forgetful / "large").stat().st_size == LARGE + 2 * WINDOW
    assert resident(forgetful / "large") < LARGE / 10


def test_a_small_file_stays_in_memory(forgetful: Path) -> None:
    LocalBackend(f"file://{forgetful}", {}).store("small", ".part", [BLOCK] * 4, 4 * len(BLOCK))
    assert resident(forgetful / "small") > len(BLOCK)  # the system may take some of it back
