"""Notifications: table, tasks with news for their owners, messages to send, and views."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Connection, Double, Index, String, bindparam, case, cast, func, select, tuple_

from pilotage.model.records.counters import JOBS_BY_TASK
from pilotage.model.records.life import LifeInAttempts
from pilotage.model.records.notifications import (
    HELD_TOLD,
    Notification,
    NotificationCount,
    NotificationTopic,
    RecentMessages,
)
from pilotage.model.records.states import (
    LIVE_NOTIFICATIONS,
    LIVE_TASKS,
    JobState,
    NotificationState,
    TaskState,
)
from pilotage.model.values.durations import HOUR
from pilotage.model.values.identity import Identity, Owners
from pilotage.model.values.step_names import NOTIFY
from pilotage.store.database.columns import has_state, is_of, is_state, partial_index
from pilotage.store.database.engine import Database
from pilotage.store.database.keyset import ListOrder, ListPage, total_of
from pilotage.store.database.record_columns import SETTABLE, maker, read_columns, record_table
from pilotage.store.jobs.counters import counts
from pilotage.store.jobs.job_counts import of_query
from pilotage.store.tasks.table import TASK_COLUMNS, is_to_notify, tasks
from pilotage.store.worlds.parts import Reading, part

notifications = record_table(
    "notifications",
    Notification,
    # When the message that begins with this one was first sent, in s since 1970.
    Column("message_at", Double, info=SETTABLE),
    Index("notifications_by_task", "task", "id"),
    Index("notifications_by_owner", "vo", "owner", "id"),
    Index("notifications_by_state", "state", "since", "id"),
)

_n = notifications.c

is_unsent = is_state(notifications, *LIVE_NOTIFICATIONS)

# Leave out sent notifications: only their number grows.
partial_index("notifications_unsent", _n.vo, _n.owner, _n.id, _n.state, condition=is_unsent)
partial_index("notifications_by_message", _n.message_at, condition=_n.message_at.is_not(None))

NOTIFICATION_COLUMNS = read_columns(notifications, Notification)
notification = maker(Notification)
"""Makes a notification of a row that begins with ``NOTIFICATION_COLUMNS``."""


MOST_OF_PERSON = 200
"""Most tasks, and most notifications, of one person in a pass, so that no person blocks the others."""

MOST_IN_ALL = 5000
"""Most tasks, and most notifications, in a pass."""

_t, _c = tasks.c, counts.c
_HAS_FAILED = (
    select(_c.first)
    .where(_c.counter == JOBS_BY_TASK, _c.state == str(JobState.FAILED))
    # The keys of all counters are texts.
    .where(_c.first == cast(_t.id, String))
    .group_by(_c.first)
    .having(func.sum(_c.count) > 0)
)
_IS_HELD = (_t.held != "") | (has_state(tasks, TaskState.WAITING) & (_t.error != ""))
_HAS_NEWS = (
    ~has_state(tasks, *LIVE_TASKS)
    | (_t.notices.contains(HELD_TOLD) & ~_IS_HELD)
    | (_t.notices.contains("held") & ~_t.notices.contains(HELD_TOLD) & _IS_HELD)
    | (_t.notices.contains("failure") & _HAS_FAILED.exists())
)
_RANKED_TASKS = (
    select(_t.id, func.row_number().over(partition_by=(_t.vo, _t.owner), order_by=_t.id).label("place"))
    .where(is_to_notify, _HAS_NEWS)
    .subquery()
)
_TASKS = (
    select(*TASK_COLUMNS)
    .join(_RANKED_TASKS, _RANKED_TASKS.c.id == _t.id)
    .where(_RANKED_TASKS.c.place <= MOST_OF_PERSON)
    .order_by(_t.id)
    .limit(MOST_IN_ALL)
)
_is_under_way = case((_n.state == "sending", 0), else_=1)
_RANKED = (
    select(
        _n.id,
        func.row_number()
        .over(partition_by=(_n.vo, _n.owner), order_by=(_is_under_way, _n.wake_at, _n.id))
        .label("place"),
    )
    .where(is_unsent)
    .subquery()
)
_UNSENT = (
    select(*NOTIFICATION_COLUMNS)
    .join(_RANKED, _RANKED.c.id == _n.id)
    .where(_RANKED.c.place <= MOST_OF_PERSON)
    .order_by(_n.wake_at, _n.id)
    .limit(MOST_IN_ALL)
)
_COUNTS = (
    select(_n.owner, _n.vo, func.count())
    .where(is_unsent, _n.owner == bindparam("owner"), _n.vo == bindparam("vo"))
    .group_by(_n.owner, _n.vo)
)


_unsent = notifications.alias()
_IS_UNSENT = _unsent.c.state.in_([str(state) for state in LIVE_NOTIFICATIONS])
_RECENT = (
    select(_n.vo, _n.owner, _n.receiver, func.count(), func.min(_n.message_at))
    .where(_n.message_at > bindparam("since"))
    .where(
        tuple_(_n.vo, _n.owner).in_(select(_unsent.c.vo, _unsent.c.owner).where(_IS_UNSENT))
        | func.lower(_n.receiver).in_(select(func.lower(_unsent.c.receiver)).where(_IS_UNSENT))
    )
    .group_by(_n.vo, _n.owner, _n.receiver)
    .order_by(_n.vo, _n.owner, _n.receiver)
)


@part("tasks", "task_counts", "notification_counts", "noted")
def to_note(reading: Reading) -> Mapping[str, Any]:
    """Read tasks with news for their owners, and how many notifications of these owners wait."""
    reader = reading.reader
    news = reader.tasks_from(_TASKS)
    owners = sorted({(task.owner.name, task.owner.vo) for task in news})
    waiting = [row for owner, vo in owners for row in reader.raw_rows(_COUNTS, owner=owner, vo=vo)]
    return {
        "tasks": news,
        "task_counts": reader.task_counts([task.id for task in news]) if news else (),
        "notification_counts": tuple(
            NotificationCount(owner=owner, vo=vo, waiting=int(count)) for owner, vo, count in waiting
        ),
        "noted": reader.iterated(NOTIFY),
    }


@part("notifications", "recent_messages")
def to_send(reading: Reading) -> Mapping[str, Any]:
    """Read notifications that wait or are on their way, each person's longest due first.

    Read also the messages of the last hour that count against people's limits.
    """
    reader = reading.reader
    waiting = tuple(map(notification, reader.raw_rows(_UNSENT)))
    recent = reader.raw_rows(_RECENT, since=reading.now.time - HOUR) if waiting else ()
    return {
        "notifications": waiting,
        "recent_messages": tuple(
            RecentMessages(owner=owner, vo=vo, receiver=receiver, messages=int(count), first=first)
            for vo, owner, receiver, count, first in recent
        ),
    }


_ALL_COUNTS = select(_n.owner, _n.vo, func.count()).where(is_unsent).group_by(_n.vo, _n.owner)


@part("notification_counts")
def unsent(reading: Reading) -> Mapping[str, Any]:
    """Read how many notifications of each person wait."""
    rows = sorted(reading.reader.raw_rows(_ALL_COUNTS))
    return {
        "notification_counts": tuple(
            NotificationCount(owner=owner, vo=vo, waiting=int(count)) for owner, vo, count in rows
        )
    }


_ORDER = ListOrder(name="newest", id=_n.id)
_OF_TASK = (
    select(_n.state, func.count(), func.max(_n.error), func.min(_n.wake_at))
    .where(_n.task == bindparam("task"))
    .group_by(_n.state)
)

_TESTS = select(func.count()).where(
    _n.vo == bindparam("vo"),
    _n.owner == bindparam("owner"),
    _n.topic == "test",
    _n.created > bindparam("since"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationView(LifeInAttempts):
    """A notification as people see it. Times in s since 1970 UTC. ``task`` is 0 for a test."""

    task: int
    topic: NotificationTopic
    receiver: str
    owner: str
    vo: str
    state: NotificationState
    wake_at: float


class NotificationQueries:
    """Reads notifications, each answer at one moment."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def newest(self, owner: Owners, task: int, limit: int, after: str = "") -> ListPage[NotificationView]:
        """Return the newest notifications of some owners, of one task unless it is 0.

        Raises ``BadCursor``.
        """
        conditions = is_of(owner, _n.owner, _n.vo)
        conditions += [_n.task == task] if task else []
        counting = select(_n.state, func.count()).where(*conditions).group_by(_n.state)
        query = select(*NOTIFICATION_COLUMNS).where(*conditions, *_ORDER.after(_ORDER.position(after)))

        def read(connection: Connection) -> ListPage[NotificationView]:
            counts = of_query(connection, counting, NotificationState)
            rows, following = _ORDER.read(connection, query, limit)
            return ListPage(
                [_view(notification(row)) for row in rows], total_of(counts, None), counts, following
            )

        return self._database.read(read)

    def tests(self, person: Identity, since: float) -> int:
        """Return how many tests a person has sent since a time, in s since 1970 UTC."""
        values = {"vo": person.vo, "owner": person.name, "since": since}
        return self._database.read(lambda connection: int(connection.execute(_TESTS, values).scalar_one()))

    def of_task(self, task: int) -> Mapping[NotificationState, tuple[int, str, float]]:
        """Return a task's notifications by state: how many, an error, and when the next is sent."""
        rows = self._database.read(lambda connection: connection.execute(_OF_TASK, {"task": task}).all())
        return {
            NotificationState(state): (int(count), error, wake_at) for state, count, error, wake_at in rows
        }


def _view(record: Notification) -> NotificationView:
    names = NotificationView.__dataclass_fields__
    return NotificationView(**{name: getattr(record, name) for name in names})
