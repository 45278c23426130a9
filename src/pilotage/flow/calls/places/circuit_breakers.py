"""Circuit breakers of all kinds: which have tripped, and how an operator lifts them (P6, P8, P12, F2, F4)."""

import logging
from collections.abc import Collection, Iterable

from pilotage.flow.errors import NotThere
from pilotage.flow.runtime import Runtime
from pilotage.model.circuit_breakers.breaker import CircuitBreaker, Key, Kind
from pilotage.model.circuit_breakers.changes import breaker_changes
from pilotage.model.circuit_breakers.jobs import job_breakers
from pilotage.model.circuit_breakers.storages import storage_breakers
from pilotage.model.documents.decision import Change, Decision, Forget, NoteBreakers
from pilotage.model.records.unified_queues import counted_together
from pilotage.model.rules.places import is_at
from pilotage.model.values.step_names import BROKER, LIFT, PROVISION, STAGE
from pilotage.policies.pilots.circuit_breakers import of_pilots
from pilotage.store.pilots.world import pilots_that_trip

log = logging.getLogger(__name__)

ACTING = (STAGE, PROVISION, BROKER, LIFT)
"""Steps that have something to do once a breaker is closed."""


def tripped(runtime: Runtime) -> tuple[CircuitBreaker, ...]:
    """Return the breakers that are open or half-open, by kind. Raises ``NoFederation``."""
    return (*of_queues(runtime), *of_storages(runtime))


def of_queues(runtime: Runtime) -> tuple[CircuitBreaker, ...]:
    """Return the breakers of queues, their servers and nodes (P6, P8, P12, F2)."""
    return (*of_pilots_and_servers(runtime), *of_jobs(runtime))


def of_pilots_and_servers(runtime: Runtime) -> tuple[CircuitBreaker, ...]:
    """Return the breakers that hold pilots back (P6, P8, P12)."""
    return of_pilots(
        runtime.elements.with_list_matches(
            runtime.world(pilots_that_trip, "lifted_breakers", "lacking_nodes")
        )
    )


def of_jobs(runtime: Runtime) -> tuple[CircuitBreaker, ...]:
    """Return the breakers of queues and nodes (F2)."""
    failures = runtime.store.snapshots.failures(runtime.clock())
    return job_breakers(failures, runtime.store.federation())


def of_storages(runtime: Runtime) -> tuple[CircuitBreaker, ...]:
    """Return the breakers of storages (F4)."""
    staging = runtime.store.federation().staging
    return storage_breakers(runtime.store.transfer_queries.failed_deliveries(), staging, runtime.clock())


def note(runtime: Runtime, actor: str) -> None:
    """Make events of the breakers that have opened, become half-open or closed since the last look."""
    begun = runtime.begin(1)
    if changes := _noted(runtime, tripped(runtime), begun.time):
        decision = Decision(step="breakers", time=begun.time, seed=begun.seed, changes=changes)
        runtime.store.commit(decision, actor)


def _noted(runtime: Runtime, now: Iterable[CircuitBreaker], time: float) -> tuple[NoteBreakers, ...]:
    changes = breaker_changes(runtime.store.noted_breakers(), now, time)
    return (NoteBreakers(changes=changes),) if changes else ()


def lift(
    runtime: Runtime, name: str, actor: str, kind: Kind | None = None, sites: Collection[str] | None = None
) -> tuple[CircuitBreaker, ...]:
    """Close every breaker of a storage, queue, node or server, or only breakers of one kind. Return them.

    Earlier failures there stop counting, even if a storage has too few to trip its breaker. With ``sites``,
    breakers elsewhere stay as they are.
    Raises ``NotThere`` if neither the federation nor a breaker has the name.
    """
    breakers, federation = tripped(runtime), runtime.store.federation()
    # Pseudo-queues are one place.
    names = {name, *counted_together(federation).get(name, ())}
    lifted = tuple(
        breaker
        for breaker in breakers
        if names & {*breaker.names}
        and kind in (None, breaker.kind)
        and (sites is None or is_at(breaker, federation, sites))
    )
    declared = {queue.name for queue in federation.queues} | {storage.name for storage in federation.storages}
    if name not in declared.union(*(breaker.names for breaker in breakers)):
        raise NotThere(
            f"there is no storage, queue, node or server {name!r} with a circuit breaker; "
            "pilotage breakers lists those that have tripped"
        )
    keys = {breaker.key for breaker in lifted}
    if kind in (None, "storage"):
        failed = runtime.store.transfer_queries.failed_deliveries()
        keys |= {("storage", *delivery.end) for delivery in failed if name in delivery.end}
    if keys:
        _close(runtime, keys, (breaker for breaker in breakers if breaker.key not in keys), actor)
        for breaker in lifted:
            log.warning("%s: circuit breaker closed, lifted by %s", breaker.what, actor)
    return lifted


def _close(runtime: Runtime, keys: Collection[Key], remaining: Iterable[CircuitBreaker], actor: str) -> None:
    """Close breakers, so that only the remaining ones hold work back."""
    begun = runtime.begin(1)
    changes: tuple[Change, ...] = (
        Forget(lifted=tuple(sorted(keys))),
        *_noted(runtime, remaining, begun.time),
    )
    decision = Decision(step="breakers", time=begun.time, seed=begun.seed, changes=changes)
    runtime.store.commit(decision, actor)
    for step in ACTING:
        runtime.wakeups.wake(step)
