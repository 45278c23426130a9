"""Advertisements of native sites: what their batch systems run, and what of it is ours (M1, M2, M5)."""

from collections import Counter, defaultdict

from pilotage.model.advertisements import Advertisement, Constant, NewAdvertisement
from pilotage.model.decision import Create, Decision
from pilotage.model.observations import ServerReport
from pilotage.model.states import JobState
from pilotage.model.step_names import ADVERTISE
from pilotage.model.world import World


def due(world: World) -> list[tuple[str, Advertisement | None]]:
    """The native sites whose advertisement is missing or a period old, each with the one that stands.

    A site that sends its own is left alone, also when it has fallen silent: nobody else knows its counts.
    """
    period = world.federation.brokerage.advertise_period
    standing = {told.site: told for told in world.advertisements}
    found = []
    for site in sorted({queue.site for queue in world.federation.queues}):
        told = standing.get(site)
        if told is None or (told.source == "native" and world.time - told.time >= period):
            found.append((site, told))
    return found


def advertise(world: World) -> Decision:
    """An advertisement of each native site whose turn it is, with what its batch systems last told."""
    sites = {queue.name: queue.site for queue in world.federation.queues}
    forwarded = forwarded_jobs(world)
    reports: dict[str, list[ServerReport]] = defaultdict(list)
    for report in world.server_reports:
        if report.queue in sites:
            reports[sites[report.queue]].append(report)
    records = tuple(
        NewAdvertisement(
            site=site,
            source="native",
            attributes=counted([*reports[site], *forwarded.get(site, ())]),
            replaces=told.number if told else 0,
        )
        for site, told in due(world)
    )
    changes = (Create(records=records, cause="a period has passed"),) if records else ()
    return Decision(step=ADVERTISE, time=world.time, seed=world.seed, changes=changes)


def forwarded_jobs(world: World) -> dict[str, list[ServerReport]]:
    """Report the jobs at other brokers by site: those that run there, and those that wait there (M5)."""
    sites = {queue.name: queue.site for queue in world.federation.queues if queue.forwards}
    found: dict[str, list[ServerReport]] = defaultdict(list)
    for queue, site in sites.items():
        jobs = Counter[JobState]()
        for count in world.job_counts:
            jobs[count.state] += count.jobs if count.queue == queue else 0
        waiting = jobs[JobState.SENT] + jobs[JobState.STARTING]
        running = jobs[JobState.RUNNING]
        found[site].append(ServerReport(queue=queue, server="", running=running, waiting=waiting))
    return found


def counted(reports: list[ServerReport]) -> dict[str, Constant]:
    """The counts of a site from what its servers told; what none of them told is left out.

    Where a batch system has more of our pilots than were recorded here, it is believed.
    """
    found: dict[str, Constant] = {}
    for name, field in (("Slots", "slots"), ("RunningJobs", "running"), ("PendingJobs", "waiting")):
        told = [value for report in reports if (value := getattr(report, field)) is not None]
        if told:
            found[name] = sum(told)
    # Both or none: half a count would be taken for a free site.
    if "RunningJobs" in found and "PendingJobs" in found:
        found["CurrentJobs"] = found["RunningJobs"] + found["PendingJobs"]
        found["CurrentSubmittingJobs"] = found["PendingJobs"]
    return found
