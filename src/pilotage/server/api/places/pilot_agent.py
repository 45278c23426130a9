"""Calls of pilots: fetch work, report on it, end. A pilot's token reaches nothing else (P9)."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Header, HTTPException, Response
from pydantic import Field

from pilotage.adapters.computing.agent_file import agent_file
from pilotage.agent import wire
from pilotage.agent.files.spool_wire import CourierOrder
from pilotage.agent.wire import HEARD, Enrolled, MatchAnswer, PayloadFiles, Specification, Stops
from pilotage.flow.attempt_logs import AttemptLogs, Log
from pilotage.flow.calls.pilots import couriers, enrol, match, pilot_end, report
from pilotage.flow.runtime import Runtime
from pilotage.model.documents.world import Report
from pilotage.model.records.logs import KeptLog, LogKey
from pilotage.model.records.work import Count, Megabytes, Seconds
from pilotage.model.values.types import FINITE, StoredInteger, Whole
from pilotage.ports.computing import MOST_MANIFEST, LeftBehind
from pilotage.server.api.edge.access import FOR_AGENTS, Enrolling, PilotCredential, PilotId
from pilotage.server.api.edge.answers import answer, documented, documented_bytes
from pilotage.server.api.edge.bodies import RequestBody, bounded
from pilotage.server.api.edge.dependencies import PREFIX, Id, Text, TheRuntime, TheStore
from pilotage.server.api.edge.measured_routes import MeasuredRoute
from pilotage.server.api.edge.plain_routes import FrequentCall, Heard, plain_route

router = APIRouter(prefix=f"{PREFIX}/pilot", tags=["pilot"], route_class=MeasuredRoute)

ZIPAPP = "application/zip"
Attempt = tuple[StoredInteger, StoredInteger]
MOST_HELD = 100_000
"""Most attempts that one pilot holds: the most slots of a pilot."""

MOST_REPORTS = 10_000
"""Most reports in one call."""

_AGENT = re.compile(r"pilotage-agent/([0-9A-Za-z.+-]{1,40})")

Batch = Annotated[Whole, Field(ge=1, le=10_000)]


class Enrolment(RequestBody):
    """A random secret of the agent, which lets it repeat its first call."""

    nonce: Annotated[str, Field(min_length=32, max_length=128, pattern=r"^[0-9A-Za-z_-]+$")]


Word = Annotated[str, Field(max_length=100, pattern=r"^[^\x00-\x1f]*$")]
Words = Annotated[tuple[Word, ...], Field(max_length=256)]
BOUNDS = {int: Count, float: Seconds, str: Word, tuple[str, ...]: Words}


Node = bounded(wire.Node, BOUNDS, memory=Megabytes, disk=Megabytes, machine_memory=Megabytes)


_Offer: Any = bounded(
    wire.Offer,
    BOUNDS,
    memory=Megabytes,
    max_jobs=Batch,
    containment=Annotated[str, Field(max_length=40, pattern=r"^[a-z-]*$")],
    node=Annotated[str, Field(max_length=100, pattern=r"^[A-Za-z0-9._-]*$")],
    gpus=Annotated[Whole, Field(ge=0, le=10_000)],
    found=Node | None,
)


class Offer(_Offer):  # type: ignore[misc]
    """What a pilot has free, and the most jobs that it would take."""


class Reports(RequestBody):
    """Every attempt that the pilot has, reports on some of them in order, and logs."""

    holding: Annotated[tuple[Attempt, ...], Field(max_length=MOST_HELD)] = ()
    reports: Annotated[tuple[Report, ...], Field(max_length=MOST_REPORTS)] = ()
    logs: Annotated[tuple[AttemptLogs, ...], Field(max_length=MOST_REPORTS)] = ()
    own_log: Log | None = None


class Reason(RequestBody):
    """Why a pilot ends, its own log, and whether no job can run on its machine as it is."""

    reason: Text
    own_log: Log | None = None
    unfit: bool = False


class SealedManifest(RequestBody):
    """What a pilot left of an attempt in its site's spool."""

    place: Annotated[
        str,
        Field(
            max_length=300,
            pattern=r"^[^/\x00-\x1f]*[^/.\x00-\x1f]/left/[\w+-][\w.+-]*/\d+\.\d+$",
            description="its folder, from the name of the spool's own folder on",
        ),
    ]
    days: Annotated[float, Field(gt=0, le=365, description="for which the spool keeps it"), FINITE]
    seal: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="the pilot's seal of the manifest")]
    manifest: Annotated[str, Field(max_length=MOST_MANIFEST, description="report, files and logs, as JSON")]


@router.post("/enrol", responses=documented(Enrolled, 410))
def post_enrol(
    body: Enrolment, enrolling: Enrolling, runtime: TheRuntime, user_agent: Annotated[str, Header()] = ""
) -> Response:
    """Exchange the token from a pilot's order for the pilot's own.

    This happens once. The same agent, by its nonce, gets the same answer again. Any other is refused (403).
    The header ``User-Agent: pilotage-agent/VERSION`` has the agent's version.
    """
    header = _AGENT.fullmatch(user_agent)
    agent = header[1] if header else ""
    return answer(enrol.enrol(runtime, enrolling.pilot, enrolling.token, body.nonce, agent))


@router.post("/match", responses=documented(MatchAnswer, 410))
def post_match(offer: Offer, pilot: PilotId, runtime: TheRuntime) -> Response:
    """Fetch the jobs with the highest claim among all that fit the free resources (P13).

    403 also if the pilot's queue requires contained payloads and the pilot cannot contain them.
    """
    return answer(match.match(runtime, pilot, **offer.model_dump()))


