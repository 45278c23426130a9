"""What a deletion removes, in words."""

from collections.abc import Iterator, Mapping
from typing import Any

from pilotage.model.values.phrases import plural, size


def lines(volumes: Mapping[str, Any], outputs: bool, jobs: int) -> Iterator[str]:
    """Yield what is removed with tasks of so many jobs, and what stays."""
    yield f"{plural(jobs, 'job')} with their logs and explanations"
    if volumes["copies"]["files"]:
        yield f"{_files(volumes['copies'], 'copy', 'copies')}, that no other task has used"
    kept = volumes["kept"]
    if outputs:
        yield f"{_files(volumes['outputs'], 'output')}"
    elif volumes["outputs"]["files"]:
        yield f"(stays: {_files(volumes['outputs'], 'output')}; with --outputs they go too)"
    if kept["files"]:
        yield f"(stays: {_files(kept, 'output')}, which a dataset has or a job reads)"


def _files(volume: Mapping[str, int], noun: str, nouns: str = "") -> str:
    count = volume["files"]
    words = f"{count} {nouns}" if nouns and count != 1 else plural(count, noun)
    return f"{words}, {size(volume['bytes'])}" if count else words
