"""Notifications for people: the newest of a person or of all, and those of a task."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, func, select

from pilotage.model.records.life import LifeInAttempts
from pilotage.model.records.notifications import Notification, NotificationTopic
from pilotage.model.records.states import NotificationState
from pilotage.model.values.identity import Identity
from pilotage.store.database.engine import Database
from pilotage.store.tables.notifications import NOTIFICATION_COLUMNS, notification, notifications
from pilotage.store.views.job_counts import of_query
from pilotage.store.views.keyset import ListOrder, ListPage, total_of

_n = notifications.c
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

    def newest(
        self, person: Identity | None, task: int, most: int, after: str = ""
    ) -> ListPage[NotificationView]:
        """Return the newest notifications of a person (None: of all), of one task unless it is 0.

        Raises ``BadCursor``.
        """
        conditions = [] if person is None else [_n.owner == person.name, _n.vo == person.vo]
        conditions += [_n.task == task] if task else []
        counting = select(_n.state, func.count()).where(*conditions).group_by(_n.state)
        query = select(*NOTIFICATION_COLUMNS).where(*conditions, *_ORDER.after(_ORDER.position(after)))

        def read(connection: Connection) -> ListPage[NotificationView]:
            counts = of_query(connection, counting, NotificationState)
            rows, following = _ORDER.read(connection, query, most)
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
        return {NotificationState(state): (int(many), error, wake_at) for state, many, error, wake_at in rows}


def _view(one: Notification) -> NotificationView:
    names = NotificationView.__dataclass_fields__
    return NotificationView(**{name: getattr(one, name) for name in names})
