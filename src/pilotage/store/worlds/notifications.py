"""Tasks with news for somebody, and notifications to send."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import String, bindparam, case, cast, func, select, tuple_

from pilotage.model.records.counters import JOBS_BY_TASK
from pilotage.model.records.notifications import HELD_TOLD, NotificationCount, RecentMessages
from pilotage.model.records.states import LIVE_NOTIFICATIONS, LIVE_TASKS, JobState, TaskState
from pilotage.model.values.durations import HOUR
from pilotage.model.values.step_names import NOTIFY
from pilotage.store.database.columns import has_state
from pilotage.store.tables.counters import counts
from pilotage.store.tables.notifications import (
    NOTIFICATION_COLUMNS,
    is_unsent,
    notification,
    notifications,
)
from pilotage.store.tables.tasks import TASK_COLUMNS, is_to_notify, tasks
from pilotage.store.worlds.parts import Reading, part

MOST_OF_PERSON = 200
"""Most tasks, and most notifications, of one person in a pass: nobody's crowd keeps out another's."""

MOST_IN_ALL = 5000
"""Most tasks, and most notifications, in a pass."""

_t, _n, _c = tasks.c, notifications.c, counts.c
_HAS_FAILED = (
    select(_c.first)
    .where(_c.counter == JOBS_BY_TASK, _c.state == str(JobState.FAILED))
    # Counters' keys are texts, whatever they count.
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
    """Read tasks with news for somebody, and how much their owners have waiting."""
    reader = reading.reader
    found = reader.tasks_from(_TASKS)
    owners = sorted({(task.owner.name, task.owner.vo) for task in found})
    waiting = [row for owner, vo in owners for row in reader.raw_rows(_COUNTS, owner=owner, vo=vo)]
    return {
        "tasks": found,
        "task_counts": reader.task_counts([task.id for task in found]) if found else (),
        "notification_counts": tuple(
            NotificationCount(owner=owner, vo=vo, waiting=int(many)) for owner, vo, many in waiting
        ),
        "noted": reader.iterated(NOTIFY),
    }


@part("notifications", "recent_messages")
def to_send(reading: Reading) -> Mapping[str, Any]:
    """Read notifications that wait or are on their way, the longest due of each person first, and the
    messages of the last hour that count against their limits."""
    reader = reading.reader
    found = tuple(map(notification, reader.raw_rows(_UNSENT)))
    recent = reader.raw_rows(_RECENT, since=reading.now.time - HOUR) if found else ()
    return {
        "notifications": found,
        "recent_messages": tuple(
            RecentMessages(owner=owner, vo=vo, receiver=receiver, messages=int(many), first=first)
            for vo, owner, receiver, many, first in recent
        ),
    }


_ALL_COUNTS = select(_n.owner, _n.vo, func.count()).where(is_unsent).group_by(_n.vo, _n.owner)


@part("notification_counts")
def unsent(reading: Reading) -> Mapping[str, Any]:
    """Read how many notifications of each person wait."""
    rows = sorted(reading.reader.raw_rows(_ALL_COUNTS))
    return {
        "notification_counts": tuple(
            NotificationCount(owner=owner, vo=vo, waiting=int(many)) for owner, vo, many in rows
        )
    }
