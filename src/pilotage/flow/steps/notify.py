"""Tell people that their tasks ended, had a first failure, or are held."""

from collections.abc import Iterator

from pilotage.flow.runtime import Runtime
from pilotage.flow.step import Phase, Step, always
from pilotage.model.documents.decision import Committed, Decision, Move
from pilotage.model.documents.subjects import TASK
from pilotage.model.documents.world import World
from pilotage.model.records.notifications import Notification
from pilotage.model.records.states import JobState, NotificationState, TaskState
from pilotage.model.values.phrases import moment, plural
from pilotage.model.values.step_names import NOTIFY
from pilotage.policies.tasks import notifying
from pilotage.store.people.notifications import to_note, to_send


def _observed(runtime: Runtime, world: World, _: Decision, __: Committed) -> None:
    runtime.notifying.forget(world.notified)


def _start(runtime: Runtime, world: World, decision: Decision, committed: Committed) -> None:
    """Send the messages that began, one to each receiver."""
    notifications = {notification.id: notification for notification in world.notifications}
    messages: dict[tuple[str, str, str], list[Notification]] = {}
    for change, ids in zip(decision.changes, committed.accepted, strict=True):
        if isinstance(change, Move) and change.target is NotificationState.SENDING:
            for notification in map(notifications.__getitem__, ids):
                messages.setdefault((notification.vo, notification.owner, notification.receiver), []).append(
                    notification
                )
    for message in messages.values():
        runtime.notifying.start(message)


def _idle(world: World) -> Iterator[str]:
    under_way = [
        notification
        for notification in world.notifications
        if notification.state is NotificationState.SENDING
    ]
    later = [
        notification.wake_at for notification in world.notifications if notification.wake_at > world.time
    ]
    if under_way:
        yield f"{plural(len(under_way), 'notification')} on the way"
    if later:
        yield f"{plural(len(later), 'notification')} not sent before {moment(min(later))}"
    if not world.notifications:
        yield "there is no news for people now"


STEP = Step(
    name=NOTIFY,
    place=15,
    summary="Tell people that their tasks ended, had a first failure, or are held.",
    reads=("notified", to_note, to_send, "notification_limits", "server", "servers_gone"),
    phases=always(
        Phase(actor=NOTIFY, decide=notifying.noted),
        Phase(actor=NOTIFY, decide=notifying.observed, act=_observed, records=True),
        Phase(actor=NOTIFY, decide=notifying.begin, act=_start),
    ),
    subjects=(TASK,),
    idle=_idle,
    in_hand=lambda runtime: runtime.notifying.in_hand,
    wakes_all_servers=True,
    wakes_on=frozenset(
        {
            *(("task", state) for state in (TaskState.FINISHED, TaskState.FAILED, TaskState.CANCELLED)),
            ("job", JobState.FAILED),
            ("job", JobState.HELD),
            ("notification", NotificationState.WAITING),
        }
    ),
)
