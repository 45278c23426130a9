"""Pilots are kept in the sites' queues: recorded first, then submitted, then looked after (P1 to P10)."""

import logging
from collections import defaultdict
from collections.abc import Iterable

from pilotage.computing.loader import load
from pilotage.flow.step import Pass, take
from pilotage.model.decision import Change, Create, Decision, Move, Touch
from pilotage.model.federation import ComputingElement, Queue
from pilotage.model.identity import Credential
from pilotage.model.states import PilotState
from pilotage.model.work import NewPilot, Pilot
from pilotage.model.world import World
from pilotage.pilots import director
from pilotage.ports.computing import ComputingElementPort, PilotOrder
from pilotage.store import Store

log = logging.getLogger(__name__)

CREDENTIAL_LIFETIME = 5 * 86400.0
"""A pilot's credential lasts 5 days, in s (P9)."""


class Provisioner:
    """Talks to the computing elements of a federation; ``server_url`` is where pilots call home."""

    def __init__(self, store: Store, server_url: str) -> None:
        self._store = store
        self._server_url = server_url
        self._elements: dict[str, tuple[ComputingElement, ComputingElementPort]] = {}

    def run(self, now: Pass) -> int:
        """Note which pilots have ended, decide how many more are needed, and submit those."""
        world = self._store.snapshots.for_director(now.time, now.seed)
        changed = self._note_ended(world)
        decision = director.provision(world)
        if not decision.changes:
            return changed
        committed = self._store.commit(decision, "provision")
        queues = {queue.name: queue for queue in world.federation.queues}
        for change, ids in zip(decision.changes, committed.created, strict=True):
            if isinstance(change, Create):
                for record, id_ in zip(change.records, ids, strict=True):
                    if isinstance(record, NewPilot) and id_ is not None:
                        self._submit(id_, record, queues[record.queue], now)
                        changed += 1
        return changed

    def _submit(self, pilot: int, record: NewPilot, queue: Queue, now: Pass) -> None:
        """Hand a recorded pilot to its computing element; the record says what came of it."""
        credential = Credential(
            role="pilot", identity=record.owner, pilot=pilot, expires=now.time + CREDENTIAL_LIFETIME
        )
        order = PilotOrder(
            pilot=pilot,
            name=f"{self._store.federation().name}-pilot-{pilot}",
            token=self._store.tokens.create(credential),
            server_url=self._server_url,
            cores=record.cores,
            memory=record.memory,
            walltime=record.walltime,
            slots=queue.computing_element.pilot_slots if queue.computing_element else 1,
        )
        try:
            (answer,) = self._element(queue).submit([order])
            if answer.error:
                raise OSError(answer.error)
        except Exception as error:  # an adapter may be anybody's
            log.warning("pilot %d: submission to %s failed: %r", pilot, queue.name, error)
            self._store.tokens.revoke_pilot(pilot)
            self._commit(now, _ended(pilot, PilotState.CREATED, f"not submitted: {error}", now.time))
            return
        submitted = Move(
            kind="pilot",
            ids=(pilot,),
            source=PilotState.CREATED,
            target=PilotState.SUBMITTED,
            cause=f"in the queue of {queue.name}",
        )
        # A quick pilot has called home already: then only its reference is news.
        self._commit(
            now, submitted, Touch(kind="pilot", ids=(pilot,), changes={"reference": answer.reference})
        )

    def _note_ended(self, world: World) -> int:
        """Give up the pilots that their computing element knows to have ended without a word.

        Their jobs stay theirs until they have been silent for the heartbeat time-out.
        """
        queues = {queue.name: queue for queue in world.federation.queues if queue.computing_element}
        by_queue: dict[str, list[Pilot]] = defaultdict(list)
        for pilot in world.pilots:
            if pilot.state in (PilotState.SUBMITTED, PilotState.RUNNING) and pilot.reference:
                by_queue[pilot.queue].append(pilot)
        changed = 0
        for name in sorted(by_queue.keys() & queues.keys()):
            ended = self._ended_at(queues[name], by_queue[name])
            moves = tuple(
                _ended(pilot.id, pilot.state, "ended without a word", world.time) for pilot in ended
            )
            decision = Decision(step="provision", time=world.time, seed=world.seed, changes=moves)
            changed += take(self._store, decision, "provision")
            for pilot in ended:
                self._store.tokens.revoke_pilot(pilot.id)
        return changed

    def _ended_at(self, queue: Queue, pilots: Iterable[Pilot]) -> list[Pilot]:
        try:
            statuses = self._element(queue).poll([pilot.reference for pilot in pilots])
        except Exception as error:  # an adapter may be anybody's
            log.warning("queue %s: its pilots cannot be seen: %r", queue.name, error)
            return []
        return [pilot for pilot in pilots if statuses[pilot.reference].state == "ended"]

    def _element(self, queue: Queue) -> ComputingElementPort:
        """The adapter of a queue, made anew when the federation says otherwise than before."""
        element = queue.computing_element
        if element is None:
            raise LookupError(f"queue {queue.name} has no computing element any more")
        known = self._elements.get(queue.name)
        if known is None or known[0] != element:
            known = self._elements[queue.name] = (element, load(element))
        return known[1]

    def _commit(self, now: Pass, *changes: Change) -> None:
        take(
            self._store,
            Decision(step="provision", time=now.time, seed=now.seed, changes=changes),
            "provision",
        )


def _ended(pilot: int, state: PilotState, error: str, time: float) -> Move:
    return Move(
        kind="pilot",
        ids=(pilot,),
        source=state,
        target=PilotState.FAILED,
        cause=error,
        changes={"error": error, "ended": time},
    )
