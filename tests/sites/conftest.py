"""Real batch systems for tests: one for each worker, started where this machine has what it takes."""

from collections.abc import Iterator

import pytest

from . import slurm as slurms


@pytest.fixture(scope="session")
def running_slurm() -> Iterator[slurms.Slurm]:
    """A Slurm of 16 slots, for all tests that leave it as they found it."""
    if lacking := slurms.lacking():
        pytest.skip(lacking)
    with slurms.slurm() as bed:
        yield bed


@pytest.fixture
def slurm(running_slurm: slurms.Slurm, monkeypatch: pytest.MonkeyPatch) -> Iterator[slurms.Slurm]:
    """A Slurm without jobs, that commands of this process reach."""
    for name, value in running_slurm.environment.items():
        monkeypatch.setenv(name, value)
    yield running_slurm
    running_slurm.clear()
