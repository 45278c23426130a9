"""Waiting for what becomes true later: until it holds, however slow or busy the machine is."""

import time
from collections.abc import Callable
from typing import TypeVar

import psutil

T = TypeVar("T")

PATIENCE = 300.0
"""Seconds after which a test takes what has not happened for what never will: a machine may be very busy."""


def wait_for(condition: Callable[[], T | None], what: str, seconds: float = PATIENCE) -> T:
    """Wait until the condition holds; returns its value. Fails naming what did not happen."""
    end, pause = time.monotonic() + seconds, 0.005
    while not (found := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"did not happen within {seconds:g} s: {what}")
        # What takes long is often a server's to do, which the asking must not keep busy.
        time.sleep(pause)
        pause = min(0.2, pause * 1.2)
    return found


def has_ended(process: psutil.Process) -> bool:
    """Tell whether a process has ended, also where nobody has asked for its exit code yet."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
