"""How fast a storm's victims recover: from the ledger of payloads, the events, and the strikes themselves.

A measure counts only while work could go on at all: it is the longest time without an outage of the whole.
"""

import re
import statistics
import subprocess
import sys
import threading
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from sqlalchemy import Connection, text

from pilotage.store.history.events import unpacked

NEXT_START, GOING_ON = 15.0, 180.0
"""Most seconds from a fault's end until any job starts, and until each job that it affected goes on."""

USUAL_START = 0.1
"""Seconds in which Python starts on the machine by which these limits are meant."""

_GOES_ON = {"running", "holding", "transferring", "merging", "finished", "failed", "cancelled", "closed"}

Interval = tuple[float, float]


@dataclass
class Struck:
    """A strike that took place, in s since 1970: what it was, and whom it affected.

    ``away`` are servers by number to which no pilot or no database gets while it lasts. ``probe`` is a task
    that was submitted at its end.
    """

    kind: str
    begun: float
    end: float
    away: Collection[int]
    jobs: Collection[int] = ()
    probe: int = 0


@dataclass
class Recovery:
    """Times in s of all faults of one kind: until the next start, and until all affected jobs went on."""

    starts: list[float] = field(default_factory=list)
    going_on: list[float] = field(default_factory=list)


class Pace:
    """Measures how much slower the machine is than usual, all the time: how long Python takes to start."""

    def __init__(self) -> None:
        self._measured: list[float] = []
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pace", daemon=True)
        self._thread.start()

    def close(self) -> float:
        """End, and return by how many times the machine was slower; at least 1."""
        self._done.set()
        self._thread.join()
        return max(1.0, statistics.median(self._measured) / USUAL_START)

    def _run(self) -> None:
        while True:
            begun = time.monotonic()
            subprocess.run([sys.executable, "-I", "-c", "import asyncio, json, ssl"], check=True)
            self._measured.append(time.monotonic() - begun)
            if self._done.wait(5):
                return


def measured(
    connection: Connection, ledger: Path, strikes: Sequence[Struck], servers: int
) -> dict[str, Recovery]:
    """Return the recoveries by kind of fault."""
    starts, moves = _starts(ledger), _moves(connection)
    outages = outages_of(strikes, servers)
    probes: defaultdict[int, list[int]] = defaultdict(list)
    for job, task in connection.execute(text("SELECT id, task FROM jobs")):
        probes[task].append(job)
    recoveries: defaultdict[str, Recovery] = defaultdict(Recovery)
    for strike in strikes:
        recovery = recoveries[strike.kind]
        if (at := bisect_left(starts, strike.end)) < len(starts):
            recovery.starts.append(longest_calm(strike.end, starts[at], outages))
        affected = [*strike.jobs, *probes[strike.probe]]
        if times := list(_times(affected, strike, moves, outages)):
            recovery.going_on.append(max(times))
    return recoveries


def _times(
    jobs: Iterable[int], strike: Struck, moves: Mapping[int, list[float]], outages: Sequence[Interval]
) -> Iterator[float]:
    for job in jobs:
        later = moves[job][bisect_left(moves[job], strike.end) :] if job in moves else []
        if later:
            yield longest_calm(strike.end, later[0], outages)


def too_slow(recoveries: Mapping[str, Recovery], slower: float) -> Iterator[str]:
    """Yield what took longer than it may on a machine that is so many times slower."""
    for kind, recovery in sorted(recoveries.items()):
        for times, limit, what in (
            (recovery.starts, NEXT_START, "no job started"),
            (recovery.going_on, GOING_ON, "an affected job did not go on"),
        ):
            yield from (
                f"{what} for {seconds:.0f} s after {kind!r} was over; {limit * slower:.0f} s are the limit"
                for seconds in times
                if seconds > limit * slower
            )


def table(recoveries: Mapping[str, Recovery], struck: Mapping[str, int], slower: float) -> Iterator[str]:
    """Yield the lines of a table: how often each kind of fault struck, and both times."""
    yield f"{'':<24}{'':>6}{'next start, s':>18}{'jobs go on, s':>18}"
    yield f"{'fault':<24}{'times':>6}" + f"{'median':>10}{'worst':>8}" * 2
    for kind, times in sorted(struck.items()):
        recovery = recoveries.get(kind, Recovery())
        shown = (f"{_median(of)}{_worst(of)}" for of in (recovery.starts, recovery.going_on))
        yield f"{kind:<24}{times:>6}{''.join(shown)}"
    yield f"the machine was {slower:.1f} times slower than usual"


def _median(times: Sequence[float]) -> str:
    return f"{statistics.median(times):10.1f}" if times else " " * 10


def _worst(times: Sequence[float]) -> str:
    return f"{max(times):8.1f}" if times else " " * 8


def outages_of(strikes: Sequence[Struck], servers: int) -> list[Interval]:
    """Return when all servers were away, by one strike or by several at once."""
    moments = sorted({moment for strike in strikes if strike.away for moment in (strike.begun, strike.end)})
    found: list[Interval] = []
    for begun, end in pairwise(moments):
        away = {at for one in strikes if one.begun <= begun and end <= one.end for at in one.away}
        if len(away) == servers:
            follows = found and found[-1][1] == begun
            found.append((found.pop()[0] if follows else begun, end))
    return found


def longest_calm(begun: float, end: float, outages: Sequence[Interval]) -> float:
    """Return the longest time in s within an interval in which no outage was."""
    longest, at = 0.0, begun
    for first, last in outages:
        if last > begun and first < end:
            longest = max(longest, first - at)
            at = max(at, last)
    return max(longest, end - at)


def _starts(ledger: Path) -> list[float]:
    books = (book.read_text() for book in ledger.iterdir())
    return sorted(float(at) for book in books for at in re.findall(r" begins (\S+)$", book, re.MULTILINE))


def payloads(ledger: Path) -> tuple[int, int]:
    """Return how many payloads began, and of how many jobs one began after another had ended well."""
    books = [book.read_text() for book in ledger.iterdir()]
    return sum(book.count(" begins ") for book in books), sum(map(is_again, books))


def is_again(book: str) -> bool:
    """Return whether a payload of a job began after another had ended well."""
    return bool(re.search(r" ends .* begins ", book, re.DOTALL))


def _moves(connection: Connection) -> dict[int, list[float]]:
    moves: defaultdict[int, list[float]] = defaultdict(list)
    statement = (
        "SELECT time, target, records FROM events JOIN meanings ON meanings.id = events.meaning"
        " WHERE kind = 'job' ORDER BY time"
    )
    for at, target, records in connection.execute(text(statement)):
        if target in _GOES_ON:
            for job in unpacked(records):
                moves[job].append(at)
    return dict(moves)
