"""Processes of payloads, as the machine sees them: inside of their namespace they have other ids."""

from contextlib import suppress
from pathlib import Path

import psutil


def of_environment(**variables: str) -> list[psutil.Process]:
    """The processes that have these variables, but not what waits to be buried."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            if variables.items() <= process.environ().items():
                found.append(process)
    return found


def outside(pid: int, **variables: str) -> psutil.Process:
    """The process of a payload that calls itself ``pid``."""
    for process in of_environment(**variables):
        with suppress(FileNotFoundError, ProcessLookupError):  # others of them come and go
            status = Path(f"/proc/{process.pid}/status").read_text()
            names = next(line for line in status.splitlines() if line.startswith("NSpid:"))
            if int(names.split()[-1]) == pid:
                return process
    raise psutil.NoSuchProcess(pid)
