"""What is stuck, in words: what such records wait for, and the command that looks further or mends it."""

from collections.abc import Mapping

from pilotage.model.records.states import (
    JobState,
    Kind,
    NotificationState,
    PilotState,
    PublicationState,
    State,
    TaskState,
    TransferState,
)
from pilotage.model.rules.stuck import StuckGroup
from pilotage.model.values.phrases import plural

from .words import ago

_STATES: Mapping[tuple[Kind, State], tuple[str, str]] = {
    ("task", TaskState.REGISTERED): ("it is not split into jobs", "pilotage explain {id}"),
    ("task", TaskState.SCOUTING): ("its scouts have not ended", "pilotage jobs {id}"),
    ("task", TaskState.SPLITTING): ("some of its jobs are not made", "pilotage explain {id}"),
    ("task", TaskState.MERGING): ("its merge has not ended", "pilotage jobs {id}"),
    ("job", JobState.THROTTLED): ("its quotas of live jobs are full", "pilotage explain job:{id}"),
    ("job", JobState.PENDING): ("no queue takes it", "pilotage explain job:{id}"),
    ("job", JobState.DEFINED): ("the brokerage has not decided about it", "pilotage doctor"),
    ("job", JobState.HELD): ("a person holds it", "pilotage release {task}"),
    ("job", JobState.ASSIGNED): ("its inputs have not arrived", "pilotage explain job:{id}"),
    ("job", JobState.ACTIVATED): ("no pilot took it", "pilotage queues test {place}"),
    ("job", JobState.SENT): ("its pilot never said that it has it", "pilotage explain job:{id}"),
    ("job", JobState.STARTING): ("its payload has not begun", "pilotage explain job:{id}"),
    ("job", JobState.RUNNING): ("its payload has not ended", "pilotage logs job:{id}"),
    ("job", JobState.HOLDING): ("its outputs were not sent on", "pilotage explain job:{id}"),
    ("job", JobState.TRANSFERRING): ("its outputs have not arrived", "pilotage explain job:{id}"),
    ("transfer", TransferState.QUEUED): ("no slot was free for it", "pilotage explain transfer:{id}"),
    ("transfer", TransferState.PREPARING): ("its source is not settled", "pilotage explain transfer:{id}"),
    ("transfer", TransferState.PREPARED): ("no slot was free for it", "pilotage explain transfer:{id}"),
    ("transfer", TransferState.DELIVERING): ("its bytes have not arrived", "pilotage explain transfer:{id}"),
    ("transfer", TransferState.DELIVERED): ("its replica is not recorded", "pilotage doctor"),
    ("transfer", TransferState.FINISHING): ("its replica is not recorded", "pilotage doctor"),
    ("pilot", PilotState.CREATED): ("it was never submitted", "pilotage doctor --only 'batch system'"),
    ("pilot", PilotState.SUBMITTED): ("it waits at its site", "pilotage explain queue:{place}"),
    ("publication", PublicationState.WAITING): ("its catalogue was not asked", "pilotage doctor"),
    ("publication", PublicationState.PUBLISHING): ("its catalogue has not answered", "pilotage doctor"),
    ("notification", NotificationState.WAITING): ("its receiver takes none", "pilotage notify list"),
    ("notification", NotificationState.SENDING): ("its receiver does not answer", "pilotage notify list"),
}
"""What a record in a state waits for, and the command for it: with its ``id``, its ``task`` and its
``place``."""


def what_of(kind: str, state: str, place: str, count: int) -> str:
    """Return what is stuck: ``12 jobs activated at north-short``, or ``step broker fails``."""
    if kind == "step":
        return f"step {place} fails"
    return f"{plural(count, kind)} {state}" + (f" at {place}" if place else "")


def reason_of(group: StuckGroup, found: str) -> str:
    """Return why a group is stuck: what was ``found`` out about it, its last error, or what it waits for."""
    return found or (group.error.partition("\n")[0]) or _STATES[group.kind, group.state][0]


def verb_of(group: StuckGroup, task: int = 0) -> str:
    """Return the command that mends what is stuck, or shows more. ``task`` is that of its oldest job."""
    return _STATES[group.kind, group.state][1].format(id=group.oldest, task=task, place=group.place)


def usual_of(group: StuckGroup) -> str:
    """Return what counts as usual: ``usually within 4 min``, or the limit where the past tells nothing."""
    if group.usual is None:
        return f"expected within {ago(group.limit)}"
    return f"usually within {ago(group.usual)}"
