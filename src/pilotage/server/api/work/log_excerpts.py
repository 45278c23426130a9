"""Excerpts of logs: the first and last lines, or the lines with a text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from pydantic import BaseModel

from pilotage.model.records.logs import LogStream
from pilotage.store import ListedJob, StoredLog

MOST_LINES = 200
"""Most lines of an excerpt's head, and of its tail."""

LONGEST_LINE = 500
"""Most characters of a line that are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogExcerpt:
    """Lines of a stream of ``size`` bytes: its head and tail, or as ``head`` the lines with a text.

    ``left_out`` counts the lines that are not shown, or with a text, further lines with it. ``lost`` counts
    bytes between head and tail that no store kept.
    """

    stream: LogStream
    size: int
    head: Sequence[str]
    tail: Sequence[str] = ()
    left_out: int = 0
    lost: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLogs:
    """A job, and what its latest attempt with any output wrote."""

    job: ListedJob
    attempt: int
    logs: Sequence[LogExcerpt]


class JobLogsPage(BaseModel):
    """What some jobs wrote. ``next`` is the value of ``after`` for the jobs that follow; empty at the end."""

    jobs: list[JobLogs]
    next: str


def excerpt(log: StoredLog, lines: int) -> LogExcerpt:
    """Return the first and last lines of a stream."""
    lost = log.size - len(log.data)
    first, last = _lines(log.data[: log.head]), _lines(log.data[log.head :])
    if lost:
        head, tail = first[:lines], last[-lines:]
        left_out = len(first) - len(head) + len(last) - len(tail)
    else:
        whole = _lines(log.data)
        cut = len(whole) > 2 * lines
        head, tail = (whole[:lines], whole[-lines:]) if cut else (whole, [])
        left_out = len(whole) - len(head) - len(tail)
    return LogExcerpt(
        stream=cast("LogStream", log.stream),
        size=log.size,
        head=_shorten(head),
        tail=_shorten(tail),
        left_out=left_out,
        lost=lost,
    )


def matching(log: StoredLog, text: str, lines: int) -> LogExcerpt:
    """Return the first lines of a stream that contain a text."""
    parts = (log.data[: log.head], log.data[log.head :]) if log.size > len(log.data) else (log.data,)
    matching_lines = [line for part in parts for line in _lines(part) if text in line]
    return LogExcerpt(
        stream=cast("LogStream", log.stream),
        size=log.size,
        head=[_around(line, text) for line in matching_lines[:lines]],
        left_out=max(0, len(matching_lines) - lines),
        lost=log.size - len(log.data),
    )


def _lines(data: bytes) -> list[str]:
    return data.decode("utf-8", "replace").splitlines()


def _shorten(lines: Sequence[str]) -> list[str]:
    return [line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 3]}..." for line in lines]


def _around(line: str, text: str) -> str:
    """Return a line, or of a long one the part around the text."""
    if len(line) <= LONGEST_LINE:
        return line
    start = max(0, min(line.index(text) - LONGEST_LINE // 4, len(line) - LONGEST_LINE))
    return f"{'...' if start else ''}{line[start : start + LONGEST_LINE]}..."
