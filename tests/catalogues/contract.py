"""The promises of a catalogue, which every implementation of the port keeps."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Protocol

import pytest

from pilotage.model.records.work import InputFile
from pilotage.ports.catalogue import CataloguePort, OutputFile, PublishingPort

SCOPE = "data18"
FILES = tuple(
    InputFile(name=name, size=size, checksum=f"adler32:{size:08x}", replicas=("south-disk",), scope=SCOPE)
    for size, name in enumerate(
        ("runs/1.dat", "runs/2.dat", "runs/2/3.dat", "runs/2/4.txt", "walks.dat"), 100
    )
)
A, B, C, D, W = FILES


class Shelf(Protocol):
    """A catalogue that holds ``FILES``, and what else a test puts into it."""

    port: CataloguePort

    def define(self, dataset: str, files: Sequence[InputFile]) -> None:
        """Make a dataset that may be read."""


_numbers = count(1)


class _Named:
    @pytest.fixture
    def runs(self) -> str:
        """The name of a dataset that no other test has made."""
        return f"runs-{next(_numbers)}"


class CatalogueContract(_Named):
    """Tests of any catalogue; a class derived from it has a fixture ``shelf``."""

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


def output(dataset: str, number: int) -> OutputFile:
    """An output of a task that gathers its outputs in a dataset."""
    name = f"{dataset}.flow.{number}.out"
    return OutputFile(
        name=name,
        size=1000 + number,
        checksum=f"adler32:{number:08x}",
        paths={"north-disk": f"tasks/flow/1/{number}/{name}"},
    )


class PublishingContract(_Named):
    """Tests of any catalogue that takes outputs; ``publisher`` has the scope ``SCOPE``.

    It knows ``north-disk``, and no ``west-disk``.
    """

    def found(self, publisher: PublishingPort, runs: str) -> list[OutputFile]:
        """The files of a closed dataset, as they were published."""
        return [
            OutputFile(
                name=one.file.name, size=one.file.size, checksum=one.file.checksum, paths=dict(one.paths)
            )
            for one in publisher.dataset(SCOPE, runs).files
        ]

    def test_outputs_are_the_files_of_their_dataset_once_it_is_closed(
        self, publisher: PublishingPort, runs: str
    ) -> None:
        files = [output(runs, number) for number in (1, 2, 3)]
        assert publisher.publish(SCOPE, runs, files[:2], None) == {}
        with pytest.raises(LookupError):
            publisher.dataset(SCOPE, runs)
        assert publisher.publish(SCOPE, runs, files[2:], None) == {}
        assert publisher.publish(SCOPE, runs, (), None, closed=True) == {}
        assert self.found(publisher, runs) == files

    def test_what_was_published_may_be_published_again(self, publisher: PublishingPort, runs: str) -> None:
        files = [output(runs, number) for number in (1, 2, 3)]
        publisher.publish(SCOPE, runs, files[:2], None)
        for _ in range(2):
            # Some of them are there already, as after a call that was cut off.
            assert publisher.publish(SCOPE, runs, files, None, closed=True) == {}
        assert self.found(publisher, runs) == files

    @pytest.mark.parametrize("change", [{"size": 7}, {"checksum": "adler32:0badcafe"}])
    def test_a_name_with_other_bytes_is_refused_by_name_and_left_as_it_is(
        self, publisher: PublishingPort, runs: str, change: dict[str, Any]
    ) -> None:
        files = [output(runs, number) for number in (1, 2, 3)]
        publisher.publish(SCOPE, f"{runs}-theirs", files[1:2], None, closed=True)
        refused = publisher.publish(SCOPE, runs, [files[0], replace(files[1], **change), files[2]], None)
        assert refused.keys() == {files[1].name}
        assert f"{SCOPE}:{files[1].name}" in refused[files[1].name]
        publisher.publish(SCOPE, runs, (), None, closed=True)
        assert self.found(publisher, runs) == [files[0], files[2]]
        assert self.found(publisher, f"{runs}-theirs") == files[1:2]

    def test_a_closed_dataset_takes_nothing_more(self, publisher: PublishingPort, runs: str) -> None:
        publisher.publish(SCOPE, runs, [output(runs, 1)], None, closed=True)
        with pytest.raises(LookupError, match=f"{SCOPE}:{runs} is closed"):
            publisher.publish(SCOPE, runs, [output(runs, 2)], None)

    def test_a_dataset_without_files_can_be_closed(self, publisher: PublishingPort, runs: str) -> None:
        publisher.publish(SCOPE, runs, (), None, closed=True)
        assert self.found(publisher, runs) == []

    def test_what_would_be_in_the_way_is_told_before(self, publisher: PublishingPort, runs: str) -> None:
        publisher.check_output(SCOPE, runs, ["north-disk"])
        with pytest.raises(LookupError, match="west-disk"):
            publisher.check_output(SCOPE, runs, ["north-disk", "west-disk"])
        with pytest.raises(LookupError, match="no scope nowhere"):
            publisher.check_output("nowhere", runs, ["north-disk"])
        publisher.publish(SCOPE, runs, [output(runs, 1)], None)
        publisher.check_output(SCOPE, runs, ["north-disk"])
        publisher.publish(SCOPE, runs, (), None, closed=True)
        with pytest.raises(LookupError, match=f"{SCOPE}:{runs} is closed"):
            publisher.check_output(SCOPE, runs, ["north-disk"])
