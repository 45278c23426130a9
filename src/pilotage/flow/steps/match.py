"""Give pilots that ask the jobs with the highest claim (P13). Pilots call this step; it has no loop."""

from collections.abc import Iterator, Sequence

from pilotage.flow.brokerages import Brokerages
from pilotage.flow.step import Phase, Step
from pilotage.model.documents.world import World
from pilotage.model.records.states import LIVE_PILOTS, JobState
from pilotage.model.values.step_names import MATCH


def _phases(_: World, __: Brokerages) -> Sequence[Phase]:
    # This imports numpy, which a server without work does not need.
    from pilotage.policies.pilots import matcher

    return (Phase(actor=MATCH, decide=matcher.match),)


def _idle(world: World) -> Iterator[str]:
    if not world.requests:
        yield "no pilot asks"
    live = {pilot.id for pilot in world.pilots if pilot.state in LIVE_PILOTS}
    if gone := sorted({request.pilot for request in world.requests} - live):
        yield f"not alive: {', '.join(f'pilot {pilot}' for pilot in gone)}"
    if not world.levels and not any(job.state is JobState.ACTIVATED for job in world.jobs):
        yield "no job is activated"


STEP = Step(
    name=MATCH,
    place=7,
    summary="Hand pilots that ask the jobs of the highest claim.",
    requested_fields=frozenset(
        {"requests", "pilots", "levels", "jobs", "job_counts", "failures", "candidacies", "advertisements"}
        | {"queue_reports", "tasks", "files", "replicas", "failed_deliveries", "borrowings"}
    ),
    phases=_phases,
    idle=_idle,
)
