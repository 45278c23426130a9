"""Containment of payloads: refuse pilots that cannot contain them, at queues that require it."""

from dataclasses import replace

from pilotage.model.documents.decision import Decision, Move
from pilotage.model.records.federation import Queue
from pilotage.model.records.matching import MatchRequest
from pilotage.model.records.states import PilotState
from pilotage.model.records.work import Pilot
from pilotage.model.rules.failed_attempts import COMPLETE_CONTAINMENT
from pilotage.model.values.step_names import MATCH


def refusal(queue: Queue | None, containment: str) -> str:
    """Return why a pilot with this containment may not run at a queue; empty if it may."""
    element = queue.computing_element if queue else None
    if (
        queue is None
        or element is None
        or element.containment != "required"
        or containment in COMPLETE_CONTAINMENT
    ):
        return ""
    has = f"has only {containment!r}" if containment else "reports none"
    return (
        f"queue {queue.name} insists on contained payloads, and this pilot {has}: "
        "install bubblewrap, or allow user namespaces, at its machine"
    )


def in_force(queue: Queue | None, containment: str) -> str:
    """Return the containment of a pilot's payloads at a queue: "off" if the queue has switched it off."""
    element = queue.computing_element if queue else None
    return "off" if element and element.containment == "off" and containment else containment


def described(pilot: Pilot, queue: Queue | None, request: MatchRequest) -> Pilot:
    """Return a pilot with the containment and the machine of its request."""
    containment = in_force(queue, request.containment) or pilot.containment
    # Keep the first name of its machine: with changing names it would count as several machines (F2, F4).
    node = pilot.node or request.node
    if (containment, node) == (pilot.containment, pilot.node):
        return pilot
    return replace(pilot, containment=containment, node=node)


def refuse(pilot: Pilot, reason: str, containment: str, time: float, seed: int) -> Decision:
    """End a pilot as if it had never called, so that its queue is paused longer each time (P6)."""
    ended = Move(
        kind="pilot",
        ids=(pilot.id,),
        source=pilot.state,
        target=PilotState.FAILED,
        cause=reason,
        changes={"error": reason, "ended": time, "heartbeat": None, "containment": containment},
    )
    return Decision(step=MATCH, time=time, seed=seed, changes=(ended,))
