"""Places that a task chooses for its outputs: which storage and path, and who may write there."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pilotage.model.records.spec_parts import OutputDestination
from pilotage.model.values.identity import Identity
from pilotage.model.values.outputs import is_many, is_taken
from pilotage.model.values.paths import FILE_NAMES, is_file_name, is_output

if TYPE_CHECKING:
    from pilotage.model.records.federation import Storage


def destination_of_output(destinations: Mapping[str, OutputDestination], path: str) -> tuple[str, str] | None:
    """Return the storage of an output, by its path in the job's directory, and its path there.

    None: the task names no place for it. The first that matches decides.
    """
    for output, destination in destinations.items():
        if output == path and not is_many(output):
            return destination.storage, destination.path
        if is_many(output) and is_taken(output, path):
            return destination.storage, f"{destination.path}/{below(path, destination.prefix)}"
    return None


def below(path: str, prefix: str) -> str:
    """Return the part of a path after a folder; the whole path if it lies elsewhere."""
    return path.removeprefix(f"{prefix.rstrip('/')}/") if prefix else path


def delivery_fault(storage: "Storage", path: str, owner: Identity) -> str:
    """Return why a person's tasks may not deliver to a path of a storage; empty if they may.

    The longest declared folder around it decides. One without VOs is open to everybody.
    """
    if is_output(f"{path}/"):
        return f"{path!r} is below the folder of outputs; give a path elsewhere"
    if not is_file_name(path):
        return f"{path[:80]!r} is no path of a file: {FILE_NAMES}"
    around = [folder for folder in storage.delivery_folders if f"{path}/".startswith(f"{folder}/")]
    vos = storage.delivery_folders[max(around, key=len)] if around else None
    if vos is not None and (not vos or owner.vo in vos):
        return ""
    mine = sorted(folder for folder, vos in storage.delivery_folders.items() if not vos or owner.vo in vos)
    folders = f"give a path in {', '.join(mine)}" if mine else "ask an operator to add delivery_folders to it"
    return f"{path!r} is in no folder of {storage.name} that your tasks may deliver to; {folders}"
