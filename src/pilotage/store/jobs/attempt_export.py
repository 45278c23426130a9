"""Pages of ended attempts for accounting elsewhere, each with its node, site, power and bytes read."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select

from pilotage.model.records.use import CANCELLED, CULPRITS
from pilotage.model.values.types import DESCRIBED
from pilotage.store.database.rows import among, raw_rows
from pilotage.store.jobs import ended_attempts
from pilotage.store.jobs.ended_attempts import NewAttempt, NumberedAttempt
from pilotage.store.pilots.table import pilots
from pilotage.store.queues.queues_then import QueueAt

_FIRST = select(func.min(ended_attempts.ended_attempts.c.id))
_NODES = select(pilots.c.id, pilots.c.node).where(among(pilots.c.id, "ids"))


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedAttempt:
    """An attempt that ended, or one whose outputs were lost later. Times in s since 1970 UTC."""

    __pydantic_config__ = DESCRIBED

    id: int
    """Its number. Later rows have larger ones."""
    job: int
    """The job."""
    attempt: int
    """The number of the attempt."""
    task: int
    """The task."""
    person: str
    """The owner of the task."""
    vo: str
    """The VO of the owner."""
    group: str
    """The group of the owner."""
    share: str
    """The global share."""
    queue: str
    """The queue."""
    site: str
    """The site of the queue; empty: the federation did not have the queue."""
    node: str
    """The machine; empty: unknown, or its pilot is archived."""
    cores: int
    """Cores that it asked for."""
    gpus: int
    """GPUs that it asked for."""
    memory: float
    """MB that it asked for; 0: none."""
    max_rss: float
    """MB that it used at most; 0: not reported."""
    started: float
    """When it started."""
    ended: float
    """When it ended, or was lost."""
    seconds: float
    """s that it ran."""
    cpu_seconds: float
    """s of CPU time; 0: not reported."""
    core_power: float
    """HS23 per core that its queue declared then; 10 if none."""
    read_bytes: int
    """Bytes of its inputs; 0 also if its job is archived."""
    written_bytes: int
    """Bytes of its outputs."""
    outcome: str
    """``finished``, ``failed`` or ``cancelled``; ``lost``: it had finished, and its outputs could not be
    stored. Such a row has the time that is lost, and is no further attempt."""
    cause: str
    """Why it is lost: the kind of the failure, ``cancelled`` or ``other``; empty: it ended well."""
    culprit: str
    """Whose fault it is, by the kind of the failure; empty: no failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptPage:
    """Some attempts in their order."""

    __pydantic_config__ = DESCRIBED

    attempts: tuple[EndedAttempt, ...]
    """The attempts. No later page has one of them, or one with a smaller number."""
    next: int
    """The number after which the next page begins."""
    more: bool
    """Whether there may be further ones now."""
    forgotten: int
    """The largest number that is deleted."""


def read(
    connection: Connection, queues: QueueAt, after: int, most: int, since: float, until: float
) -> AttemptPage:
    """Return up to ``most`` rows after a number, without those outside of a time (s since 1970 UTC)."""
    last = ended_attempts.added(connection)
    rows = ended_attempts.read(connection, after, last, most)
    page = [row for row in rows if since <= row.attempt.time < until]
    read_bytes = ended_attempts.bytes_read(connection, page)
    ids = sorted({row.attempt.pilot for row in page})
    nodes: dict[int, str] = dict(raw_rows(connection, _NODES, ids=ids)) if ids else {}
    first = connection.execute(_FIRST).scalar()
    return AttemptPage(
        attempts=tuple(_ended(row, queues, nodes, read_bytes) for row in page),
        next=rows[-1].id if rows else after,
        more=len(rows) == most,
        forgotten=0 if first is None else int(first) - 1,
    )


def _ended(
    row: NumberedAttempt, queues: QueueAt, nodes: dict[int, str], read_bytes: dict[int, int]
) -> EndedAttempt:
    attempt: NewAttempt = row.attempt
    site, power = queues(attempt.queue, attempt.time)
    same = ("job", "attempt", "task", "vo", "group", "share", "queue", "cores", "gpus", "memory", "max_rss")
    values: dict[str, Any] = {
        name: getattr(attempt, name) for name in (*same, "seconds", "cpu_seconds", "cause")
    }
    return EndedAttempt(
        **values,
        id=row.id,
        person=attempt.owner,
        site=site,
        node=nodes.get(attempt.pilot) or "",
        started=min(attempt.started, attempt.time),
        ended=attempt.time,
        core_power=power,
        read_bytes=read_bytes.get(attempt.job, 0),
        written_bytes=attempt.written,
        outcome=_outcome(attempt),
        culprit=CULPRITS.get(attempt.cause, ""),
    )


def _outcome(attempt: NewAttempt) -> str:
    if attempt.is_loss:
        return "lost"
    if not attempt.cause:
        return "finished"
    return CANCELLED if attempt.cause == CANCELLED else "failed"
