"""Notify people about their tasks: news to send, times of sending, and results of each attempt."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from pilotage.model.documents.decision import Begin, Change, Create, Decision, Move, Touch, Value
from pilotage.model.documents.world import World
from pilotage.model.records.notifications import (
    HELD_TOLD,
    NewNotification,
    NoticeTopic,
    Notification,
    NotificationSighting,
    NotificationTopic,
    Notify,
)
from pilotage.model.records.states import ENDED, JobState, NotificationState, TaskState
from pilotage.model.records.work import Task
from pilotage.model.rules.credential_ends import CredentialEnd
from pilotage.model.values.identity import Identity
from pilotage.model.values.step_names import NOTIFY
from pilotage.policies.tasks.notification_limits import Allowance

BUNDLED_FOR = 10.0
"""Seconds that news wait for further news to the same receiver, to share a message."""

MOST_OF_MESSAGE = 100
"""Most news of one message."""

MOST_UNSENT = 1000
"""Most unsent notifications of a person. Further news wait at the task."""

EACH_AT_ONCE = 2
"""Most messages of one person that are being sent at the same time."""

ALL_AT_ONCE = 20
"""Most messages that are being sent at the same time."""

FIRST_DELAY, LONGEST_DELAY = 30.0, 3600.0
"""Seconds before the second attempt, doubled for each further one; and the maximum."""

GIVEN_UP_AFTER = 86400.0
"""Seconds after which a notification is given up."""

LEASE = 120.0
"""Seconds after which a sending server counts as ended, unless it is recorded as gone earlier."""

LONGEST_ERROR = 1000
"""Most characters of a task's error in a message."""

EXPIRY = "notify-expiry"
"""The iteration of notifications about ends, so that each is sent once."""

Person = tuple[str, str]
"""A VO, and the name of a person in it."""


def noted(world: World) -> Decision:
    """Make a notification of each task's news for each receiver that wants it.

    If two servers decide from the same world, the commit refuses one of them. News of persons with
    ``MOST_UNSENT`` notifications wait.
    """
    counts: dict[int, Counter[JobState]] = defaultdict(Counter)
    for count in world.task_counts:
        counts[count.task][count.state] += count.jobs
    room = {(count.vo, count.owner): MOST_UNSENT - count.waiting for count in world.notification_counts}
    changes: list[Change] = []
    for task in sorted(world.tasks, key=lambda task: task.id):
        person = (task.owner.vo, task.owner.name)
        topics, notices = _news(task, counts[task.id])
        new = _notifications(task, counts[task.id], topics, world.time)
        if notices == task.notices or len(new) > room.get(person, MOST_UNSENT):
            continue
        room[person] = room.get(person, MOST_UNSENT) - len(new)
        if new:
            changes.append(Create(records=tuple(new), cause=f"news of task {task.id}"))
        changes.append(Touch(kind="task", ids=(task.id,), changes={"notices": notices}, ended=True))
    begin = [Begin(step=NOTIFY, last=world.noted)] if changes else []
    return _decision(world, "notify.noted", *begin, *changes)


def for_test(world: World, receivers: tuple[Notify, ...], person: Identity) -> Decision:
    """Send a test to receivers without waiting for further news."""
    facts = {"text": "a test, asked for by you"}
    records = tuple(_about_no_task(world, "test", settings, person, facts) for settings in receivers)
    return _decision(world, "notify.test", Create(records=records, cause="a test"))


def expiry(
    world: World, last: float | None, news: Iterable[tuple[CredentialEnd, Iterable[tuple[Identity, Notify]]]]
) -> Decision:
    """Notify receivers of ends. ``last`` is when this was done last, in s since 1970; None: never.

    If two servers decide this, the commit refuses one of them.
    """
    records = tuple(
        _about_no_task(
            world,
            "expiry",
            settings,
            person,
            {"text": credential.text, "ends": credential.end, "mend": credential.mend},
        )
        for credential, receivers in news
        for person, settings in receivers
    )
    changes = (Begin(step=EXPIRY, last=last), Create(records=records, cause="an end")) if records else ()
    return _decision(world, "notify.expiry", *changes)


