"""Signals to processes that may be gone."""

import contextlib
from collections.abc import Iterable

import psutil


def send(processes: Iterable[psutil.Process], number: int) -> list[psutil.Process]:
    """Send a signal to all of these that are there, and return them."""
    sent = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)
            sent.append(process)
    return sent
