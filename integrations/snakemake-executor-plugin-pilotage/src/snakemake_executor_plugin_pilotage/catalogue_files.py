"""Files of the catalogue that jobs read and write through the storage plugin for Pilotage."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from snakemake_interface_executor_plugins.settings import SharedFSUsage

from pilotage.client import NotFound

if TYPE_CHECKING:
    from pilotage.client import Client

SCHEME = "pilotage://"

VARIABLE = "SNAKEMAKE_STORAGE_PILOTAGE_"
"""The beginning of variables with the plugin's settings."""

MOST_INPUTS = 10_000
"""Most different inputs of one task. Jobs download the others themselves."""


def is_used(workflow: Any) -> bool:
    """Return whether jobs of a workflow use the storage plugin for Pilotage."""
    providers = workflow.storage_registry._storages.values()
    return any(type(provider).__module__ == "snakemake_storage_plugin_pilotage" for provider in providers)


def variables(client: "Client") -> dict[str, str]:
    """Return the variables that the plugin needs in a job."""
    settings = client._connection.settings
    return {f"{VARIABLE}URL": settings.url} | ({f"{VARIABLE}TOKEN": settings.token} if settings.token else {})


def names_of(jobs: Iterable[Any], workflow: Any) -> list[str]:
    """Return the files of the catalogue that jobs read, unless they read local copies on a shared disk."""
    if SharedFSUsage.STORAGE_LOCAL_COPIES in workflow.storage_settings.shared_fs_usage:
        return []
    jobs = list(jobs)
    made = {str(file) for job in jobs for file in job.output}
    names: dict[str, str] = {}
    for file in itertools.chain.from_iterable(job.input for job in jobs):
        if file.is_storage and file.storage_object.query.startswith(SCHEME) and str(file) not in made:
            scope, _, name = file.storage_object.query.removeprefix(SCHEME).partition("/")
            # Inputs of a job are files in one folder, each under its name without the scope.
            names.setdefault(name, f"{scope}:{name}")
    return list(names.values())


def inputs(client: "Client", rows: Sequence[Sequence[str]]) -> list[Mapping[str, Any]]:
    """Return the inputs of a task, of the files that each row reads."""
    readers: dict[str, list[int]] = {}
    for number, names in enumerate(rows):
        for name in names:
            readers.setdefault(name, []).append(number)
    described: list[Mapping[str, Any]] = []
    for name, numbers in itertools.islice(readers.items(), MOST_INPUTS):
        try:
            record = client.file(name)
        except NotFound:
            continue
        if record["replicas"]:
            scope, _, path = name.partition(":")
            file = {"name": path, "scope": scope, "size": record["size"], "checksum": record["checksum"]}
            described.append(file | {"rows": numbers})
    return described
