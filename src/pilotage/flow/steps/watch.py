"""Move on records that waited too long, or that belong to a silent pilot (rules T)."""

import logging
from collections import defaultdict
from collections.abc import Iterator

from pilotage.flow.outside.left_results import take_due
from pilotage.flow.outside.removals import clear, remove_due
from pilotage.flow.restricting import end_lapsed
from pilotage.flow.runtime import Runtime
from pilotage.flow.step import Phase, Step, always
from pilotage.flow.task_cancellation import cancel
from pilotage.model.documents.decision import Committed, Decision, Move
from pilotage.model.documents.subjects import PILOT, QUEUE, TASK
from pilotage.model.documents.world import World
from pilotage.model.records.states import LIVE_PILOTS, PilotState
from pilotage.model.records.work import Pilot
from pilotage.model.values.phrases import plural
from pilotage.policies.watchdog import timeouts
from pilotage.policies.watchdog.timeouts import WATCH
from pilotage.store.worlds.watching import due_jobs, lapsed, late_pilots, waiting_results

log = logging.getLogger(__name__)


def _act(runtime: Runtime, world: World, decision: Decision, committed: Committed) -> None:
    """Remove the files of ended attempts, and end given-up pilots at their sites, because they may still
    start there.

    Cancel tasks with an ended lease, each with the policy for people's cancellations.
    """
    for queue, since in runtime.elements.closed_tunnels(world.federation, world.time):
        runtime.store.absences.note_closed(queue, since, world.time)
    clear(runtime, world, decision, committed)
    remove_due(runtime, world)
    take_due(runtime, world)
    for task in world.lapsed:
        try:
            cancel(runtime, task, "its lease is over: its submitter has fallen silent", WATCH)
        except Exception:
            log.exception("task %d cannot be cancelled after its lease", task, extra={"task": task})
    runtime.log_readers.prune(world.time, world.federation.logs)
    queues = {queue.name: queue for queue in world.federation.queues if queue.computing_element}
    pilots = {pilot.id: pilot for pilot in world.pilots}
    ended: dict[str, list[Pilot]] = defaultdict(list)
    for change, ids in zip(decision.changes, committed.accepted, strict=True):
        if isinstance(change, Move) and change.kind == "pilot":
            for pilot in (pilots[id_] for id_ in ids):
                if pilot.reference and pilot.queue in queues:
                    ended[pilot.queue].append(pilot)
    for name, given_up in ended.items():
        runtime.elements.cancel(queues[name], given_up)


def _idle(world: World) -> Iterator[str]:
    pilots = sum(pilot.state in LIVE_PILOTS for pilot in world.pilots)
    yield f"none is late of {plural(len(world.jobs), 'job')} and {plural(pilots, 'live pilot')}"


STEP = Step(
    name=WATCH,
    place=9,
    summary="Move on records that have waited too long, or that belong to a silent pilot.",
    reads=(
        *("absences", "queue_reports", "job_counts", "failures", "lacking_nodes", due_jobs, "tasks"),
        *(waiting_results, late_pilots, lapsed),
    ),
    prepare=end_lapsed,
    phases=always(Phase(actor=WATCH, decide=timeouts.watch, act=_act)),
    subjects=(TASK, PILOT, QUEUE),
    idle=_idle,
    wakes_on=frozenset({("pilot", PilotState.FINISHED), ("pilot", PilotState.FAILED)}),
)
