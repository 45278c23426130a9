"""Faults of the places that a task chooses for its outputs."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pilotage.federation.faults import Fault
from pilotage.model.records.spec import TaskSpec
from pilotage.model.rules.destinations import delivery_fault
from pilotage.model.values.identity import Identity
from pilotage.model.values.outputs import is_many
from pilotage.model.values.paths import is_output

if TYPE_CHECKING:
    from pilotage.model.records.federation import Federation


def destination_faults(spec: TaskSpec) -> Iterator[Fault]:
    """Yield the faults of a task's destinations in any federation."""
    if spec.destinations and (spec.merge or spec.planned_jobs > 1):
        yield Fault(
            ("destinations",),
            "are for a task of one job, because several would replace each other's files",
            "leave them out, and fetch the outputs by their names",
        )
    paths: dict[tuple[str, str], str] = {}
    for output, destination in spec.destinations.items():
        path = ("destinations", output)
        if output not in spec.outputs:
            yield Fault(path, "is not in outputs", "write it in both alike")
        if "{index}" in output or (spec.parameters and "{" in output):
            yield Fault(
                path, "has a placeholder, but is for one file", "write what it stands for, in outputs too"
            )
        if is_output(destination.path):
            yield Fault((*path, "path"), "is below the folder of outputs", "give a path elsewhere")
        if destination.prefix and not is_many(output):
            yield Fault((*path, "prefix"), "is for patterns and folders", "leave it out")
        place = destination.storage, destination.path
        if place in paths and not (is_many(output) and is_many(paths[place])):
            yield Fault((*path, "path"), f"is that of {paths[place]!r} too", "give each a path of its own")
        paths.setdefault(place, output)


def place_faults(spec: TaskSpec, federation: "Federation", owner: Identity | None) -> Iterator[Fault]:
    """Yield the faults of destinations in a federation: storages that it lacks, or that refuse the owner."""
    storages = {storage.name: storage for storage in federation.storages}
    for output, destination in spec.destinations.items():
        path = ("destinations", output)
        if destination.storage not in storages:
            known = ", ".join(sorted(storages))
            yield Fault(
                (*path, "storage"), f"there is no storage {destination.storage!r}", f"known are {known}"
            )
        elif owner and (fault := delivery_fault(storages[destination.storage], destination.path, owner)):
            yield Fault((*path, "path"), fault)
