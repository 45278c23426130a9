"""Streams are read by large chunks where they are fast, and by small ones where they are slow."""

from io import BytesIO
from pathlib import Path

import pytest

from pilotage.adapters.movers.copies import checksums
from pilotage.adapters.movers.copies.checksums import (
    CHUNK,
    DIGESTS,
    SMALLEST_CHUNK,
    checksum_of,
    digest,
    in_time,
)
from pilotage.cli.data.manifests import entries
from pilotage.model.documents.serialization import from_document
from pilotage.model.records.inputs import InputFile


class Stream(BytesIO):
    """So many bytes of a stream that gives ``rate`` bytes in a second of the clock."""

    def __init__(self, size: int, rate: float, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(bytes(size))
        self.now, self.rate = 0.0, rate
        monkeypatch.setattr(checksums, "monotonic", lambda: self.now)

    def read(self, size: int | None = -1) -> bytes:
        """Read, and let the time pass that it takes."""
        found = super().read(size)
        self.now += len(found) / self.rate
        return found


def test_a_fast_stream_is_read_by_large_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [len(chunk) for chunk in in_time(Stream(3 * CHUNK + 5, 1e9, monkeypatch))]
    assert sizes == [CHUNK] * 3 + [5]


def test_a_slow_stream_is_heard_of_about_once_in_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream(3 * CHUNK, 100_000, monkeypatch)
    sizes = [len(chunk) for chunk in in_time(stream)]
    assert sum(sizes) == 3 * CHUNK
    assert sizes[:3] == [CHUNK, CHUNK // 4, CHUNK // 16]
    assert all(size <= 100_000 for size in sizes[2:])


def test_one_that_gets_fast_again_is_read_by_large_chunks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream(40 * CHUNK, 1000, monkeypatch)
    chunks = in_time(stream)
    assert min(len(next(chunks)) for _ in range(6)) == SMALLEST_CHUNK
    stream.rate = 1e9
    assert max(len(chunk) for chunk in chunks) == CHUNK


@pytest.mark.parametrize(
    ("kind", "digits", "checksum"),
    [
        ("adler32", "9600001", "adler32:09600001"),
        ("adler32", "0960ABCD", "adler32:0960abcd"),
        ("adler32", "1", "adler32:00000001"),
        ("adler32", "00000000", ""),
        ("adler32", "0", ""),
        ("adler32", "", ""),
        ("adler32", "123456789", ""),
        ("adler32", "xyz", ""),
        ("md5", "A" * 32, "md5:" + "a" * 32),
        ("md5", "a" * 31, ""),
        ("md5", "0" * 32, ""),
    ],
)
def test_what_storages_tell_as_a_checksum_is_read_in_one_way(kind: str, digits: str, checksum: str) -> None:
    assert checksum_of(kind, digits) == checksum
    if len(digits) == len(checksum.partition(":")[2]) or kind == "adler32":
        assert digest(f"{DIGESTS[kind]}={digits}", kind) == checksum


@pytest.mark.parametrize("given", ["adler32:9600001", "ADLER32:09600001", " adler32:09600001"])
def test_checksums_that_people_give_are_kept_in_one_form(given: str) -> None:
    made = from_document(InputFile, {"name": "a", "size": 1, "checksum": given})
    assert made.checksum == "adler32:09600001"


@pytest.mark.parametrize("given", ["adler32:00000000", "ADLER32:0", "md5:" + "0" * 32])
def test_zeros_that_people_copied_from_a_catalogue_are_no_checksum(given: str) -> None:
    """Else the sound file would never be taken for the one that is described."""
    assert from_document(InputFile, {"name": "a", "size": 1, "checksum": given}).checksum == ""


@pytest.mark.parametrize(
    ("replica", "checksum"),
    [
        ({"adler32": "9600001", "md5": "a" * 32}, "adler32:09600001"),
        ({"adler32": "00000000", "md5": "A" * 32}, f"md5:{'a' * 32}"),
        ({"adler32": "00000000", "md5": None}, ""),
        ({}, ""),
    ],
)
def test_zeros_of_a_catalogue_are_no_checksum(replica: dict[str, str | None], checksum: str) -> None:
    rucio = pytest.importorskip(
        "pilotage.adapters.catalogues.rucio", reason="the client of Rucio is not installed"
    )
    assert rucio._checksum(replica) == checksum


def test_checksums_of_manifests_are_kept_in_one_form(tmp_path: Path) -> None:
    manifest = tmp_path / "files.csv"
    left_out: dict[str, str] = {}
    manifest.write_text(
        "a,1,adler32:9600001\nb,1,adler32:0960ABCD\nc,1,adler32:123456789\nd,1\ne,1,adler32:0\n"
    )
    found = [one["checksum"] for _, one in entries(manifest, "disk", left_out)]
    assert found == ["adler32:09600001", "adler32:0960abcd", "", ""]
    assert len(left_out) == 1
