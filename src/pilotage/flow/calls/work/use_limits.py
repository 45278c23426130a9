"""Quotas of core hours in a month, by the accounting's days."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from pilotage.flow.errors import NotNow
from pilotage.flow.runtime import Runtime
from pilotage.model.records.quotas import QuotaConstants
from pilotage.model.values.identity import Identity
from pilotage.model.values.phrases import moment


class UsedHours(NamedTuple):
    """Core hours of a month: their holder in words, its constant, what is used, and the limit."""

    holder: str
    constant: str
    used: float
    limit: float | None


def refuse_beyond_core_hours(runtime: Runtime, quotas: QuotaConstants, owner: Identity) -> None:
    """Raise NotNow if an owner, their group or their VO used the core hours that a month has for them."""
    for hours in used_hours(runtime, quotas, owner):
        if hours.limit is not None and hours.used >= hours.limit:
            raise NotNow(
                f"{hours.holder} used {hours.used:,.1f} core hours this month, and {hours.limit:,g} are the "
                f"most (quotas.{hours.constant}); submit again after {moment(month_of(runtime.clock())[1])}, "
                "or ask the manager of your VO or an operator for more"
            )


def used_hours(
    runtime: Runtime, quotas: QuotaConstants, owner: Identity, *, limited: bool = True
) -> Iterator[UsedHours]:
    """Yield the core hours that an owner, their group and their VO used this month.

    With ``limited`` only those with a limit, so that a submission without one costs no query.
    """
    begin, _ = month_of(runtime.clock())
    holders = (
        (f"user {owner.name}", "core_hours_by_user", owner.name, None),
        (f"group {owner.group}", "core_hours_by_group", None, owner.group),
        (f"VO {owner.vo}" if owner.vo else "those without a VO", "core_hours_by_vo", None, None),
    )
    for holder, constant, person, group in holders:
        limit = getattr(quotas, constant)
        if group == "" or (limited and limit is None):
            continue
        seconds = runtime.store.past.core_seconds(begin, owner.vo, person, group)
        yield UsedHours(holder, constant, seconds / 3600, limit)


def month_of(time: float) -> tuple[float, float]:
    """Return when the calendar month (UTC) of a time begins and ends, in s since 1970."""
    now = datetime.fromtimestamp(time, UTC)
    begin = datetime(now.year, now.month, 1, tzinfo=UTC)
    end = datetime(now.year + now.month // 12, now.month % 12 + 1, 1, tzinfo=UTC)
    return begin.timestamp(), end.timestamp()
