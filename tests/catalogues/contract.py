"""The promises of a catalogue, which every implementation of the port keeps."""

from collections.abc import Sequence
from itertools import count
from typing import Protocol

import pytest

from pilotage.model.work import InputFile
from pilotage.ports.catalogue import CataloguePort

SCOPE = "data18"
FILES = tuple(
    InputFile(name=name, size=size, checksum=f"adler32:{size:08x}", replicas=("south-disk",), scope=SCOPE)
    for size, name in enumerate(
        ("runs/1.dat", "runs/2.dat", "runs/2/3.dat", "runs/2/4.txt", "walks.dat"), 100
    )
)
A, B, C, D, W = FILES


class Shelf(Protocol):
    """A catalogue that holds :data:`FILES`, and what else a test puts into it."""

    port: CataloguePort

    def define(self, dataset: str, files: Sequence[InputFile]) -> None:
        """Make a dataset that may be read."""


_numbers = count(1)


class CatalogueContract:
    """Tests of any catalogue; a class derived from it has a fixture ``shelf``."""

    @pytest.fixture
    def runs(self) -> str:
        """The name of a dataset that no other test has made."""
        return f"runs-{next(_numbers)}"

    @pytest.mark.parametrize(
        ("glob", "found"),
        [
            ("runs/*.dat", (A, B)),
            ("runs/**/*.dat", (A, B, C)),
            ("walks.dat", (W,)),
            ("[v-x]a?ks*", (W,)),
            ("**/4.*", (D,)),
            ("runs/?.dat", (A, B)),
            ("**", FILES),
            ("nothing*", ()),
        ],
    )
    def test_files_are_found_by_pattern(self, shelf: Shelf, glob: str, found: tuple[InputFile, ...]) -> None:
        assert [one.file for one in shelf.port.matching(SCOPE, glob)] == sorted(
            found, key=lambda one: one.name
        )

    def test_another_scope_has_other_files(self, shelf: Shelf) -> None:
        assert [*shelf.port.matching("empty", "**")] == []

    def test_a_dataset_is_its_files_with_sizes_checksums_and_storages(self, shelf: Shelf, runs: str) -> None:
        shelf.define(runs, (B, A))
        found = shelf.port.dataset(SCOPE, runs)
        assert [one.file for one in found.files] == [A, B]
        assert shelf.port.dataset(SCOPE, runs, found.version) == found

    def test_a_dataset_that_is_not_there_is_refused(self, shelf: Shelf) -> None:
        with pytest.raises(LookupError, match=f"no dataset {SCOPE}:walks"):
            shelf.port.dataset(SCOPE, "walks")

    def test_a_version_that_is_not_there_is_refused(self, shelf: Shelf, runs: str) -> None:
        shelf.define(runs, (A,))
        with pytest.raises(LookupError, match="version"):
            shelf.port.dataset(SCOPE, runs, 7)
