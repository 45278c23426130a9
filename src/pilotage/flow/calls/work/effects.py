"""The effect of each verb on a task, or on one job of it."""

from pilotage.explain.comparison import WhatIf
from pilotage.flow import task_cancellation
from pilotage.flow.calls.work import steering
from pilotage.flow.calls.work.changes import Wanted, set_fields, set_preview
from pilotage.flow.calls.work.retry import Effect, retry, retry_preview
from pilotage.flow.calls.work.steering import Moved
from pilotage.flow.errors import NotNow
from pilotage.flow.runtime import Runtime
from pilotage.model.records.states import ENDED, JobState
from pilotage.model.rules.plain_states import job_clause
from pilotage.model.rules.verbs import CANCEL, RETRY, SET, Verb

_NOTHING = Wanted()
_STEERING = {"hold": steering.hold, "release": steering.release, "finish": steering.finish}


def do(
    runtime: Runtime, verb: Verb, who: str, task: int, job: int | None = None, edits: Wanted = _NOTHING
) -> Effect:
    """Apply a verb. Return how many jobs it moved, by their former state; none for a cancellation.

    Raises ``NoSuchTask``, ``BadDocument`` for changed fields, and ``NotNow`` with what would work instead.
    """
    if verb is RETRY:
        return retry(runtime, task, who, job, edits)
    if verb is SET:
        return Effect(set_fields(runtime, task, edits, who, job))
    if verb is CANCEL:
        if job:
            refuse_to_cancel(runtime, job)
        task_cancellation.cancel(runtime, task, "cancelled by a person", who, job)
        return Effect({})
    return Effect(_STEERING[verb.name](runtime, task, who))


def preview(runtime: Runtime, verb: Verb, task: int, job: int | None, edits: Wanted) -> tuple[Moved, WhatIf]:
    """Return how many jobs a retry or a change would take, and where they would go. Raises as ``do`` does."""
    if verb is RETRY:
        return retry_preview(runtime, task, job, edits)
    return set_preview(runtime, task, edits, job)


def refuse_to_cancel(runtime: Runtime, job: int) -> None:
    """Raise ``NotNow`` if there is nothing to cancel of a job."""
    details = runtime.store.queries.job(job)
    if details and (details.state in ENDED["job"] or details.state is JobState.MERGING):
        raise NotNow(f"job {job} {job_clause(details.state)}: nothing of it is left to cancel")
