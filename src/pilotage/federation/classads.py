"""Check ClassAd expressions, and what operators add to their sites' advertisements (M2, M3, M4)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pilotage.federation.faults import Fault, Path
from pilotage.model.records.spec import TaskSpec

if TYPE_CHECKING:
    from pilotage.model.records.federation import Federation

_REMEDY = "see the how-to of matchmaking"


def task_faults(spec: TaskSpec) -> Iterator[Fault]:
    """Yield a task's expressions that cannot be parsed, or that might never end."""
    for name in ("site_requirements", "site_rank"):
        if text := getattr(spec, name):
            yield from _unreadable((name,), text, of_site=False)


def federation_faults(federation: "Federation") -> Iterator[Fault]:
    """Yield the same faults of sites, and attributes that no advertisement can have."""
    from pilotage.model.records import advertisements

    for at, site in enumerate(federation.sites):
        if site.requirements:
            yield from _unreadable(("sites", at, "requirements"), site.requirements, of_site=True)
        for name, problem in advertisements.faults(site.attributes):
            yield Fault(("sites", at, "attributes", name), problem, _REMEDY)
        if site.throttle == "current" and site.max_jobs is None:
            message = "compares CurrentJobs with MaxJobs, but max_jobs is missing"
            yield Fault(("sites", at, "throttle"), message, "give max_jobs")


def _unreadable(path: Path, text: str, of_site: bool) -> Iterator[Fault]:
    # Few tasks have expressions.
    from pilotage.model.values import classad

    try:
        classad.read(text, of_site)
    except classad.ClassAdError as error:
        yield Fault(path, str(error), _REMEDY)