@router.post("/report", responses=documented(Stops, 410))
def post_report(
    body: Reports,
    caller: PilotCredential,
    pilot: PilotId,
    runtime: TheRuntime,
    newest_answer: Annotated[
        Heard | None, Header(alias=HEARD, description="The `time` of the newest answer that the pilot knows.")
    ] = None,
) -> Response:
    """Report on attempts. The same call is the pilot's heartbeat.

    The header ``Pilotage-Heard`` has the ``time`` of the newest answer that the pilot knows. So a call that
    arrives late does not count for jobs that the pilot got since.
    """
    enrol.renew(runtime, pilot, caller.expires)
    reports = [
        _storable(attempt_report) if "\0" in attempt_report.error else attempt_report
        for attempt_report in body.reports
    ]
    logs = [log for attempt in body.logs for log in attempt.kept_logs()]
    if pilot_log := _agent_log(body.own_log, pilot):
        logs.append(pilot_log)
    stop = report.report(runtime, pilot, body.holding, reports, logs, newest_answer)
    return _stops(runtime, pilot, body.holding, stop)


def answer_heartbeats(runtime: Runtime, calls: Sequence[FrequentCall]) -> list[Response | None]:
    """Answer reports without news together.

    None for a pilot that does not hold what it should, and for one that renews its credential: the others
    would wait for that commit.
    """
    are_alike = report.beat(runtime, [(pilot, body.holding) for body, _, pilot in calls])
    return [
        _stops(runtime, pilot, body.holding, ())
        if is_alike and not enrol.is_due(runtime, caller.expires)
        else None
        for (body, caller, pilot), is_alike in zip(calls, are_alike, strict=True)
    ]


def _stops(runtime: Runtime, pilot: int, holding: Sequence[Attempt], stop: Sequence[Attempt]) -> Response:
    now = runtime.clock()
    read, read_own = runtime.log_readers.read(pilot, holding, now)
    pace = runtime.idle_timeouts.pace(runtime.store.last_federation(), now)
    return answer(Stops(tuple(stop), tuple(read), read_own, pace, now))


PLAIN_ROUTES = {
    f"{router.prefix}/match": plain_route(
        Offer, lambda offer, _, pilot, runtime, __: post_match(offer, pilot, runtime)
    ),
    f"{router.prefix}/report": plain_route(
        Reports, post_report, lambda body: not (body.reports or body.logs or body.own_log)
    ),
}
"""Routes that pilots call most, by path; each is a POST."""


def _agent_log(log: Log | None, pilot: int) -> KeptLog | None:
    return log.kept_log(LogKey(kind="pilot", record=pilot)) if log and log.stream == "agent" else None


def _storable(attempt_report: Report) -> Report:
    """Return the report without the one character that PostgreSQL's text cannot store."""
    return replace(attempt_report, error=attempt_report.error.replace("\0", ""))


@router.post("/end", status_code=204, responses=documented(None, 410))
def post_end(body: Reason, pilot: PilotId, runtime: TheRuntime) -> Response:
    """Report that nothing runs, and that the pilot ends."""
    pilot_end.end(runtime, pilot, body.reason, _agent_log(body.own_log, pilot), body.unfit)
    return Response(status_code=204)


@router.post("/left", responses=documented(CourierOrder, 410))
def post_left(body: SealedManifest, pilot: PilotId, runtime: TheRuntime) -> Response:
    """Ask what to do with results that another pilot left in the spool (P7).

    The pilot stores them with the `order`, or removes them if they are `unwanted`. An empty answer: neither.
    """
    results = LeftBehind(place=body.place, manifest=f"{body.seal}\n{body.manifest}", days=body.days)
    return answer(couriers.take(runtime, pilot, results))


@router.post("/left/{job}/{attempt}", status_code=204, responses=documented(None, 404, 410))
def post_delivered(job: Id, attempt: Id, pilot: PilotId, runtime: TheRuntime) -> Response:
    """Report that all outputs of an attempt that another pilot left are stored."""
    if not couriers.delivered(runtime, pilot, job, attempt):
        raise HTTPException(404, f"the pilot does not deliver attempt {attempt} of job {job}")
    return Response(status_code=204)


@router.get("/payload/{task}", responses=documented(PayloadFiles, 404, 410))
def get_payload(task: Id, pilot: PilotId, store: TheStore) -> Response:
    """The payload files of a task, for a pilot that holds a job of it."""
    files = store.queries.payload_files(task, pilot)
    if files is None:
        raise HTTPException(404, f"the pilot holds no job of task {task}")
    return answer(PayloadFiles(files))


@router.get("/specification/{job}", responses=documented(Specification, 404, 410))
def get_specification(job: Id, pilot: PilotId, runtime: TheRuntime) -> Response:
    """The full description of the task of a job that the pilot holds, for forwarding the job."""
    specification = match.specification(runtime, job, pilot)
    if specification is None:
        raise HTTPException(404, f"the pilot does not hold job {job}")
    return answer(specification)


@router.get(
    "/agent.pyz",
    dependencies=[FOR_AGENTS],
    response_class=Response,
    responses=documented_bytes(media_type=ZIPAPP),
)
def get_agent() -> Response:
    """Fetch the pilot agent as one file, which Python 3.9 or newer runs."""
    return Response(agent_file(), media_type=ZIPAPP)
