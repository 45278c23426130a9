"""Lines of text about a pilot's life, and about pilots that a waiting job could get (P10, P13)."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from pilotage.explain.history import Event
from pilotage.model.documents.remarks import Remark
from pilotage.model.records.states import WAITING_PILOTS, PilotState, State
from pilotage.model.records.unified_queues import PilotLimit
from pilotage.model.records.work import Pilot, Requirements
from pilotage.model.rules.site_limits import UNANSWERED, Bounds
from pilotage.model.values.phrases import moment, plural

SHOWN = 10
"""Most jobs, and waiting pilots, listed individually."""


def of_pilot(
    pilot: Pilot,
    events: Sequence[Event],
    jobs: Sequence[tuple[int, State]],
    *,
    has_credentials: bool = False,
) -> Iterator[str]:
    """Describe a pilot: why it was made, its jobs, and why it ended. ``jobs`` are the jobs that no later
    pilot took. ``has_credentials``: some owners have a credential at its computing element."""
    requirements = Requirements.from_text(pilot.requirements) if pilot.requirements else None
    yield f"pilot {pilot.id} at {pilot.queue}: {pilot.state}"
    size = f"{plural(pilot.cores, 'core')}, {pilot.memory:g} MB, {pilot.walltime:g} s"
    yield f"  {pilot.kind}, of {pilot.owner.name}: {size}"
    if requirements is not None:
        yield f"  made for work of {requirements.owner}" + (f": {pilot.reason}" if pilot.reason else "")
    yield f"  submitted {_submission_route(pilot)}"
    yield from _credential(pilot, has_credentials=has_credentials)
    for event in events:
        change = f"{event.source} to {event.target}" if event.source else str(event.target)
        yield f"  {moment(event.time)}  {change}: {event.cause}"
    if pilot.waits and pilot.state is PilotState.SUBMITTED:
        missing = "" if pilot.missing_since is None else f" (since {moment(pilot.missing_since)})"
        yield f"  waits there: {pilot.waits}{missing}"
    if pilot.lacks:
        yield f"  its node lacks {pilot.lacks}, which its work needs"
    yield f"  got {plural(pilot.matched, 'job')}"
    if jobs:
        named = ", ".join(f"{job} {state}" for job, state in jobs[:SHOWN])
        more = f" and {len(jobs) - SHOWN} more" if len(jobs) > SHOWN else ""
        yield f"  its jobs: {named}{more}"
    if pilot.matched > len(jobs):
        yield f"  {plural(pilot.matched - len(jobs), 'job')} of these later got other pilots, or were deleted"
    if pilot.state is PilotState.FINISHED and not pilot.matched:
        yield "  it ended without ever having had a job"
    if end := of_end(pilot):
        yield f"  {end.text}"
    if pilot.error:
        yield f"  error: {pilot.error}"


def of_end(pilot: Pilot) -> Remark | None:
    """Return a remark if the batch job of a running pilot has ended; it has the time when its jobs move
    elsewhere."""
    if pilot.state is not PilotState.RUNNING or not (pilot.ended_there_since and pilot.end_sure_at):
        return None
    return Remark(
        kind="fault",
        subject=f"pilot:{pilot.id}",
        text=f"the batch job of pilot {pilot.id} ended at {moment(pilot.ended_there_since)}; unless the "
        f"pilot calls, its jobs go on elsewhere at {moment(pilot.end_sure_at)}: {pilot.error}",
        mend="wait",
        since=pilot.ended_there_since,
        until=pilot.end_sure_at,
    )


def stays(seconds: float, wait: float) -> str:
    """Return how long a pilot without work stays, if a new one would wait that many s (E5)."""
    return f"stays for {seconds:.0f} s: a new one would wait {wait:.0f} s in the batch system"


def of_eligible(queue: str, pilots: Sequence[Pilot], time: float) -> Iterator[str]:
    """Yield the pilots at a job's queue that could take it, and how long pilots have waited there."""
    by_state: dict[PilotState, list[Pilot]] = defaultdict(list)
    for pilot in pilots:
        by_state[pilot.state].append(pilot)
    running = by_state[PilotState.RUNNING]
    waiting = by_state[PilotState.SUBMITTED]
    yield (
        f"pilots at {queue} that could take it: {len(running)} running, {len(waiting)} in the batch queue, "
        f"{len(by_state[PilotState.CREATED])} about to be submitted"
    )
    for pilot in sorted(waiting, key=lambda pilot: pilot.since)[:SHOWN]:
        reference = f" as {pilot.reference}" if pilot.reference else ""
        server = f" of {pilot.broker}" if pilot.broker else ""
        since = f"{moment(pilot.since)}, {time - pilot.since:.0f} s"
        reason = f": {pilot.waits}" if pilot.waits else ""
        yield f"  pilot {pilot.id} waits{reference}{server} since {since}{reason}"
    if len(waiting) > SHOWN:
        yield f"  and {len(waiting) - SHOWN} more"
    if not pilots:
        yield "  `pilotage plan provision` shows the director's plan"


