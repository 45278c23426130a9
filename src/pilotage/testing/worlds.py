"""Build federations and worlds where everything fits, so that a test changes one thing at a time."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pilotage.model.documents.world import JobCount, LinkCount, QueueReport, TaskCount, World
from pilotage.model.records.federation import (
    BrokerageConstants,
    ComputingElement,
    Federation,
    Link,
    Queue,
    Site,
    StagingConstants,
    Storage,
)
from pilotage.model.records.states import JobState
from pilotage.model.records.storage_spaces import StorageSpace
from pilotage.model.records.work import Task
from pilotage.testing.records import NOW, jobs


def queue(
    name: str = "Q", site: str = "HOME", *, max_pilots: int = 10, slots: int = 1, **attributes: Any
) -> Queue:
    """Return a queue with its site's own disk. This server submits its pilots, at most ``max_pilots``."""
    attributes.setdefault("computing_element", ComputingElement(max_pilots=max_pilots, pilot_slots=slots))
    attributes.setdefault("storage", f"{site}-DISK")
    return Queue(name=name, site=site, **attributes)


def federation(
    queues: Sequence[Queue] = (),
    *,
    links: Iterable[Link] = (),
    storages: Mapping[str, Mapping[str, Any]] | None = None,
    constants: Mapping[str, Any] | None = None,
    **parts: Any,
) -> Federation:
    """Return a federation of these queues, by default of one queue ``Q``.

    HOME is the nucleus. Every site has one disk; ``storages`` gives its attributes by site. ``constants`` go
    to the brokerage, ``parts`` are other parts of the federation.
    """
    queues = tuple(queues) or (queue(),)
    sites = sorted({item.site for item in queues} | {"HOME"})
    changed = storages or {}
    return Federation(
        name="test",
        sites=tuple(Site(name=site, nucleus=site == "HOME") for site in sites),
        storages=tuple(
            Storage(name=f"{site}-DISK", site=site, url=f"file:///{site}", **changed.get(site, {}))
            for site in sites
        ),
        queues=queues,
        links=tuple(links),
        brokerage=BrokerageConstants(**(constants or {})),
        **parts,
    )


def federation_linked_by(**link: Any) -> Federation:
    """Return a federation of NEAR at the nucleus and FAR at AWAY, with this link from AWAY to HOME."""
    return federation(
        [queue("NEAR"), queue("FAR", site="AWAY")], links=[Link(source="AWAY", destination="HOME", **link)]
    )


def three_sites(links: Iterable[Link] = (), storages: Iterable[Storage] = (), **constants: Any) -> Federation:
    """Return north (nucleus, storages north-a and north-b), east and west, with queues QN, QE and QW.

    ``constants`` are data staging's.
    """
    return Federation(
        name="three",
        sites=(Site(name="north", nucleus=True), Site(name="east"), Site(name="west")),
        storages=tuple(storages)
        or (
            Storage(name="north-b", site="north", url="memory://north-b"),
            Storage(name="north-a", site="north", url="memory://north-a"),
            Storage(name="east", site="east", url="memory://east"),
            Storage(name="west", site="west", url="memory://west"),
        ),
        queues=(
            Queue(name="QN", site="north", storage="north-b"),
            Queue(name="QE", site="east", storage="east"),
            Queue(name="QW", site="west", storage="west"),
        ),
        links=tuple(links),
        staging=StagingConstants(**constants),
    )


def world(of: Federation | None = None, *tasks: Task, **contents: Any) -> World:
    """Return a world at ``NOW`` with seed 7.

    Each task by position gets one DEFINED job, unless you give ``jobs``. ``contents`` are fields of
    ``World``; records may be any iterable.
    """
    values: dict[str, Any] = {"time": NOW, "seed": 7, "federation": of or federation()}
    for name, value in contents.items():
        values[name] = tuple(value) if isinstance(value, Iterable) else value
    if tasks:
        values["tasks"] = tasks
        values.setdefault("jobs", tuple(jobs(item, first=place)[0] for place, item in enumerate(tasks, 1)))
    return World(**values)


def jobs_at(queue: str, **by_state: int) -> tuple[JobCount, ...]:
    """Return the number of jobs at a queue by state, e.g. ``jobs_at("Q", running=3)``."""
    return tuple(
        JobCount(queue=queue, share="default", state=JobState(state), jobs=number)
        for state, number in by_state.items()
    )


def jobs_of(task: int = 1, **by_state: int) -> tuple[TaskCount, ...]:
    """Return the number of jobs of a task by state, e.g. ``jobs_of(1, finished=3)``."""
    return tuple(
        TaskCount(task=task, state=JobState(state), jobs=number) for state, number in by_state.items()
    )


def queue_report(queue: str, **counts: Any) -> QueueReport:
    """Return the last report on a queue: the fields of ``QueueReport``."""
    return QueueReport(queue=queue, **counts)


def waiting_on_link(files: int, source: str = "AWAY", destination: str = "HOME") -> tuple[LinkCount, ...]:
    """Return the live transfers between the disks of two sites."""
    return (LinkCount(source=f"{source}-DISK", destination=f"{destination}-DISK", files=files),)


def measured(of: Federation, **free: float) -> tuple[StorageSpace, ...]:
    """Return the disks' reports of a minute ago: GB free, by the site's name (B18)."""
    urls = {storage.site: storage.url for storage in of.storages}
    return tuple(
        StorageSpace(storage=f"{site}-DISK", url=urls[site], asked=NOW - 60, told=NOW - 60, free=gigabytes)
        for site, gigabytes in free.items()
    )
