"""The free space of storages (B18)."""

from pilotage.flow.runtime import Runtime
from pilotage.model.records.storage_spaces import FreeSpace, free_spaces


def spaces(runtime: Runtime) -> dict[str, FreeSpace]:
    """Return the current free space of each storage, by name (B18). Raises ``NoFederation``."""
    told = runtime.store.transfer_queries.storage_spaces()
    return free_spaces(runtime.store.federation(), told, runtime.clock())