def of_full(subject: str, limits: Iterable[PilotLimit], live: Sequence[Pilot]) -> Iterator[Remark]:
    """Yield a remark for each limit reached by ``live`` pilots that cannot take a waiting job (P4)."""
    for limit in limits:
        pilots = [pilot for pilot in live if pilot.queue in limit.queues]
        if len(pilots) < limit.pilots:
            continue
        have = " and ".join(limit.queues) + (" together have" if limit.queues[1:] else " has")
        private = sum(pilot.kind == "private" for pilot in pilots)
        exclusive = f", {private} of them for their owners' jobs alone" if private else ""
        reason = f"{have} {plural(len(pilots), 'pilot')}{exclusive}, and may have {limit.pilots} (max_pilots)"
        yield _none_asked_for(subject, f"{reason}; one is requested when one of these has ended", "P4")


def of_throttled(subject: str, site: str, bounds: Bounds, pilots: Sequence[Pilot]) -> Iterator[Remark]:
    """Yield the limits of a site that our pilots have reached; jobs of others there are subtracted (M5,
    M8)."""
    if bounds is UNANSWERED:
        reason = f"the batch system of {site} has not answered yet, so the jobs of others there are unknown"
        yield _none_asked_for(subject, reason, "M8")
        return
    waiting = sum(pilot.state in WAITING_PILOTS for pilot in pilots)
    slots = sum(pilot.slots for pilot in pilots)
    there = plural(len(pilots), "pilot") + " of ours there"
    there += f" with {slots} slots" if slots != len(pilots) else ""
    for limit, bound, count, has, until in (
        ("max_jobs", bounds.jobs, slots, there, "ended"),
        (
            "max_submitting_jobs or max_pending_jobs",
            bounds.submitting,
            waiting,
            f"{plural(waiting, 'pilot')} of ours in its batch queues",
            "started",
        ),
    ):
        if bound is not None and count >= bound:
            again = f"one of these has {until}" if count else "it leaves more"
            reason = f"site {site} has {has} and its {limit} leaves room for {bound}"
            yield _none_asked_for(subject, f"{reason}; one is requested when {again}", "M5")


def _none_asked_for(subject: str, reason: str, rule: str) -> Remark:
    text = f"no pilot can be requested: {reason}"
    return Remark(kind="wait", subject=subject, text=text, rule=rule, mend="wait")


def _credential(pilot: Pilot, *, has_credentials: bool) -> Iterator[str]:
    if pilot.credential:
        yield f"  with the credential of {pilot.credential}"
    elif has_credentials:
        yield "  with the common credential"


def _submission_route(pilot: Pilot) -> str:
    parts = [
        f"to {pilot.element}" if pilot.element else "",
        f"at server {pilot.broker}" if pilot.broker else "",
        f"by submit pool {pilot.submit_pool}" if pilot.submit_pool else "",
        f"as {pilot.reference}" if pilot.reference else "",
    ]
    return " ".join(part for part in parts if part) or "by another system"
