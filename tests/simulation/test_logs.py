"""Logs in the Standard Workload Format as archives have them."""

import gzip
from pathlib import Path

import pytest

from pilotage.federation.faults import BadFile
from pilotage.simulation.reading import _log_file
from pilotage.simulation.swf import jobs, text_of

JOB = b"1 0 -1 100 1 -1 -1 -1 -1 -1 1 1 -1 -1 0 -1 -1 -1\n2 10 -1 100 1 -1 -1 -1 -1 -1 1 1 -1 -1 0 -1 -1 -1\n"


@pytest.mark.parametrize(
    "comment",
    [
        "; Grenoble, Universit\xe9".encode("latin-1"),
        "; Universit\xe9 \u2028 of \x85 lines".encode(),
        b"; next line \x85 and \x0b \x0c \x1c end",
        b"\xef\xbb\xbf; with a mark",
        b"\xef\xbb\xbf; with a mark and \xe9",
        b";\r",
        b"; \x00\xff",
    ],
)
@pytest.mark.parametrize("compressed", [False, True])
def test_the_bytes_of_comments_do_not_matter(tmp_path: Path, comment: bytes, compressed: bool) -> None:
    data = comment + b"\n" + JOB
    file = tmp_path / "log.swf"
    file.write_bytes(gzip.compress(data) if compressed else data)
    assert [job.number for job in jobs(_log_file(file).content)] == [1, 2]


def test_a_broken_or_endless_log_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "log.swf.gz"
    file.write_bytes(gzip.compress(JOB * 100)[:-20])
    with pytest.raises(BadFile, match="is no whole gzip file"):
        _log_file(file)
    with pytest.raises(ValueError, match="is larger than 1000 bytes"):
        text_of(gzip.compress(b";" * 2000), 1000)
