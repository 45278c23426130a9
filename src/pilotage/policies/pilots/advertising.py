"""Advertisements of native sites: the counts of their batch systems, and our part of them (M1, M2, M5)."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

from pilotage.model.documents.decision import Create, Decision
from pilotage.model.documents.world import World
from pilotage.model.records.advertisements import (
    COUNTS_EVERYBODY,
    Advertisement,
    Constant,
    NewAdvertisement,
)
from pilotage.model.records.observations import ServerReport
from pilotage.model.rules.site_limits import asked_sites
from pilotage.model.values.step_names import ADVERTISE


def due_sites(world: World) -> list[tuple[str, Advertisement | None]]:
    """Return the native sites that need a new advertisement (none yet, or a period old), with the current
    one.

    Skip a site that sends its own advertisements, even if it is silent: only the site knows its counts.
    """
    period = world.federation.brokerage.advertise_period
    standing = {advertisement.site: advertisement for advertisement in world.advertisements}
    sites = []
    for site in sorted({queue.site for queue in world.federation.queues}):
        advertisement = standing.get(site)
        if advertisement is None or (
            advertisement.source == "native" and world.time - advertisement.time >= period
        ):
            sites.append((site, advertisement))
    return sites


def advertise(world: World) -> Decision:
    """Return an advertisement for each native site that is due, from its batch systems' last reports.

    An advertisement has the time of the last answer (M2); before the first answer there is none. If a site's
    batch systems have not answered since its last advertisement, the site keeps that one, and matches nothing
    once it is too old. We cannot ask a site without computing elements, so it is advertised with our counts.
    """
    sites = {queue.name: queue.site for queue in world.federation.queues}
    polled = asked_sites(world.federation)
    reports: dict[str, list[ServerReport]] = defaultdict(list)
    for report in world.server_reports:
        if report.queue in sites and report.answered is not None:
            reports[sites[report.queue]].append(report)
    records = tuple(
        record
        for site, advertisement in due_sites(world)
        if (record := _advertisement(site, advertisement, reports[site], site in polled)) is not None
    )
    changes = (Create(records=records, cause="a period has passed"),) if records else ()
    return Decision(step=ADVERTISE, time=world.time, seed=world.seed, changes=changes)


def _advertisement(
    site: str, latest: Advertisement | None, reports: list[ServerReport], is_asked: bool
) -> NewAdvertisement | None:
    answered = max((report.answered or 0.0 for report in reports), default=None)
    if is_asked and (answered is None or (latest is not None and answered <= latest.time)):
        return None
    return NewAdvertisement(
        site=site,
        source="native",
        attributes=counted(reports),
        replaces=latest.number if latest else 0,
        answered=answered,
        pilots=sum(_pilot_counts(reports, lambda report: report.pilots)),
        submitting=sum(_pilot_counts(reports, lambda report: report.submitting)),
    )


def _latest(reports: list[ServerReport]) -> list[ServerReport]:
    """Return the latest report about each queue of a batch system (``scope``), and all reports without
    scope."""
    latest = {report.scope: report for report in sorted(reports, key=_age) if report.scope}
    return [*latest.values(), *(report for report in reports if not report.scope)]


def _pilot_counts(
    reports: list[ServerReport], count: Callable[[ServerReport], Mapping[str, int]]
) -> Iterator[int]:
    """Yield the number of our pilots in each count, but only pilots that are in the same answer.

    A pilot in another report of the scope may have ended before the jobs were counted, or started since.
    """
    scopes = {(report.queue, report.server): report.scope for report in reports}
    for report in _latest(reports):
        for queue, pilots in count(report).items():
            same = report.scope and scopes.get((queue, report.server)) == report.scope
            yield pilots if same or queue == report.queue else 0


def counted(reports: list[ServerReport]) -> dict[str, Constant]:
    """Return the counts of a site from its servers' reports, without counts that none of them reports."""
    counts: dict[str, Constant] = {}
    reports = _latest(reports)
    for name, field in (("Slots", "slots"), ("RunningJobs", "running"), ("PendingJobs", "waiting")):
        values = [value for report in reports if (value := getattr(report, field)) is not None]
        if values:
            counts[name] = sum(values)
    # Both or none: with half of its jobs a site would look free.
    if "RunningJobs" in counts and "PendingJobs" in counts:
        counts["CurrentJobs"] = counts["RunningJobs"] + counts["PendingJobs"]
        counts["CurrentSubmittingJobs"] = counts["PendingJobs"]
        counts[COUNTS_EVERYBODY] = all(report.everybody for report in reports)
    return counts


def _age(report: ServerReport) -> float:
    return report.answered or 0.0