def _about_no_task(
    world: World,
    topic: NotificationTopic,
    settings: Notify,
    person: Identity,
    facts: Mapping[str, str | float],
) -> NewNotification:
    """Return a notification that waits for no further news."""
    return NewNotification(
        task=0,
        topic=topic,
        receiver=settings.receiver,
        owner=person.name,
        vo=person.vo,
        facts=json.dumps(facts),
        wake_at=world.time,
    )


def observed(world: World) -> Decision:
    """Record results of sending: sent, to be tried again, or failed.

    The wait doubles from ``FIRST_DELAY`` to ``LONGEST_DELAY``. If its server has ended, a notification is
    sent again without a wait: its receiver may get it twice, with the same number.
    """
    sightings = {(result.notification, result.attempt): result for result in world.notified}
    moves = _Deliveries(world)
    for notification in world.notifications:
        if notification.state is NotificationState.SENDING:
            sighting = sightings.get((notification.id, notification.attempt)) or _unheard(notification, world)
            if sighting is None:
                continue
            if not sighting.error:
                moves.add(notification, NotificationState.SENT, "its receiver took it", error="")
            elif sighting.refused or world.time - notification.created > GIVEN_UP_AFTER:
                moves.add(notification, NotificationState.FAILED, "it cannot be sent", error=sighting.error)
            else:
                delay = 0.0 if notification.server in world.servers_gone else _delay(notification.attempt)
                wake_at = world.time + delay
                moves.add(
                    notification,
                    NotificationState.WAITING,
                    "tried again",
                    error=sighting.error,
                    wake_at=wake_at,
                )
    return moves.decision("notify.observed")


def begin(world: World) -> Decision:
    """Choose the messages to send now: a message has all news for its receiver.

    At most ``EACH_AT_ONCE`` of a person and ``ALL_AT_ONCE`` in all are being sent, and one per receiver. News
    beyond a limit of messages within an hour wait, with the limit as their error.
    """
    busy: dict[Person, set[str]] = defaultdict(set)
    for notification in world.notifications:
        if notification.state is NotificationState.SENDING:
            busy[notification.vo, notification.owner].add(notification.receiver)
    room = ALL_AT_ONCE - sum(map(len, busy.values()))
    allowance = Allowance(world)
    moves = _Deliveries(world)
    # The person with the fewest messages being sent goes first.
    messages = sorted(messages_due(world), key=lambda message: len(busy[message[0].vo, message[0].owner]))
    for message in messages:
        head, there = message[0], busy[message[0].vo, message[0].owner]
        limit, free_at = allowance.limit(head)
        if limit:
            moves.wait(message, wake_at=free_at, error=limit)
        elif room > 0 and head.receiver not in there and len(there) < EACH_AT_ONCE:
            there.add(head.receiver)
            room -= 1
            allowance.take(head)
            begun: dict[str, Value] = {"message_at": world.time} if head.attempt == 1 else {}
            moves.add(head, NotificationState.SENDING, "due", server=world.server, **begun)
            for notification in message[1:]:
                moves.add(notification, NotificationState.SENDING, "due", server=world.server)
    return moves.decision("notify.begin")


def messages_due(world: World) -> list[list[Notification]]:
    """Return the messages that are due, the longest due first, each with all waiting news for its receiver.

    A failed message is sent again unchanged, with the same number. Further news for its receiver wait until
    the message succeeds or fails for good.
    """
    by_receiver: dict[tuple[Person, str], list[Notification]] = defaultdict(list)
    for notification in sorted(world.notifications, key=lambda notification: notification.id):
        if notification.state is NotificationState.WAITING:
            by_receiver[(notification.vo, notification.owner), notification.receiver].append(notification)
    messages: list[tuple[float, list[Notification]]] = []
    for waiting in by_receiver.values():
        tried = [notification for notification in waiting if notification.attempt > 1]
        due_at = (
            max(notification.wake_at for notification in tried)
            if tried
            else min(notification.wake_at for notification in waiting)
        )
        if due_at <= world.time:
            messages.append((due_at, (tried or waiting)[:MOST_OF_MESSAGE]))
    return [message for _, message in sorted(messages, key=lambda item: (item[0], item[1][0].id))]


