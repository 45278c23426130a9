"""Folders of storages: whose files lie where, and so who may name them."""

from collections.abc import Iterable, Iterator

from pilotage.model.records.federation import Storage
from pilotage.model.records.work import InputFile
from pilotage.model.values.identity import Identity
from pilotage.model.values.paths import is_output
from pilotage.model.values.patterns import literal_beginning


def may_name(storage: Storage, path: str, owner: Identity) -> bool:
    """Check that a person may name what lies at a path: the longest declared folder around it decides.

    Where the storage declares none, anybody may name anything. Outputs of tasks have owners of their own.
    """
    if not storage.folders or is_output(path):
        return True
    around = [folder for folder in storage.folders if f"{path}/".startswith(f"{folder}/")]
    return bool(around) and owner.vo in storage.folders[max(around, key=len)]


def may_list(storage: Storage, glob: str, owner: Identity) -> bool:
    """Check that a person may list what matches a pattern, by the folder in which all of that lies."""
    return may_name(storage, literal_beginning(glob).rpartition("/")[0], owner)


def others_files(
    files: Iterable[InputFile], storages: Iterable[Storage], owner: Identity
) -> Iterator[tuple[int, str]]:
    """Yield the files at paths that are not a person's to name, by index, each with the reason."""
    guarded = {storage.name: storage for storage in storages if storage.folders}
    for index, file in enumerate(files):
        for name in file.replicas:
            if name in guarded and not may_name(guarded[name], file.name, owner):
                yield index, not_yours(guarded[name], file.name, owner)
                break


def not_yours(storage: Storage, path: str, owner: Identity) -> str:
    """Tell that a path is not a person's to name, and which are."""
    mine = [folder for folder, vos in sorted(storage.folders.items()) if owner.vo in vos]
    whose = f"yours there are {', '.join(mine)}" if mine else "you have none there"
    return f"{path!r} is in no folder of yours at {storage.name}; {whose}: ask an operator to register it"


class OthersFilesError(LookupError):
    """Files that a listing found are not its asker's to name."""


def refuse_others(files: Iterable[InputFile], storages: Iterable[Storage], owner: Identity | None) -> None:
    """Raise OthersFilesError where a listing found what is not the owner's to name; None may name anything.

    A folder within one's own may be that of others. Their files' names are not told.
    """
    if owner and (count := sum(1 for _ in others_files(files, storages, owner))):
        raise OthersFilesError(
            f"{count} of the files that match lie in folders of others; narrow the pattern"
        )
