"""Quotas of what attempts use in a month: core hours, and bytes of files, by the accounting's days."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from pilotage.flow.errors import NotNow
from pilotage.flow.runtime import Runtime
from pilotage.model.records.quotas import QuotaConstants
from pilotage.model.values.identity import Identity
from pilotage.model.values.phrases import moment

_WORDS = {"core_hours": ("used", "core hours"), "transferred": ("transferred", "GB")}
"""The verb and the unit of what a month limits."""


class UsedOfMonth(NamedTuple):
    """What is used of a month: by whom in words, of which limit, how much, and the limit."""

    holder: str
    use: str
    constant: str
    used: float
    limit: float | None


def refuse_beyond_month(runtime: Runtime, quotas: QuotaConstants, owner: Identity) -> None:
    """Raise NotNow if an owner, their group or their VO used what a month has for them."""
    for month in used_of_month(runtime, quotas, owner):
        if month.limit is not None and month.used >= month.limit:
            verb, unit = _WORDS[month.use]
            raise NotNow(
                f"{month.holder} {verb} {month.used:,.1f} {unit} this month, and {month.limit:,g} are the "
                f"most (quotas.{month.constant}); submit again after {moment(month_of(runtime.clock())[1])}, "
                "or ask the manager of your VO or an operator for more"
            )


def used_of_month(
    runtime: Runtime, quotas: QuotaConstants, owner: Identity, *, limited: bool = True
) -> Iterator[UsedOfMonth]:
    """Yield what an owner, their group and their VO used this month.

    With ``limited`` only that with a limit, so that a submission without one costs no query.
    """
    begin, _ = month_of(runtime.clock())
    holders = (
        (f"user {owner.name}", "user", owner.name, None),
        (f"group {owner.group}", "group", None, owner.group),
        (f"VO {owner.vo}" if owner.vo else "those without a VO", "vo", None, None),
    )
    for holder, kind, person, group in holders:
        limits = {use: getattr(quotas, f"{use}_by_{kind}") for use in _WORDS}
        if group == "" or (limited and not any(limit is not None for limit in limits.values())):
            continue
        sums = runtime.store.past.use_since(begin, owner.vo, person, group)
        used = {"core_hours": sums.core_seconds / 3600, "transferred": sums.transferred / 1e9}
        for use, limit in limits.items():
            yield UsedOfMonth(holder, use, f"{use}_by_{kind}", used[use], limit)


def month_of(time: float) -> tuple[float, float]:
    """Return when the calendar month (UTC) of a time begins and ends, in s since 1970."""
    now = datetime.fromtimestamp(time, UTC)
    begin = datetime(now.year, now.month, 1, tzinfo=UTC)
    end = datetime(now.year + now.month // 12, now.month % 12 + 1, 1, tzinfo=UTC)
    return begin.timestamp(), end.timestamp()
