"""Withdraw pilots from batch systems after their work was cancelled or stopped, or their owner left."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from pilotage.model.documents.decision import Decision, Move
from pilotage.model.documents.world import World
from pilotage.model.records.states import LIVE_PILOTS, WAITING_PILOTS, PilotState
from pilotage.model.records.work import Pilot, Requirements
from pilotage.policies.pilots.fitting import fits, needs, promised

REASON = "its work was cancelled, and no other waits that could use it"


def withdraw(world: World, cancelled: frozenset[tuple[str, str]]) -> Decision:
    """Cancel pilots that have not started, if they were made for ``cancelled`` queues and requirements.

    Keep a pilot that a waiting job could use. The world's task queues contain all waiting jobs; their queue
    is empty for jobs that may go to any queue. The world's tasks still have jobs to make: if there is one,
    keep all pilots.
    """
    idle: dict[PilotState, list[int]] = defaultdict(list)
    for pilot in world.pilots if not world.tasks else ():
        made_for = (pilot.queue, pilot.requirements) in cancelled and pilot.state in WAITING_PILOTS
        if made_for and not _is_useful(world, pilot):
            idle[pilot.state].append(pilot.id)
    return _ended(world, idle, REASON)


def end_private(world: World, name: str, vo: str, reason: str) -> Decision:
    """End the live private pilots of a person, running ones too, because only this person may use them."""
    by_state: dict[PilotState, list[int]] = defaultdict(list)
    for pilot in world.pilots:
        is_theirs = pilot.kind == "private" and (pilot.owner.name, pilot.owner.vo) == (name, vo)
        if is_theirs and pilot.state in LIVE_PILOTS:
            by_state[pilot.state].append(pilot.id)
    return _ended(world, by_state, reason)


def _ended(world: World, pilots: Mapping[PilotState, Sequence[int]], reason: str) -> Decision:
    moves = tuple(
        Move(
            kind="pilot",
            ids=tuple(sorted(ids)),
            source=state,
            target=PilotState.CANCELLED if state in WAITING_PILOTS else PilotState.FAILED,
            cause=reason,
            changes={"error": reason, "ended": world.time},
        )
        for state, ids in sorted(pilots.items())
    )
    return Decision(step="cancel", time=world.time, seed=world.seed, changes=moves)


def is_void(world: World) -> bool:
    """Return whether no pilot of the director's last iteration is left because all were withdrawn."""
    new_pilots = [pilot for pilot in world.pilots if pilot.created == world.iterated]
    return bool(new_pilots) and all(
        pilot.state is PilotState.CANCELLED and pilot.error == REASON for pilot in new_pilots
    )


def _is_useful(world: World, pilot: Pilot) -> bool:
    """Return whether a waiting job could use a pilot: a job of its queue, or one that the pilot may
    borrow."""
    queue = next((queue for queue in world.federation.queues if queue.name == pilot.queue), None)
    borrows = bool(world.borrowable_lines)
    return queue is not None and any(
        fits(needs(Requirements.from_text(line.requirements), queue), promised(pilot))
        for line in world.task_queues
        if line.queue in ("", pilot.queue) or borrows
    )
