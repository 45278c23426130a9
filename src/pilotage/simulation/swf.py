"""Logs in the Standard Workload Format: one job per line, 18 numbers, -1 for unknown."""

import gzip
import io
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from pilotage.federation.faults import show
from pilotage.simulation.scenario import SwfWork

FIELDS = 18

NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)")
"""A number in the format. Python's own parser would also accept ``1_000`` and digits of other scripts."""

LARGEST = 1e10
"""The largest number in a log: as s, some three hundred years."""


@dataclass(frozen=True, slots=True)
class LoggedJob:
    """A job of a log. Times are in s; ``submitted`` counts from the start of the log."""

    number: int
    submitted: float
    run_time: float
    cores: int
    user: int


class BadLog(ValueError):
    """A line of a log, counted from 1, does not follow the format."""

    def __init__(self, line: int, message: str) -> None:
        self.line, self.message = line, message
        super().__init__(f"line {line}: {message}")


def jobs(text: str) -> list[LoggedJob]:
    """Return the jobs of a log that ran, in order. Raises ``BadLog`` for the first bad line."""
    jobs = []
    # Split only at these. Comments may contain other characters that Python takes for a line end.
    lines = text.split("\n" if "\n" in text else "\r")
    # Some programs begin a file with a UTF-8 mark.
    for number, line in enumerate((line.removeprefix("\ufeff") for line in lines), 1):
        if not line.strip() or line.lstrip().startswith(";"):
            continue
        job = _job(number, line.split())
        if job.run_time > 0 and job.cores > 0:
            if job.submitted < 0:
                raise BadLog(
                    number, f"the job ran, and was submitted at {job.submitted:g}, before the log began"
                )
            jobs.append(job)
    return jobs


def text_of(data: bytes, limit: int) -> str:
    """Return the text of a log, compressed with gzip or not. Comments may use any character set.

    Raises ValueError for invalid gzip, or for more than ``limit`` bytes.
    """
    if data.startswith(b"\x1f\x8b"):
        try:
            with gzip.open(io.BytesIO(data)) as file:
                data = file.read(limit + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"is no whole gzip file: {error}") from error
    if len(data) > limit:
        raise ValueError(f"is larger than {limit} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        # In Latin-1 every byte is a character, and jobs consist of digits only.
        return data.removeprefix(b"\xef\xbb\xbf").decode("latin-1")


def used_jobs(log: Sequence[LoggedJob], work: SwfWork) -> Sequence[LoggedJob]:
    """Return the jobs of a log that the scenario uses, in order."""
    return [job for job in log if job.cores <= work.most_cores][work.first : work.first + work.jobs]


def too_wide(log: Sequence[LoggedJob], work: SwfWork) -> int:
    """Return how many jobs of a log have too many cores."""
    return sum(job.cores > work.most_cores for job in log)


def arrivals(log: Sequence[LoggedJob], work: SwfWork) -> Sequence[float]:
    """Return the arrivals of the used jobs in s. The simulation begins with the first."""
    submitted = [job.submitted for job in used_jobs(log, work)]
    begin = min(submitted, default=0.0)
    return [(time - begin) / work.faster for time in submitted]


def _job(line: int, words: list[str]) -> LoggedJob:
    if len(words) != FIELDS:
        raise BadLog(line, f"has {len(words)} fields, a job has {FIELDS}")
    for at, word in enumerate(words, 1):
        if not NUMBER.fullmatch(word):
            raise BadLog(
                line, f"field {at} is {show(word)}, which is no number of digits, a sign and a point"
            )
    numbers = [float(word) for word in words]
    if not all(-LARGEST <= number <= LARGEST for number in numbers):
        raise BadLog(line, f"holds a number beyond {LARGEST:g}")
    job, submitted, _, run_time, allocated, _, _, requested, _, _, _, user, *_ = numbers
    cores = int(allocated if allocated > 0 else requested)
    return LoggedJob(int(job), submitted, run_time, cores, int(user))
