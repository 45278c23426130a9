"""Inputs with other bytes than the catalogue knows: workflows write to the same URLs again."""

from pilotage.flow.calls.data import catalogue, inputs
from pilotage.flow.runtime import Runtime
from pilotage.model.records.inputs import InputFile
from pilotage.model.records.spec import TaskSpec
from pilotage.model.values.identity import Credential
from pilotage.model.values.paths import is_copy, is_output
from pilotage.model.values.scopes import scopes_of, split_identifier
from pilotage.server.api.edge.access import actor


def forget_changed(runtime: Runtime, spec: TaskSpec, caller: Credential) -> bool:
    """Forget what the catalogue knows of a task's changed inputs in the caller's scopes. Return whether any.

    Copies of their former bytes go too. A file that is at other storages stays: it was not replaced, but
    shares its name. Raises StillWanted if a task still reads one.
    """
    owner = caller.identity
    resolved, faults = inputs.resolve(
        inputs.scoped(spec, owner), runtime.store.federation(), inputs.lookup_for(runtime, owner)
    )
    if faults:
        return False
    items = [item for item in resolved.spec.inputs if isinstance(item, InputFile)]
    forgotten = 0
    for at in runtime.store.queries.conflicts([item.described() for item in items]):
        scope, name = split_identifier(items[at].identifier)
        entry = runtime.store.catalogue.entry(items[at].identifier)
        if entry is None or scope not in scopes_of(owner) or is_output(name):
            continue
        originals = {replica.storage for replica in entry.replicas if not is_copy(replica.path)}
        if originals <= set(items[at].replicas):
            catalogue.forget(runtime, entry, "", actor(caller))
            forgotten += 1
    return forgotten > 0
