"""Reasons of a job's second choice: the decisions of the broker that it was forwarded to (M1)."""

from collections.abc import Iterable

from pilotage.flow.runtime import Runtime
from pilotage.model.documents.decision import Choice
from pilotage.ports.adapters import AdapterError
from pilotage.ports.computing import Forwarding
from pilotage.store import JobDetails


def explained(runtime: Runtime, job: JobDetails) -> list[str]:
    """Return the other broker's decisions about a job's last attempt; nothing if no other broker chooses.

    This asks the other broker now. If it has forgotten them, or does not answer, the lines have that instead.
    """
    federation = runtime.store.federation()
    queue = next((queue for queue in federation.queues if queue.name == job.queue), None)
    pilot = runtime.store.queries.pilot(job.pilot) if job.pilot is not None else None
    if queue is None or pilot is None or queue.computing_element is None:
        return []
    try:
        adapter = runtime.elements.adapter(queue, pilot.broker)
        if not isinstance(adapter, Forwarding):
            return []
        lines = adapter.explained(f"{federation.name}:{job.id}.{job.attempt}")
    except (AdapterError, ValueError, OSError) as error:
        lines = [f"what it decided there cannot be read: {error}"]
    return [f"forwarded by queue {queue.name}:", *(f"  {line}" for line in lines)]


def hints(runtime: Runtime, choices: Iterable[Choice]) -> list[str]:
    """Return where to find the second choice, for each queue of these choices that forwards."""
    forwarding = {queue.name for queue in runtime.store.federation().queues if queue.forwards}
    jobs = {queue: choice.jobs[0] for choice in choices for queue in forwarding & choice.placed.keys()}
    return [
        f"{queue} forwards to another broker: pilotage explain job:{job} tells what that decided"
        for queue, job in sorted(jobs.items())
    ]
