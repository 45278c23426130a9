"""What makes no progress for longer than is usual for its kind."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from pilotage.flow.calls.administration import servers
from pilotage.flow.calls.work import stuck
from pilotage.flow.runtime import Runtime
from pilotage.model.records.waiting_results import WaitingResults
from pilotage.model.values.phrases import moment, plural
from pilotage.server.api.edge.access import FOR_OPERATORS
from pilotage.server.api.edge.answers import answer, documented
from pilotage.server.api.edge.dependencies import PREFIX, TheRuntime
from pilotage.server.api.edge.measured_routes import MeasuredRoute
from pilotage.store import EndedPilot

router = APIRouter(prefix=f"{PREFIX}/stuck", tags=["health"], route_class=MeasuredRoute)


class StuckRecords(BaseModel):
    """Records of a kind that are in one state at one place for longer than usual. Times in s."""

    kind: Annotated[
        str, Field(description="Task, job, transfer, pilot, publication, notification, results, or loop.")
    ]
    state: Annotated[str, Field(description="The state that they do not leave.")]
    place: Annotated[str, Field(description="Queue, storage, share or catalogue; of a loop, its name.")]
    count: Annotated[
        int, Field(description="How many are beyond their limit; of a loop, the servers on which it fails.")
    ]
    oldest: Annotated[int, Field(description="The one that entered the state first; 0: a loop.")]
    task: Annotated[int, Field(description="The task of the oldest one; 0: of none.")]
    since: Annotated[float | None, Field(description="When that was, in s since 1970 UTC; null: a loop.")]
    usual: Annotated[float | None, Field(description="Within which most left it; null: too few did.")]
    limit: Annotated[float | None, Field(description="After which they count as stuck; null: a loop.")]
    told: Annotated[str, Field(description="What is usual, in words.")]
    reason: Annotated[str, Field(description="Why they do not go on.")]
    command: Annotated[str, Field(description="The command that mends it, or shows more.")]


class Stuck(BaseModel):
    """Stuck records, the worst first."""

    stuck: Annotated[list[StuckRecords], Field(description="By how far they exceed their limits.")]


@router.get("", dependencies=[FOR_OPERATORS], responses=documented(Stuck, 409))
def get_stuck(runtime: TheRuntime) -> Response:
    """What made no progress for longer than is usual for its kind, why, and what to do.

    What is usual comes from the newest records that ended, by kind, state and place, above a floor.
    """
    return answer(Stuck(stuck=shown_stuck(runtime)))


def shown_stuck(runtime: Runtime) -> list[StuckRecords]:
    """Return stuck records as operators see them, the worst first. Raises ``NoFederation``."""
    loops, results = map(_loop, servers.failing_loops(runtime)), _results(runtime)
    return [*loops, *results, *_ended_pilots(runtime), *map(_records, stuck.everything(runtime))]


def _loop(found: servers.FailingLoop) -> StuckRecords:
    where = f"{', '.join(found.servers)}: " if found.servers else ""
    return StuckRecords(
        kind="loop",
        state="failing" if found.servers else "missing",
        place=found.name,
        count=len(found.servers),
        oldest=0,
        task=0,
        since=None,
        usual=None,
        limit=None,
        told="every pass ends" if found.servers else "a live server runs it",
        reason=f"{where}{found.error}",
        command="pilotage servers" if found.servers else f"pilotage up --no-api --only {found.name}",
    )


def _results(runtime: Runtime) -> Iterator[StuckRecords]:
    """Yield results that could not be taken from a spool, by queue."""
    by_queue: dict[str, list[WaitingResults]] = defaultdict(list)
    for one in runtime.store.results_in_spools.everything():
        if one.problem:
            by_queue[one.queue].append(one)
    for queue, found in by_queue.items():
        yield StuckRecords(
            kind="results",
            state="waiting",
            place=queue,
            count=len(found),
            oldest=found[0].job,
            task=0,
            since=found[0].since,
            usual=None,
            limit=None,
            told="a server takes them from the spool at once",
            reason=found[0].problem,
            command=f"pilotage explain job:{found[0].job}",
        )


def _ended_pilots(runtime: Runtime) -> Iterator[StuckRecords]:
    """Yield running pilots with jobs whose batch job has ended, by queue."""
    by_queue: dict[str, list[EndedPilot]] = defaultdict(list)
    for one in runtime.store.queries.ended_pilots():
        by_queue[one.queue].append(one)
    for queue, found in by_queue.items():
        jobs, last = sum(one.jobs for one in found), max(one.sure_at for one in found)
        yield StuckRecords(
            kind="pilot",
            state="ended",
            place=queue,
            count=len(found),
            oldest=found[0].pilot,
            task=0,
            since=found[0].ended,
            usual=None,
            limit=None,
            told=f"{plural(jobs, 'job')} there go on elsewhere by {moment(last)} unless these pilots call",
            reason=f"their batch jobs ended: {found[0].reason}",
            command=f"pilotage explain pilot:{found[0].pilot}",
        )


def _records(found: stuck.ToldGroup) -> StuckRecords:
    more = {"task": found.task, "told": found.usual, "reason": found.reason, "command": found.command}
    return StuckRecords(**asdict(found.group), **more)
