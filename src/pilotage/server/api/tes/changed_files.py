"""Inputs with other bytes than the catalogue knows: workflows write to the same URLs again."""

from pilotage.flow.calls.data import catalogue, inputs
from pilotage.flow.runtime import Runtime
from pilotage.model.records.inputs import InputFile
from pilotage.model.records.spec import TaskSpec
from pilotage.model.values.identity import Credential
from pilotage.model.values.paths import is_output
from pilotage.model.values.scopes import scopes_of, split_identifier
from pilotage.server.api.edge.access import actor


def forget_changed(runtime: Runtime, spec: TaskSpec, caller: Credential) -> bool:
    """Forget what the catalogue knows of a task's changed inputs in the caller's scopes. Return whether any.

    Copies of their former bytes go too. Raises StillWanted if a task still reads one.
    """
    owner = caller.identity
    resolved, faults = inputs.resolve(
        inputs.scoped(spec, owner), runtime.store.federation(), inputs.lookup_for(runtime, owner)
    )
    if faults:
        return False
    files = [item.described() for item in resolved.spec.inputs if isinstance(item, InputFile)]
    changed = [files[at].name for at in runtime.store.queries.conflicts(files)]
    forgotten = 0
    for identifier in changed:
        scope, name = split_identifier(identifier)
        entry = runtime.store.catalogue.entry(identifier)
        if entry and scope in scopes_of(owner) and not is_output(name):
            catalogue.forget(runtime, entry, "", actor(caller))
            forgotten += 1
    return forgotten > 0
