"""Running transfers: their speed and remaining time, computed from two requests to the server."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from pilotage.cli.terminal.layout import lay_out
from pilotage.cli.terminal.output import Column, console, echo, has_colour
from pilotage.explain.layout import folded
from pilotage.model.records.states import TRANSFERS_AHEAD, TransferState
from pilotage.model.values.phrases import duration, plural

if TYPE_CHECKING:
    from pilotage.client import Client

PERIOD = 2.0
"""Seconds between two requests to the server."""

BYTES_OVER, ENDS_OVER = 10.0, 60.0
"""Seconds that a rate of moved bytes averages, and one of ended transfers. Slow transfers end seldom."""

MOVING = (
    Column("transfer", number=True),
    Column("file"),
    Column("to", essential=False),
    Column("share", essential=False),
    Column("moved", number=True),
    Column("MB/s", number=True),
    Column("left", number=True),
)
SHARES = (
    Column("share"),
    Column("delivering", number=True),
    Column("waiting", number=True),
    Column("MB/s", number=True),
    Column("done a second", number=True),
    Column("left", number=True),
)
WAITING = (TransferState.QUEUED, *TRANSFERS_AHEAD)
SHARE = 3
"""The index of the share in a row of ``MOVING``."""

ROOM = 3
"""Screen lines for the table's titles, a note about omitted rows, and the cursor."""


class Rate:
    """A rate between requests, averaged over the last seconds so that the display does not jump."""

    def __init__(self, over: float) -> None:
        self._over, self._seen = over, 0.0
        self.mean = 0.0

    def add(self, amount: float, seconds: float) -> None:
        """Add what happened in the ``seconds`` since the last request."""
        self._seen = min(self._over, self._seen + seconds)
        self.mean += (amount / seconds - self.mean) * min(1.0, seconds / self._seen)


class TransferRates:
    """Rates of transfers in bytes per second, and of finished transfers, between requests."""

    def __init__(self) -> None:
        self._last: Mapping[str, Any] = {}
        self._rates: dict[tuple[int, int], Rate] = {}
        self._done: dict[str, Rate] = {}

    def update(self, progress: Mapping[str, Any]) -> None:
        """Add another document of ``/transfers/progress``."""
        seconds = progress["time"] - self._last.get("time", progress["time"])
        if seconds > 0:
            self._update_bytes(progress, seconds)
            for share, counts in progress["shares"].items():
                before = self._last["shares"].get(share, {}).get("done", 0)
                # The server does not count archived transfers, so the number may fall.
                ended = max(0, counts.get("done", 0) - before)
                self._done.setdefault(share, Rate(ENDS_OVER)).add(ended, seconds)
        self._last = progress

    def _update_bytes(self, progress: Mapping[str, Any], seconds: float) -> None:
        before = {_key(transfer): transfer["moved"] for transfer in self._last["delivering"]}
        rates, self._rates = self._rates, {}
        for transfer in progress["delivering"]:
            key = _key(transfer)
            if transfer["moved"] is not None and key in before:
                self._rates[key] = rates.get(key) or Rate(BYTES_OVER)
                self._rates[key].add(transfer["moved"] - (before[key] or 0), seconds)

    def rows(self) -> list[tuple[object, ...]]:
        """Return the running transfers, one row each."""
        return [self._row(transfer) for transfer in self._last["delivering"]]

    def _row(self, transfer: Mapping[str, Any]) -> tuple[object, ...]:
        rate = self._rates.get(_key(transfer))
        moved, time_left = "at another server", ""
        if transfer["moved"] is not None:
            moved = f"{transfer['moved'] / max(1, transfer['size']):.0%} of {transfer['size'] / 1e6:,.1f} MB"
            time_left = (
                duration((transfer["size"] - transfer["moved"]) / rate.mean) if rate and rate.mean else ""
            )
        speed = "" if rate is None else f"{rate.mean / 1e6:,.1f}"
        return (
            transfer["id"],
            transfer["file"],
            transfer["destination"],
            transfer["share"],
            moved,
            speed,
            time_left,
        )

    def shares(self) -> list[tuple[object, ...]]:
        """Return the shares with active transfers: rates of moving ones, times of waiting ones."""
        rows: list[tuple[object, ...]] = []
        for share, counts in sorted(self._last["shares"].items()):
            waiting, done = _waiting(counts), self._done.get(share)
            mine = [transfer for transfer in self._last["delivering"] if transfer["share"] == share]
            if mine or waiting:
                moved = sum(
                    self._rates[key].mean for transfer in mine if (key := _key(transfer)) in self._rates
                )
                ends = "" if done is None else f"{done.mean:,.1f}"
                time_left = duration((waiting + len(mine)) / done.mean) if done and done.mean else ""
                rows.append((share, len(mine), waiting, f"{moved / 1e6:,.1f}", ends, time_left))
        return rows

    def summary(self) -> str:
        """Return one line: the number of moving transfers, their rate, and the time for the waiting ones."""
        moving = len(self._last["delivering"])
        waiting = _waiting(self._last["counts"])
        rate = sum(average.mean for average in self._rates.values())
        line = f"{plural(moving, 'transfer')} delivered at {rate / 1e6:,.1f} MB/s, {waiting} waiting"
        if self._done:
            ends = sum(average.mean for average in self._done.values())
            line += f"; {ends:,.1f} done a second"
            if ends and (remaining := waiting + moving):
                line += f", about {duration(remaining / ends)} left"
        return line

    def screen(self, width: int, height: int) -> list[str]:
        """Return everything as lines, with as many transfers as fit the screen."""
        lines = folded([self.summary()], width)
        if shares := self.shares():
            lines += ["", *lay_out(SHARES, shares, width, has_colour()), ""]
        rows = sorted(self.rows(), key=lambda row: (str(row[SHARE]), row[0]))
        visible_rows = rows[: max(1, height - len(lines) - ROOM)]
        at = list(range(len(MOVING)))
        if len(lay_out(MOVING, visible_rows, width)) > len(visible_rows) + 1:
            # One line each: leave out columns that the reader can do without.
            at = [place for place in at if MOVING[place].essential]
        if rows:
            lines += lay_out(
                [MOVING[place] for place in at],
                [[row[place] for place in at] for row in visible_rows],
                width,
                has_colour(),
            )
        if more := len(rows) - len(visible_rows):
            lines.append(f"and {more} more")
        return lines


def keep_showing(client: "Client") -> NoReturn:
    """Show running transfers until the user interrupts. Without a terminal, print a line for each change."""
    from rich.live import Live
    from rich.text import Text

    out, rates, before = console(), TransferRates(), ""
    with Live(console=out, auto_refresh=False) as live:
        while True:
            rates.update(client.transfer_progress())
            if out.is_terminal:
                live.update(Text.from_ansi("\n".join(rates.screen(out.width, out.height))), refresh=True)
            elif (line := rates.summary()) != before:
                echo(line)
                before = line
            time.sleep(PERIOD)


def _key(transfer: Mapping[str, Any]) -> tuple[int, int]:
    return transfer["id"], transfer["attempt"]


def _waiting(counts: Mapping[str, int]) -> int:
    return sum(counts.get(state, 0) for state in WAITING)
