"""Drain, close and open sites, queues and storages: what operators do beside the federation's file."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pilotage.flow.errors import NotNow, NotThere
from pilotage.flow.restricting import put_in_force, told_before
from pilotage.flow.runtime import Runtime
from pilotage.model.records.federation import Federation
from pilotage.model.records.restrictions import RestrictedKind, Restriction
from pilotage.model.records.states import AT_A_PILOT, UNSTARTED_JOBS, JobState
from pilotage.model.rules.restricted import by_place, of_queue, of_storage
from pilotage.store import QueueView, note_act

AFTER_PAYLOAD = (JobState.HOLDING, JobState.TRANSFERRING)
"""Jobs with outputs still on the way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remaining:
    """What a restricted place still has."""

    waiting: int = 0
    """Jobs that have not started."""
    running: int = 0
    """Jobs at pilots."""
    pilot_ended: int = 0
    """Some of them: their pilot's batch job has ended."""
    pilot_ended_until: float | None = None
    """When the last of these go on elsewhere, in s since 1970 UTC."""
    leaving: int = 0
    """Jobs with outputs on the way to their storage."""
    transfers: int = 0
    """Live transfers from or to a storage."""

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is left there."""
        return not (self.waiting or self.running or self.leaving or self.transfers)


def restrict(runtime: Runtime, restriction: Restriction) -> Remaining:
    """Put a restriction in force, in the place of an earlier one there. Return the remaining work.

    Raises ``NotThere``, and ``NotNow`` for one that has ended already.
    """
    _declared(runtime, restriction.kind, restriction.name)
    if restriction.until is not None and restriction.until <= runtime.clock():
        raise NotNow("`until` is over already: give a later time, or none")

    def change(before: tuple[Restriction, ...]) -> tuple[Restriction, ...]:
        return (*_without(before, restriction.kind, restriction.name), restriction)

    former = _in_force(runtime, restriction.kind, restriction.name)
    note_act(before={"restriction": former.text} if former else {})
    before = told_before(former)
    put_in_force(
        runtime,
        change,
        restriction.actor,
        f"{restriction.kind} {restriction.name} {restriction.text}{before}",
    )
    return remaining(runtime, restriction.kind, restriction.name)


def lift(runtime: Runtime, kind: RestrictedKind, name: str, actor: str) -> Restriction | None:
    """End the restriction of a place. Return it; None if there was none. Raises ``NotThere``."""
    _declared(runtime, kind, name)
    restriction = _in_force(runtime, kind, name)
    if restriction is not None:
        note_act(before={"restriction": restriction.text})
        note = f"{kind} {name} opened{told_before(restriction)}"
        put_in_force(runtime, lambda before: _without(before, kind, name), actor, note)
    return restriction


def still_shut(runtime: Runtime, kind: RestrictedKind, name: str) -> str:
    """Return what keeps a place shut besides its own restriction; empty if nothing does.

    That is a restriction of its site, or the federation's file.
    """
    declared, places = runtime.store.declared_federation(), by_place(runtime.store.restrictions())
    for queue in declared.queues:
        if (kind, name) == ("queue", queue.name):
            status = "" if queue.status == "online" else f"the federation's file says {queue.status}"
            return _reasons(of_queue(places, queue), status)
    for storage in declared.storages:
        if (kind, name) == ("storage", storage.name):
            status = "the federation's file blacklists it" if storage.blacklisted else ""
            return _reasons(of_storage(places, storage), status)
    return ""


def _reasons(restrictions: Iterable[Restriction], in_file: str) -> str:
    return "; ".join(
        [
            *(f"{restriction.kind} {restriction.name} is {restriction.text}" for restriction in restrictions),
            *filter(None, [in_file]),
        ]
    )


def _in_force(runtime: Runtime, kind: RestrictedKind, name: str) -> Restriction | None:
    restrictions = runtime.store.restrictions()
    return next(
        (restriction for restriction in restrictions if (restriction.kind, restriction.name) == (kind, name)),
        None,
    )


def with_remaining(
    runtime: Runtime, restrictions: Iterable[Restriction]
) -> list[tuple[Restriction, Remaining]]:
    """Return restrictions, and the remaining work at the place of each."""
    queues = runtime.store.queries.queues()
    return [
        (restriction, _remaining_at(runtime, restriction.kind, restriction.name, queues))
        for restriction in restrictions
    ]


def remaining(runtime: Runtime, kind: RestrictedKind, name: str) -> Remaining:
    """Return the remaining work at a place."""
    return _remaining_at(runtime, kind, name, runtime.store.queries.queues())


def of_declared(runtime: Runtime, kind: RestrictedKind, name: str) -> Remaining:
    """Return the remaining work at a place. Raises ``NotThere``."""
    _declared(runtime, kind, name)
    return remaining(runtime, kind, name)


def _remaining_at(
    runtime: Runtime, kind: RestrictedKind, name: str, queues: Sequence[QueueView]
) -> Remaining:
    queue_names = set(_queues(runtime.store.federation(), kind, name))
    job_counts = [queue.jobs for queue in queues if queue.name in queue_names]

    def count(states: Iterable[JobState]) -> int:
        return sum(jobs.get(state, 0) for jobs in job_counts for state in states)

    ended = [pilot for pilot in runtime.store.queries.ended_pilots() if pilot.queue in queue_names]
    moving = runtime.store.work_there((), [name]).transfers.get(name, 0) if kind == "storage" else 0
    return Remaining(
        waiting=count(UNSTARTED_JOBS),
        running=count(AT_A_PILOT),
        pilot_ended=sum(pilot.jobs for pilot in ended),
        pilot_ended_until=max((pilot.sure_at for pilot in ended), default=None),
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
        "site": [place.name for place in federation.sites],
        "queue": [place.name for place in federation.queues],
        "storage": [place.name for place in federation.storages],
    }
    if name not in places[kind]:
        raise NotThere(f"there is no {kind} {name!r}; pilotage {kind}s lists them")


def _without(restrictions: Iterable[Restriction], kind: RestrictedKind, name: str) -> tuple[Restriction, ...]:
    return tuple(
        restriction for restriction in restrictions if (restriction.kind, restriction.name) != (kind, name)
    )
