"""Check the dataset that gathers a task's outputs."""

from collections.abc import Iterator

from pilotage.federation.faults import Fault, Path
from pilotage.model.records.catalogues import ExternalCatalogue, OutputTerms
from pilotage.model.records.federation import Federation
from pilotage.model.records.publications import split_dataset
from pilotage.model.records.work import TaskSpec
from pilotage.model.rules.sources import output_storages
from pilotage.model.values.identity import Identity
from pilotage.model.values.scopes import personal_scope
from pilotage.model.values.types import LONGEST_DATASET_NAME

_PATH: Path = ("output_dataset",)


def output_dataset_faults(spec: TaskSpec, federation: Federation, owner: Identity | None) -> Iterator[Fault]:
    """Yield what keeps a task's outputs out of their dataset."""
    if not spec.output_dataset:
        return
    if not (spec.outputs or spec.merge):
        yield Fault(_PATH, "the task has no outputs", "name its outputs, or leave the dataset out")
    name, scope, dataset = split_dataset(spec.output_dataset)
    if not name:
        if owner is not None and scope not in ("", mine := personal_scope(owner)):
            message = f"outputs of your tasks are in your own scope, and {scope!r} is not that"
            yield Fault(_PATH, message, f"give {mine}:NAME, or NAME alone")
        if len(dataset) > LONGEST_DATASET_NAME:
            yield Fault(_PATH, f"its name has {len(dataset)} characters", f"{LONGEST_DATASET_NAME} at most")
        return
    declared = next((catalogue for catalogue in federation.catalogues if catalogue.name == name), None)
    if declared is None:
        names = ", ".join(catalogue.name for catalogue in federation.catalogues if catalogue.outputs)
        remedy = f"these take outputs: {names}" if names else "the federation declares none"
        yield Fault(_PATH, f"there is no catalogue {name!r}", remedy)
    elif declared.outputs is None:
        yield Fault(_PATH, f"the catalogue {name} takes no outputs", "operators may declare its `outputs`")
    else:
        if owner is not None:
            yield from _not_theirs(declared, declared.outputs, scope, owner)
        yield from _unknown_there(declared, spec, federation)


def _not_theirs(
    declared: ExternalCatalogue, terms: OutputTerms, scope: str, owner: Identity
) -> Iterator[Fault]:
    if owner.vo not in declared.vos:
        yield Fault(_PATH, f"the catalogue {declared.name} is for people of {', '.join(declared.vos)}")
    elif scope not in (mine := terms.scopes_of(owner)):
        message = f"you may not put datasets into the scope {scope!r} of {declared.name}"
        yield Fault(_PATH, message, f"you may into {', '.join(mine)}")


def _unknown_there(declared: ExternalCatalogue, spec: TaskSpec, federation: Federation) -> Iterator[Fault]:
    storages = {mapping.storage for mapping in declared.storages}
    if lacking := [name for name in output_storages(spec, federation) if name not in storages]:
        yield Fault(
            _PATH,
            f"outputs may come to {', '.join(lacking[:10])}, where the catalogue {declared.name} knows none",
            f"name a nucleus or queues whose storage is one of {', '.join(sorted(storages))}",
        )
