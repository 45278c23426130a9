"""Logs in the Standard Workload Format: one job a line, 18 numbers, -1 for what is not known."""

from dataclasses import dataclass

FIELDS = 18


@dataclass(frozen=True, slots=True)
class LoggedJob:
    """A job of a log; times in s, ``submitted`` since the log began."""

    number: int
    submitted: float
    run_time: float
    cores: int
    user: int


class BadLog(ValueError):
    """A line of a log, counted from 1, is none of the format."""

    def __init__(self, line: int, message: str) -> None:
        self.line, self.message = line, message
        super().__init__(f"line {line}: {message}")


def jobs(text: str) -> list[LoggedJob]:
    """The jobs of a log that ran, in its order. Raises :class:`BadLog` for the first bad line."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith(";"):
            continue
        job = _job(number, line.split())
        if job.run_time > 0 and job.cores > 0:
            found.append(job)
    return found


def _job(line: int, words: list[str]) -> LoggedJob:
    if len(words) != FIELDS:
        raise BadLog(line, f"has {len(words)} fields, a job has {FIELDS}")
    try:
        job, submitted, _, run_time, allocated, _, _, requested, *_ = (float(word) for word in words)
        user = float(words[11])
    except ValueError:
        raise BadLog(line, "holds a field that is no number") from None
    cores = int(allocated if allocated > 0 else requested)
    return LoggedJob(int(job), submitted, run_time, cores, int(user))
