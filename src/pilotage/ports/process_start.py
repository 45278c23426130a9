"""The start of a process: it distinguishes processes that had the same number."""

from contextlib import suppress
from pathlib import Path


def process_start(number: int) -> int | None:
    """Return the ticks from the system's start to the process's start; None if it does not run.

    psutil has it in s since 1970 only. These move whenever the clock is set, and a process that runs would
    be taken for another. These ticks never move. Raises OSError where the system does not tell.
    """
    with suppress(FileNotFoundError, ProcessLookupError):
        # The name of a program may hold spaces and brackets: the fields begin behind the last bracket.
        state, *fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
        return None if state in "ZX" else int(fields[18])
    return None
