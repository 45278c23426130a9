"""Whether a queue takes part, and works: B1 to B4, B9, B26, B30."""

import numpy as np

from pilotage.model.records.states import JobState
from pilotage.policies.brokerage.engine.check import NEVER, Check, Verdict, check
from pilotage.policies.brokerage.engine.guards import status, unified
from pilotage.policies.brokerage.engine.queue_columns import QueueColumns
from pilotage.policies.brokerage.engine.task_columns import TaskColumns

INACTIVE_AFTER = 2 * 3600.0
NO_PILOTS_AFTER = 3 * 3600.0
NO_PILOTS_AFTER_OTHERS = 600.0
_A_DAY = "24 hours pass since it was first skipped there"


@check("B1", "test queue", "user", reads=("named",), lifted_by="name the queue in the task")
def test_queue(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Accept all queues except those with "test" in the name, unless the task names its queues."""
    return Verdict(~tasks.named & queues.test, "no test queue", queues.names)


@check(
    "B2",
    "not named by the task",
    "user",
    reads=("preassignment", "gathered"),
    lifted_by="name other queues in the task",
)
def preassignment(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Accept only the queues that the task names, if it names any."""
    named = tasks.preassigned[tasks.preassignment[:, 0]]
    return Verdict(
        (tasks.preassignment > 0) & ~tasks.gathered & ~named, "a queue that the task names", queues.names
    )


@check("B3", "merge at the input", "wait", reads=("preassignment", "gathered"), lifted_by=_A_DAY)
def merge_at_the_input(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Merge jobs go to queues with most of their input at the storage, until they have been skipped for 24
    h."""
    if not tasks.gathered.any():
        return NEVER
    home = tasks.preassigned[tasks.preassignment[:, 0]]
    return Verdict(tasks.gathered & ~home, "a queue with most of the input", queues.site_names)


@check("B4", "status", "operator", reads=("preassignment", "named"), lifted_by="the task names them")
def waived_status(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Find queues that B4 would refuse if the task had not named them.

    The choice shows them as waived.
    """
    named = tasks.preassigned[tasks.preassignment[:, 0]]
    return Verdict(tasks.named & named & ~queues.online & ~queues.draining, "online", queues.status)


@check(
    "B9",
    "inactive",
    "wait",
    reads=("high", "scout", "merge", "premerged"),
    unit="s without a start",
    lifted_by="a job starts there",
)
def inactive(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Refuse queues where activated jobs have waited for 2 h and none has started since.

    That includes queues where no job ever started.
    """
    applies = tasks.high | tasks.scout | tasks.merge | tasks.premerged
    live = queues.live
    # fmax ignores NaN: without any start, the queue has been idle since its oldest job was activated.
    since = np.where(np.isnan(live.activated_since), np.nan, np.fmax(live.last_start, live.activated_since))
    idle = live.time - since
    waiting = live.jobs[JobState.ACTIVATED] > 0
    return Verdict(applies & waiting & (idle > INACTIVE_AFTER), INACTIVE_AFTER, idle)


@check("B26", "pilots", "wait", unit="s since last pilot", lifted_by="a pilot of the queue reports")
def pilots(_: TaskColumns, queues: QueueColumns) -> Verdict:
    """Refuse queues without a pilot's call for 3 h, or ever, unless Pilotage starts the pilots there."""
    silent = queues.live.time - queues.live.last_pilot
    # Not `silent > ...`: NaN means that no pilot ever called, and must refuse.
    refused = ~queues.own_pilots & ~(silent <= NO_PILOTS_AFTER)
    return Verdict(refused[None, :], NO_PILOTS_AFTER, silent)


@check(
    "B26",
    "first pilots",
    "wait",
    unit="s since the first submission",
    lifted_by="a pilot of the queue calls; pilotage queues test sends one",
)
def first_pilots(_: TaskColumns, queues: QueueColumns) -> Verdict:
    """Refuse queues where no pilot ever called, 3 h after Pilotage first submitted one.

    Ten minutes are enough if as many pilots that were submitted to other queues since have called. A day
    after the last submission, such a queue counts as untried again.
    """
    limit = np.where(queues.live.calls_elsewhere, NO_PILOTS_AFTER_OTHERS, NO_PILOTS_AFTER)
    waited = queues.live.time - queues.live.first_submission
    never_called = queues.own_pilots & np.isnan(queues.live.last_pilot)
    return Verdict((never_called & (waited > limit))[None, :], limit[None, :], waited)


@check(
    "B30",
    "fast rebrokerage",
    "wait",
    reads=("departures",),
    lifted_by="a pilot of the queue calls",
)
def fast_rebrokerage(tasks: TaskColumns, _: QueueColumns) -> Verdict:
    """Refuse queues that fast rebrokerage took the jobs from, until a pilot has called there."""
    if len(tasks.departure_table) == 1:
        return NEVER
    refused = tasks.departure_table[tasks.departures[:, 0]]
    return Verdict(refused, "a queue where a pilot has called since the job left it", "none has")


@check("B26", "own pilots", "operator", lifted_by="pilots can be started there again")
def own_pilots(_: TaskColumns, queues: QueueColumns) -> Verdict:
    """Refuse queues where Pilotage cannot start pilots now: no adapter, a pause, or recent failures of all
    pilots."""
    refused = queues.own_pilots & queues.live.no_pilots
    return Verdict(refused[None, :], "pilots that can be started", queues.live.pilots_problem)


CHECKS: tuple[Check, ...] = (
    test_queue,
    preassignment,
    merge_at_the_input,
    unified,
    status,
    inactive,
    pilots,
    first_pilots,
    own_pilots,
    fast_rebrokerage,
)
