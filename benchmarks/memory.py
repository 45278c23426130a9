"""Resident memory of the server process, idle and with 100,000 jobs queued, in MiB."""

import time

import psutil

from . import house, lifecycle

QUEUED = 100_000


def figures() -> dict[str, float]:
    """``idle_server_mib`` and ``server_mib_100k_queued``; the queued jobs fit nowhere, so that they stay."""
    with house.running("sqlite") as server:
        time.sleep(3)
        idle = _mib(server.pid)
        lifecycle.submit(server, QUEUED, cores=64)
        while lifecycle.counts(server)["pending"] < QUEUED:
            server.check()
            time.sleep(0.2)
        time.sleep(3)
        return {"idle_server_mib": idle, "server_mib_100k_queued": _mib(server.pid)}


def _mib(pid: int) -> float:
    return float(psutil.Process(pid).memory_info().rss) / 2**20
