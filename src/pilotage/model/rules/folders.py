"""Folders of storages: which VOs may name the files in each."""

from collections.abc import Iterable, Iterator, Mapping

from pilotage.model.records.federation import Storage
from pilotage.model.records.work import InputFile
from pilotage.model.values.identity import Identity
from pilotage.model.values.paths import is_output
from pilotage.model.values.patterns import literal_beginning


def may_name(storage: Storage, path: str, owner: Identity) -> bool:
    """Return whether a person may name a file at a path. The longest declared folder around it decides.

    If the storage declares none, everybody may name any file. Outputs of tasks have their own owners.
    """
    if not storage.folders or is_output(path):
        return True
    around = [folder for folder in storage.folders if f"{path}/".startswith(f"{folder}/")]
    return bool(around) and owner.vo in storage.folders[max(around, key=len)]


def may_list(storage: Storage, glob: str, owner: Identity) -> bool:
    """Return whether a person may list the files of a pattern, by the folder that contains all of them."""
    return may_name(storage, literal_beginning(glob).rpartition("/")[0], owner)


def others_files(
    files: Iterable[InputFile], storages: Iterable[Storage], owner: Identity
) -> Iterator[tuple[int, str]]:
    """Yield the files at paths that a person may not name, by index, each with the reason."""
    guarded = {storage.name: storage for storage in storages if storage.folders}
    for index, file in enumerate(files):
        for name in file.replicas:
            if name in guarded and not may_name(guarded[name], file.name, owner):
                yield index, not_yours(guarded[name], file.name, owner)
                break


def not_yours(storage: Storage, path: str, owner: Identity) -> str:
    """Return that a person may not name a path, and which paths they may."""
    mine = [folder for folder, vos in sorted(storage.folders.items()) if owner.vo in vos]
    remedy = f"yours there are {', '.join(mine)}" if mine else "you have none there"
    return f"{path!r} is in no folder of yours at {storage.name}; {remedy}: ask an operator to register it"


_LINK = "{name!r} is, or lies behind, a symbolic link to a folder of others"


class OthersFilesError(LookupError):
    """A listing found files that the caller may not name."""


def refuse_link(storage: Storage, name: str, path: str) -> None:
    """Raise OthersFilesError if a name is a link to a path that some of those who may name it may not."""
    people = [Identity(name="", vo=vo) for vo in {vo for vos in storage.folders.values() for vo in vos}]
    if any(may_name(storage, name, one) and not may_name(storage, path, one) for one in people):
        raise OthersFilesError(_LINK.format(name=name))


def refuse_others(
    files: Iterable[InputFile],
    storage: Storage,
    owner: Identity | None,
    paths: Mapping[str, str],
) -> None:
    """Raise OthersFilesError if a listing found files that the owner may not name. None: all are allowed.

    A folder of one's own may contain a folder of others. The error does not show the names of their files.
    ``paths`` are the real paths of files behind links, by name.
    """
    if owner is None:
        return
    for name, path in sorted(paths.items()):
        if not may_name(storage, path, owner):
            raise OthersFilesError(_LINK.format(name=name))
    if count := sum(1 for _ in others_files(files, [storage], owner)):
        raise OthersFilesError(
            f"{count} of the files that match lie in folders of others; narrow the pattern"
        )