def _news(task: Task, counts: Mapping[JobState, int]) -> tuple[list[NoticeTopic], str]:
    """Return a task's news, the most important first, and the new value of its ``notices``."""
    topics = task.notices.split()
    failed = counts.get(JobState.FAILED, 0) - (task.measured.failed if task.measured else 0)
    has_failed = "failure" in topics and (failed > 0 or task.state is TaskState.FAILED)
    if task.state in ENDED["task"]:
        both: tuple[tuple[NoticeTopic, bool], ...] = (("end", "end" in topics), ("failure", has_failed))
        return [topic for topic, is_news in both if is_news], ""
    news: list[NoticeTopic] = []
    if has_failed:
        news.append("failure")
        topics.remove("failure")
    if "held" in topics and _hold(task):
        news.append("held")
        topics[topics.index("held")] = HELD_TOLD
    elif HELD_TOLD in topics and not _hold(task):
        topics[topics.index(HELD_TOLD)] = "held"
    return news, " ".join(topics)


def _hold(task: Task) -> str:
    """Return who holds a task, or why it does not start after its predecessors; empty if it is not held."""
    if task.held or task.state in ENDED["task"]:
        return task.held
    return task.error if task.state is TaskState.WAITING else ""


def _notifications(
    task: Task, counts: Mapping[JobState, int], topics: list[NoticeTopic], time: float
) -> list[NewNotification]:
    """Return the notifications of a task's news. A receiver gets only one about the end of a task."""
    is_over = task.state in ENDED["task"]
    facts = _facts(task, counts)
    notifications: list[NewNotification] = []
    for settings in task.spec.notify:
        chosen = [topic for topic in topics if topic in settings.on]
        notifications += [
            NewNotification(
                task=task.id,
                topic=topic,
                receiver=settings.receiver,
                owner=task.owner.name,
                vo=task.owner.vo,
                facts=facts,
                wake_at=time + BUNDLED_FOR,
            )
            for topic in (chosen[:1] if is_over else chosen)
        ]
    return notifications


def _facts(task: Task, counts: Mapping[JobState, int]) -> str:
    """Return the facts about a task, as JSON."""
    return json.dumps(
        {
            "name": task.spec.name,
            "state": str(task.state),
            "since": task.since,
            "held": _hold(task)[:LONGEST_ERROR],
            "error": task.error[:LONGEST_ERROR],
            "jobs": {str(state): count for state, count in sorted(counts.items()) if count},
        }
    )


def _unheard(notification: Notification, world: World) -> NotificationSighting | None:
    """Return a failure for a notification if its server has ended without a report; else None."""
    if notification.server not in world.servers_gone and world.time - notification.since <= LEASE:
        return None
    error = "the server that sent it has ended"
    return NotificationSighting(notification=notification.id, attempt=notification.attempt, error=error)


def _delay(attempt: int) -> float:
    return float(min(LONGEST_DELAY, FIRST_DELAY * 2 ** min(attempt - 1, 20)))


class _Deliveries:
    """Moves of notifications, one for all with the same change."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._alike: dict[tuple[object, ...], list[Notification]] = defaultdict(list)
        self._waits: list[Touch] = []

    def add(
        self, notification: Notification, target: NotificationState, cause: str, **changes: Value
    ) -> None:
        self._alike[notification.state, target, cause, tuple(changes.items())].append(notification)

    def wait(self, message: list[Notification], **changes: Value) -> None:
        """Postpone a message that is due."""
        ids, attempts = (
            tuple(notification.id for notification in message),
            tuple(notification.attempt for notification in message),
        )
        self._waits.append(Touch(kind="notification", ids=ids, attempts=attempts, changes=changes))

    def decision(self, step: str) -> Decision:
        moves: list[Change] = [*self._waits]
        for (source, target, cause, changes), notifications in self._alike.items():
            ordered = sorted(notifications, key=lambda notification: notification.id)
            moves.append(
                Move(
                    kind="notification",
                    ids=tuple(notification.id for notification in ordered),
                    attempts=tuple(notification.attempt for notification in ordered),
                    source=NotificationState(str(source)),
                    target=NotificationState(str(target)),
                    cause=str(cause),
                    changes=dict(changes),  # type: ignore[call-overload]
                    next_attempt=target is NotificationState.WAITING,
                )
            )
        return _decision(self._world, step, *moves)


def _decision(world: World, step: str, *changes: Change) -> Decision:
    return Decision(step=step, time=world.time, seed=world.seed, changes=changes)
