"""The ClassAd of similar jobs: the requests of their task, and its requirements for a site (M3, M4)."""

from collections.abc import Mapping
from dataclasses import dataclass

from pilotage.model.records.advertisements import Constant
from pilotage.model.records.spec import TaskSpec
from pilotage.model.values.classad import AttributeReference, ClassAdError, Subexpression, read
from pilotage.policies.brokerage.engine.job_groups import MEGABYTE, Group
from pilotage.policies.brokerage.engine.site_ads import written


@dataclass(frozen=True, slots=True)
class JobAd:
    """The ad of similar jobs: attributes by name, parts of their Requirements, and their Rank."""

    attributes: Mapping[str, Constant]
    parts: tuple[Subexpression, ...]
    rank: Subexpression | None


def job_ad(group: Group) -> JobAd:
    """Return the ad of a group of similar jobs."""
    spec, owner = group.spec, group.task.owner
    attributes: dict[str, Constant] = {
        "MyType": "Job",
        "Owner": owner.name,
        "VO": owner.vo,
        "Group": owner.group,
        "TaskName": spec.name,
        "JobKind": group.kind,
        "Share": group.share,
        "Priority": group.priority,
        "ProcessingType": spec.processing_type,
        "WorkingGroup": spec.working_group,
        "Workflow": spec.workflow,
        "RequestCpus": max(1, spec.cores),
        "RequestGpus": spec.gpus_used,
        "RequestMemory": float(spec.memory),
        "RequestWalltime": float(spec.walltime),
        "InputFiles": sum(files for _, files, _ in group.inputs),
        "InputMegabytes": sum(total for _, _, total in group.inputs) / MEGABYTE,
    }
    return JobAd(attributes, _parts(spec), _rank(spec.site_rank))


def _parts(spec: TaskSpec) -> tuple[Subexpression, ...]:
    """Return the parts of the job's Requirements: a list of stations, and the user's expression. An invalid
    expression is never true (M3)."""
    try:
        requirements = read(spec.site_requirements).parts if spec.site_requirements else ()
    except ClassAdError:
        # Submission refuses it. If another version of Pilotage stored it, it must not match every site.
        requirements = read("false").parts
    return (_stations(spec.stations), *requirements) if spec.stations else requirements


def _stations(names: tuple[str, ...]) -> Subexpression:
    text = " || ".join(f"member({written(name)}, TARGET.StationNames)" for name in names)
    return Subexpression(text, text, frozenset([AttributeReference(True, "stationnames")]), None)


def _rank(text: str) -> Subexpression | None:
    try:
        return read(text).whole if text else None
    except ClassAdError:
        return None
