"""Transfers as they are delivered: how fast, and how long they still take, from two looks at the server."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from .output import Column, console, echo, plural, table

if TYPE_CHECKING:
    from .client import Client

PERIOD = 2.0
"""Between two looks at the server, in s."""

KEPT = 0.7
"""Weight of the rates before in a new one: what is shown does not jump."""

MOVING = (
    Column("transfer", number=True),
    Column("file"),
    Column("to", essential=False),
    Column("share", essential=False),
    Column("moved", number=True),
    Column("MB/s", number=True),
    Column("left", number=True),
)
WAITING = ("queued", "preparing", "prepared")


class TransferRates:
    """Rates of transfers, in bytes a second, and of those that are done, from one look to the next."""

    def __init__(self) -> None:
        self._last: Mapping[str, Any] = {}
        self._rates: dict[tuple[int, int], float] = {}
        self._done_rate: float | None = None

    def update(self, seen: Mapping[str, Any]) -> None:
        """Take account of another look, a document of ``/transfers/progress``."""
        passed = seen["time"] - self._last.get("time", seen["time"])
        if passed > 0:
            before = {_key(one): one["moved"] for one in self._last["delivering"]}
            self._rates = {
                key: _smoothed(self._rates.get(key), (one["moved"] - (before[key] or 0)) / passed)
                for one in seen["delivering"]
                if one["moved"] is not None and (key := _key(one)) in before
            }
            done = seen["counts"].get("done", 0) - self._last["counts"].get("done", 0)
            self._done_rate = _smoothed(self._done_rate, done / passed)
        self._last = seen

    def rows(self) -> list[tuple[object, ...]]:
        """Return what is delivered now, one row each."""
        return [self._row(one) for one in self._last["delivering"]]

    def _row(self, one: Mapping[str, Any]) -> tuple[object, ...]:
        rate = self._rates.get(_key(one))
        moved, left = "at another server", ""
        if one["moved"] is not None:
            moved = f"{one['moved'] / max(1, one['size']):.0%} of {one['size'] / 1e6:,.1f} MB"
            left = _duration((one["size"] - one["moved"]) / rate) if rate else ""
        shown = "" if rate is None else f"{rate / 1e6:,.1f}"
        return one["id"], one["file"], one["destination"], one["share"], moved, shown, left

    def summary(self) -> str:
        """Say in one line what is under way, how fast, and how long what waits is likely to take."""
        counts = self._last["counts"]
        waiting = sum(counts.get(state, 0) for state in WAITING)
        told = f"{plural(len(self._last['delivering']), 'transfer')} delivered at"
        told += f" {sum(self._rates.values()) / 1e6:,.1f} MB/s, {waiting} waiting"
        if self._done_rate is not None:
            told += f"; {self._done_rate:,.1f} done a second"
        left = waiting + len(self._last["delivering"])
        if self._done_rate and left:
            told += f", about {_duration(left / self._done_rate)} left"
        return told


def keep_showing(client: "Client") -> NoReturn:
    """Show what is delivered until the user interrupts; without a terminal a line for each change."""
    from rich.live import Live
    from rich.text import Text

    out, rates, before = console(), TransferRates(), ""
    with Live(console=out, auto_refresh=False) as live:
        while True:
            rates.update(client.get("/transfers/progress"))
            if out.is_terminal:
                view = table(MOVING, rates.rows())
                live.update(Text("\n").join([view, Text(rates.summary())]), refresh=True)
            elif (line := rates.summary()) != before:
                echo(line)
                before = line
            time.sleep(PERIOD)


def _key(one: Mapping[str, Any]) -> tuple[int, int]:
    return one["id"], one["attempt"]


def _smoothed(before: float | None, now: float) -> float:
    return now if before is None else KEPT * before + (1 - KEPT) * now


def _duration(seconds: float) -> str:
    for length, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
