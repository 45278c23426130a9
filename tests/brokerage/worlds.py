"""Small worlds in which everything fits, to change one thing at a time."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pilotage.brokerage.production import Production
from pilotage.model.decision import Choice, Decision, Refusal
from pilotage.model.federation import (
    BrokerageConstants,
    ComputingElement,
    Federation,
    Link,
    Queue,
    Site,
    Storage,
)
from pilotage.model.identity import Identity
from pilotage.model.states import JobState, TaskState
from pilotage.model.work import Job, JobKind, Requirements, Task, TaskSpec
from pilotage.model.world import JobCount, LinkCount, QueueReport, World

NOW = 1_700_000_000.0
HOUR = 3600.0


def queue(name: str = "Q", site: str = "HOME", **attributes: Any) -> Queue:
    """A queue of a site with a storage of its own, whose pilots are started from here."""
    attributes.setdefault("computing_element", ComputingElement())
    return Queue(name=name, site=site, storage=attributes.pop("storage", f"{site}-DISK"), **attributes)


def federation(
    queues: Sequence[Queue],
    *,
    links: Sequence[Link] = (),
    storages: Mapping[str, Mapping[str, Any]] | None = None,
    constants: Mapping[str, Any] | None = None,
) -> Federation:
    """HOME is the nucleus; each site of a queue has one disk, its attributes by site in ``storages``."""
    sites = sorted({item.site for item in queues} | {"HOME"})
    changed = storages or {}
    return Federation(
        name="test",
        sites=tuple(Site(name=site, nucleus=site == "HOME") for site in sites),
        storages=tuple(
            Storage(name=f"{site}-DISK", site=site, url=f"file:///{site}", **changed.get(site, {}))
            for site in sites
        ),
        queues=tuple(queues),
        links=tuple(links),
        brokerage=BrokerageConstants(**(constants or {})),
    )


def task(number: int = 1, **spec: Any) -> Task:
    """A running task that asks for nothing but what is given."""
    return Task(
        id=number,
        spec=TaskSpec(name=f"task-{number}", **spec),
        owner=Identity(name="alice"),
        state=TaskState.RUNNING,
        created=NOW,
        since=NOW,
    )


def jobs(
    of: Task, count: int = 1, *, first: int = 1, kind: JobKind = "normal", inputs: tuple[str, ...] = ()
) -> tuple[Job, ...]:
    """Jobs of a task that wait to be brokered."""
    return tuple(
        Job(
            id=number,
            task=of.id,
            kind=kind,
            share=of.spec.share,
            priority=of.spec.priority,
            requirements=Requirements.of(of.spec, of.owner).text,
            state=JobState.DEFINED,
            attempt=1,
            since=NOW,
            created=NOW,
            inputs=inputs,
        )
        for number in range(first, first + count)
    )


def counts(name: str, **by_state: int) -> tuple[JobCount, ...]:
    """Jobs at a queue, by state."""
    return tuple(
        JobCount(queue=name, share="default", state=JobState(state), jobs=number)
        for state, number in by_state.items()
    )


def world(house: Federation, *work: Task, **attributes: Any) -> World:
    """A world of these tasks, each with one job unless jobs are given."""
    attributes.setdefault(
        "jobs", tuple(job for position, item in enumerate(work, 1) for job in jobs(item, first=position))
    )
    return World(time=NOW, seed=7, federation=house, tasks=work, **attributes)


def decide(of: World) -> Decision:
    """What the production brokerage decides."""
    return Production().decide(of)


def only_choice(of: World) -> Choice:
    """The one choice of a world with one group of like jobs."""
    (choice,) = decide(of).choices
    return choice


def refusals(choice: Choice) -> dict[str, set[str]]:
    """Refused queues by rule."""
    found: dict[str, set[str]] = {}
    for refusal in choice.refusals:
        found.setdefault(refusal.rule, set()).update(refusal.queues)
    return found


def refusal(choice: Choice, rule: str) -> Refusal:
    """The one refusal of a rule."""
    (found,) = [item for item in choice.refusals if item.rule == rule]
    return found


def refused(house: Federation, rule: str, *, kind: JobKind = "normal", **spec: Any) -> set[str]:
    """Queues that a rule refuses to a task's job in a world without anything else."""
    asked = task(**spec)
    return refused_in(world(house, asked, jobs=jobs(asked, kind=kind)), rule)


def refused_in(of: World, rule: str) -> set[str]:
    """Queues that a rule refuses in a world with one group of jobs."""
    return refusals(only_choice(of)).get(rule, set())


def report(name: str, **seen: Any) -> QueueReport:
    """What was last seen of a queue."""
    return QueueReport(queue=name, **seen)


def waiting_on_link(files: int, source: str = "AWAY", destination: str = "HOME") -> tuple[LinkCount, ...]:
    """Live transfers between the disks of two sites."""
    return (LinkCount(source=f"{source}-DISK", destination=f"{destination}-DISK", files=files),)


def with_jobs(of: World, *defined: Job) -> World:
    """The same world with other jobs."""
    return replace(of, jobs=tuple(defined))


def federation_linked_by(**link: Any) -> Federation:
    """NEAR at the nucleus and FAR away from it, with this link between them."""
    return federation(
        [queue("NEAR"), queue("FAR", site="AWAY")], links=[Link(source="AWAY", destination="HOME", **link)]
    )
