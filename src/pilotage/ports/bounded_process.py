"""Processes: calls of programs with bounds of time and output, and the start of a process."""

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

MOST_OUTPUT = 64 << 20
"""Bytes of a process's output that are read, and one more if there are more."""


class ProcessEnd(NamedTuple):
    """The exit status of a process, None if its time was over, its output and its error messages."""

    code: int | None
    out: bytes
    complaints: bytes


def inherited(names: Sequence[str]) -> dict[str, str]:
    """Return the variables of this process's environment that have these names, which may end with ``*``."""
    return {
        name: value
        for name, value in os.environ.items()
        if any(fnmatchcase(name, pattern) for pattern in names)
    }


def run_process(
    argv: Sequence[str],
    stdin: bytes,
    environment: Mapping[str, str],
    seconds: float,
    folder: Path | None = None,
) -> ProcessEnd:
    """Run a program in its own session; after its time, kill it with everything that it started.

    Raises OSError if it cannot be started.
    """
    # Use files instead of pipes: a child that holds a pipe open would block us after the program's end.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=complaints,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
        code: int | None = None
        with suppress(subprocess.TimeoutExpired):
            process.communicate(stdin, timeout=seconds)
            code = process.returncode
        if code is None:
            # Kill the whole session that start_new_session made.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        for file in (out, complaints):
            file.seek(0)
        return ProcessEnd(code, out.read(MOST_OUTPUT + 1), complaints.read(MOST_OUTPUT + 1))


def process_start(number: int) -> int | None:
    """Return the ticks from the system's start to the process's start; None if it does not run.

    psutil has it in s since 1970 only. These seconds move when a person sets the clock: a running process
    then looks like another one. The ticks never move. Raises OSError if the system does not report them.
    """
    with suppress(FileNotFoundError, ProcessLookupError):
        # The name of a program may have spaces and brackets: the fields begin after the last bracket.
        state, *fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
        return None if state in "ZX" else int(fields[18])
    return None


def is_hidden(number: int) -> bool:
    """Return whether a process runs that this one may not see: of another user, or one that no tracer may
    see, where the system shows a program its own processes only."""
    if Path(f"/proc/{number}").exists():
        return False
    with suppress(ProcessLookupError):
        with suppress(PermissionError):
            os.kill(number, 0)
        return True
    return False
