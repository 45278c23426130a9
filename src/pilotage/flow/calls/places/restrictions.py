"""Drain, close and open sites, queues and storages: what operators do beside the federation's file."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pilotage.flow.errors import NotNow, NotThere
from pilotage.flow.restricting import put_in_force, told_before
from pilotage.flow.runtime import Runtime
from pilotage.model.records.federation import Federation
from pilotage.model.records.restrictions import RestrictedKind, Restriction
from pilotage.model.records.states import AT_A_PILOT, UNSTARTED_JOBS, JobState
from pilotage.model.rules.restricted import of_queue, of_storage
from pilotage.store import QueueView

AFTER_PAYLOAD = (JobState.HOLDING, JobState.TRANSFERRING)
"""Jobs whose outputs are still on the way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remaining:
    """What a restricted place still has."""

    waiting: int = 0
    """Jobs that have not started."""
    running: int = 0
    """Jobs at pilots."""
    pilot_ended: int = 0
    """Those of them at pilots whose batch job has ended."""
    pilot_ended_until: float | None = None
    """When the last of these go on elsewhere, in s since 1970 UTC."""
    leaving: int = 0
    """Jobs whose outputs are on the way to their storage."""
    transfers: int = 0
    """Live transfers from or to a storage."""

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is left there."""
        return not (self.waiting or self.running or self.leaving or self.transfers)


def restrict(runtime: Runtime, asked: Restriction) -> Remaining:
    """Put a restriction in force, in the place of an earlier one there. Return the remaining work.

    Raises ``NotThere``, and ``NotNow`` for one that has ended already.
    """
    _declared(runtime, asked.kind, asked.name)
    if asked.until is not None and asked.until <= runtime.clock():
        raise NotNow("`until` is over already: give a later time, or none")

    def change(before: tuple[Restriction, ...]) -> tuple[Restriction, ...]:
        return (*_without(before, asked.kind, asked.name), asked)

    before = told_before(_found(runtime, asked.kind, asked.name))
    put_in_force(runtime, change, asked.actor, f"{asked.kind} {asked.name} {asked.text}{before}")
    return remaining(runtime, asked.kind, asked.name)


def lift(runtime: Runtime, kind: RestrictedKind, name: str, actor: str) -> Restriction | None:
    """End the restriction of a place. Return it; None if there was none. Raises ``NotThere``."""
    _declared(runtime, kind, name)
    found = _found(runtime, kind, name)
    if found is not None:
        note = f"{kind} {name} opened{told_before(found)}"
        put_in_force(runtime, lambda before: _without(before, kind, name), actor, note)
    return found


def still_shut(runtime: Runtime, kind: RestrictedKind, name: str) -> str:
    """Return what keeps a place shut that no restriction of its own does; empty if it is open.

    That is a restriction of its site, or the federation's file.
    """
    declared, known = runtime.store.declared_federation(), runtime.store.restrictions()
    for queue in declared.queues:
        if (kind, name) == ("queue", queue.name):
            status = "" if queue.status == "online" else f"the federation's file says {queue.status}"
            return _reasons(of_queue(known, queue), status)
    for storage in declared.storages:
        if (kind, name) == ("storage", storage.name):
            status = "the federation's file blacklists it" if storage.blacklisted else ""
            return _reasons(of_storage(known, storage), status)
    return ""


def _reasons(found: Iterable[Restriction], in_file: str) -> str:
    return "; ".join([*(f"{one.kind} {one.name} is {one.text}" for one in found), *filter(None, [in_file])])


def _found(runtime: Runtime, kind: RestrictedKind, name: str) -> Restriction | None:
    known = runtime.store.restrictions()
    return next((one for one in known if (one.kind, one.name) == (kind, name)), None)


def with_remaining(runtime: Runtime, found: Iterable[Restriction]) -> list[tuple[Restriction, Remaining]]:
    """Return restrictions, and the remaining work at the place of each."""
    queues = runtime.store.queries.queues()
    return [(one, _left(runtime, one.kind, one.name, queues)) for one in found]


def remaining(runtime: Runtime, kind: RestrictedKind, name: str) -> Remaining:
    """Return the remaining work at a place."""
    return _left(runtime, kind, name, runtime.store.queries.queues())


def of_declared(runtime: Runtime, kind: RestrictedKind, name: str) -> Remaining:
    """Return the remaining work at a place. Raises ``NotThere``."""
    _declared(runtime, kind, name)
    return remaining(runtime, kind, name)


def _left(runtime: Runtime, kind: RestrictedKind, name: str, queues: Sequence[QueueView]) -> Remaining:
    wanted = set(_queues(runtime.store.federation(), kind, name))
    found = [queue.jobs for queue in queues if queue.name in wanted]

    def count(states: Iterable[JobState]) -> int:
        return sum(jobs.get(state, 0) for jobs in found for state in states)

    ended = [one for one in runtime.store.queries.ended_pilots() if one.queue in wanted]
    moving = runtime.store.work_there((), [name]).transfers.get(name, 0) if kind == "storage" else 0
    return Remaining(
        waiting=count(UNSTARTED_JOBS),
        running=count(AT_A_PILOT),
        pilot_ended=sum(one.jobs for one in ended),
        pilot_ended_until=max((one.sure_at for one in ended), default=None),
        leaving=count(AFTER_PAYLOAD),
        transfers=moving,
    )


def _queues(federation: Federation, kind: RestrictedKind, name: str) -> list[str]:
    if kind == "queue":
        return [queue.name for queue in federation.queues if name in (queue.name, queue.parent)]
    return [queue.name for queue in federation.queues if getattr(queue, kind) == name]


def _declared(runtime: Runtime, kind: RestrictedKind, name: str) -> None:
    federation = runtime.store.declared_federation()
    places: dict[str, Sequence[str]] = {
        "site": [one.name for one in federation.sites],
        "queue": [one.name for one in federation.queues],
        "storage": [one.name for one in federation.storages],
    }
    if name not in places[kind]:
        raise NotThere(f"there is no {kind} {name!r}; pilotage {kind}s lists them")


def _without(found: Iterable[Restriction], kind: RestrictedKind, name: str) -> tuple[Restriction, ...]:
    return tuple(one for one in found if (one.kind, one.name) != (kind, name))
