"""Where else the scouts of tasks could run: a broken place must not stop a whole task (F3)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from sqlalchemy import bindparam, select

from pilotage.model.records.failures import Failure
from pilotage.model.records.states import PilotState, TaskState
from pilotage.model.rules.failure_causes import Place
from pilotage.store.database.columns import has_state, is_state
from pilotage.store.database.rows import among
from pilotage.store.history.decisions import decisions, readable
from pilotage.store.pilots.table import pilots
from pilotage.store.reader import RecordReader
from pilotage.store.tasks.table import tasks

MOST_PILOTS = 500
"""Newest running pilots of these queues to read the nodes of."""

_d, _p = decisions.c, pilots.c
_SCOUTING = select(tasks.c.id).where(among(tasks.c.id, "ids"), has_state(tasks, TaskState.SCOUTING))
_NEWEST = (
    select(_d.time, _d.facts, _d.document)
    .where(_d.task == bindparam("task"), _d.moved.is_(True))
    .order_by(_d.id.desc())
    .limit(1)
)
_NODES = (
    select(_p.queue, _p.node)
    .where(among(_p.queue, "queues"), is_state(pilots, PilotState.RUNNING), _p.node != "")
    .order_by(_p.id.desc())
    .limit(MOST_PILOTS)
)


def possible(reader: RecordReader, failures: Mapping[int, Iterable[Failure]]) -> dict[int, frozenset[Place]]:
    """Return by task, for those with only scouts so far, where these could run: without a node, any of a
    queue.

    That is at the candidates of their last choice, and at nodes of other pilots where they failed.
    """
    scouting = [task for (task,) in reader.raw_rows(_SCOUTING, ids=sorted(failures))]
    if not scouting:
        return {}
    nodes: dict[str, set[Place]] = defaultdict(set)
    queues = sorted({failure.queue for task in scouting for failure in failures[task]})
    for queue, node in reader.raw_rows(_NODES, queues=queues):
        nodes[queue].add((queue, node))
    places: dict[int, frozenset[Place]] = {}
    for task in scouting:
        choices = readable(reader.connection, reader.rows(_NEWEST, task=task))
        candidates = {(queue, "") for choice in choices for queue in choice.candidates.queues}
        places[task] = frozenset(candidates.union(*(nodes[failure.queue] for failure in failures[task])))
    return places
