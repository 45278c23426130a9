"""The state of a pilot, derived from its Job and pod."""

from typing import Any

from pilotage.adapters.computing.kubernetes.objects import CONTAINER
from pilotage.ports.computing import Excess, PilotStatus

STUCK = ("InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError", "CreateContainerError")
"""Reasons of a container that waits for a person to mend something."""

END_DOUBT = 600.0
"""s of silence after which a pilot has ended if its Job failed without an end of its container: its node may
be cut off."""

LONGEST = 500
"""Most characters of a reason."""


def job_status(job: Any, pod: Any) -> PilotStatus:
    """Return the status of a pilot from its Job and its pod. Either may be missing."""
    if job is None:
        reason = "its Job is not there: deleted, or ended a day ago"
        return PilotStatus(state="unknown", reason=reason, missing=True)
    conditions = [entry for entry in job.status.conditions or () if entry.status == "True"]
    terminated = _container(pod, "terminated")
    for condition in conditions:
        if condition.type in ("Complete", "Failed"):
            failed = _line(condition.reason, condition.message) if condition.type == "Failed" else ""
            details = _line(terminated.reason, terminated.message) if terminated and failed else _evicted(pod)
            code = terminated.exit_code if terminated else None
            excess = _excess(condition.reason, terminated)
            is_seen = terminated is not None or not failed or excess
            doubt = 0 if is_seen else END_DOUBT
            return PilotStatus(
                state="ended", reason=details or failed, exit_code=code, excess=excess, end_doubt=doubt
            )
    running = _container(pod, "running")
    if not running and terminated and _others_run(pod):
        return PilotStatus(
            state="ended",
            reason="it has ended, but other containers of its pod still run",
            exit_code=terminated.exit_code,
            excess=_excess(None, terminated),
        )
    if running or job.metadata.deletion_timestamp:
        return PilotStatus(state="running", reason="" if running else "its Job is being deleted")
    if suspended := [condition for condition in conditions if condition.type == "Suspended"]:
        words = _line(suspended[0].reason, suspended[0].message)
        return PilotStatus(
            state="waiting", reason=f"its Job is suspended by a queue of the cluster ({words})"
        )
    waiting = _container(pod, "waiting")
    stuck = waiting is not None and waiting.reason in STUCK
    return PilotStatus(state="stuck" if stuck else "waiting", reason=_why_it_waits(pod))


def _excess(failed: str | None, terminated: Any) -> Excess:
    if failed == "DeadlineExceeded":
        return "walltime"
    return "memory" if terminated and terminated.reason == "OOMKilled" else ""


def _why_it_waits(pod: Any) -> str:
    if pod is None:
        return "it has no pod yet"
    if waiting := _container(pod, "waiting"):
        return _line(waiting.reason, waiting.message)
    conditions = [
        condition
        for condition in pod.status.conditions or ()
        if condition.status == "False" and condition.message
    ]
    return _line(conditions[0].reason, conditions[0].message) if conditions else ""


def _evicted(pod: Any) -> str:
    """Return why a node evicted a pod: the container's state may not have the reason."""
    return _line(pod.status.reason, pod.status.message) if pod is not None else ""


def _container(pod: Any, state: str) -> Any:
    """Return the details of the pilot's container if it is in this state, else None.

    A cluster may add other containers to each pod.
    """
    statuses = (pod.status.container_statuses or ()) if pod is not None else ()
    return next(
        (getattr(status.state, state) for status in statuses if status.state and status.name == CONTAINER),
        None,
    )


def _others_run(pod: Any) -> bool:
    return any(status.state and status.state.running for status in pod.status.container_statuses)


def _line(*parts: str | None) -> str:
    text = " ".join(": ".join(part for part in parts if part).split())
    return text if len(text) <= LONGEST else f"...{text[3 - LONGEST :]}"
