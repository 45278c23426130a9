"""Change the restrictions of sites, queues and storages, and end expired ones."""

import logging
from collections.abc import Callable

from pilotage.flow.runtime import Runtime
from pilotage.model.records.quotas import QuotaException
from pilotage.model.records.restrictions import Restriction
from pilotage.store import NoFederation

log = logging.getLogger(__name__)

Change = Callable[[tuple[Restriction, ...]], tuple[Restriction, ...]]
LimitChange = Callable[[tuple[QuotaException, ...]], tuple[QuotaException, ...]]


def put_in_force(runtime: Runtime, change: Change, actor: str, note: str) -> None:
    """Save changed restrictions as a new version of the federation. Raises ``NoFederation``."""
    runtime.store.federations.restrict(change, actor, runtime.clock(), note)
    _tell(runtime, actor, note)


def put_limits_in_force(runtime: Runtime, change: LimitChange, actor: str, note: str) -> None:
    """Save changed limits of people, groups and VOs likewise. Raises ``NoFederation``."""
    runtime.store.federations.limit(change, actor, runtime.clock(), note)
    _tell(runtime, actor, note)


def _tell(runtime: Runtime, actor: str, note: str) -> None:
    log.warning("%s, by %s", note, actor)
    runtime.wakeups.wake_all()
    runtime.tell_news()


def end_lapsed(runtime: Runtime) -> None:
    """End restrictions that have passed their time."""
    now = runtime.clock()
    try:
        restrictions = runtime.store.restrictions()
    except NoFederation:
        return
    if lapsed := [restriction for restriction in restrictions if _is_over(restriction, now)]:
        sentence = "; ".join(
            f"{restriction.kind} {restriction.name}: the time is over{told_before(restriction)}"
            for restriction in lapsed
        )
        put_in_force(runtime, lambda before: _lasting(before, now), "watch", sentence)


def told_before(restriction: Restriction | None) -> str:
    """Return for the history what a change ends or replaces; empty if nothing was there."""
    return f"; before: {restriction.text}" if restriction is not None else ""


def _lasting(restrictions: tuple[Restriction, ...], now: float) -> tuple[Restriction, ...]:
    return tuple(restriction for restriction in restrictions if not _is_over(restriction, now))


def _is_over(restriction: Restriction, now: float) -> bool:
    return restriction.until is not None and restriction.until <= now
