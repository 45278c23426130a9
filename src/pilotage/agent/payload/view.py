"""The paths that a contained payload sees: the system, an interpreter, its own directory, and the site's
own."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from .attempt import AttemptFailedError, legal

SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/sys", "/nix", "/gnu"),
    *("/cvmfs", "/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager", "/run/nscd"),
)
"""Programs, libraries, settings and name resolution. Missing paths are skipped."""
DEVICES, GPUS = ("infiniband",), ("nvidia*", "dri", "kfd")
"""Devices for computing, below /dev: those for every payload, and those for payloads with GPUs."""


NO_MOUNTS: Mapping[str, str] = MappingProxyType({})
WITHOUT_MOUNTS = ("none", "landlock")
"""Ways to contain payloads that mount nothing."""


@dataclass(frozen=True)
class Bind:
    """A path that a payload sees as ``target``."""

    source: str
    target: str
    writable: bool = False


@dataclass(frozen=True)
class View:
    """How the payload is contained, and its paths. ``links`` are symbolic links with their texts."""

    mechanism: str = "none"
    bubblewrap: str = ""
    binds: tuple[Bind, ...] = ()
    links: tuple[tuple[str, str], ...] = ()


UNCONTAINED = View()


@dataclass(frozen=True)
class SitePaths:
    """Paths that a site adds to a payload's view, or removes from it.

    ``readable`` and ``writable`` are paths that payloads need besides their directory. ``hidden`` are folders
    that payloads must not see although they lie below such a path: other jobs' directories, a server's home.
    """

    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()


def view(
    mechanism: str,
    bubblewrap: str,
    directory: Path,
    site: SitePaths,
    gpus: bool = False,
    mounts: Mapping[str, str] = NO_MOUNTS,
) -> View:
    """Return the paths of a payload in ``directory``, with the GPUs' devices if it has any.

    ``mounts`` are folders of the directory by the absolute paths where the payload sees them too.
    """
    if mechanism == "none":
        return UNCONTAINED
    hidden = [os.path.realpath(path) for path in site.hidden]
    system = [Path(path) for path in SYSTEM]
    links = [(path, path.readlink()) for path in system if path.is_symlink()]
    folders = [path for path in system if not path.is_symlink()]
    binds: list[Bind] = []
    for path in _outermost([*folders, *_interpreter(), *map(Path, site.readable)]):
        binds += _binds(path, hidden, links, writable=False)
    for pattern in (*DEVICES, *(GPUS if gpus else ())):
        binds += [Bind(str(path), str(path), True) for path in sorted(Path("/dev").glob(pattern))]
    for path in _outermost(map(Path, site.writable)):
        binds += _binds(path, hidden, links, writable=True)
    place = str(directory)
    # A new /tmp would hide a directory below /tmp. Landlock only gives rights and mounts nothing.
    if not place.startswith("/tmp/") and mechanism != "landlock":
        # It would hide the site's paths below /tmp as well, so they come after it.
        below = [bind for bind in binds if bind.target.startswith("/tmp/")]
        binds = [bind for bind in binds if bind not in below]
        binds += [Bind(f"{place}/tmp", "/tmp", True), *below]
    binds = _with_mounts(binds, place, mounts)
    # Bind it last: the paths above it may be hidden or read-only.
    binds.append(Bind(place, place, True))
    texts = {(str(path), str(text)) for path, text in links}
    return View(mechanism, bubblewrap, tuple(binds), tuple(sorted(texts)))


def _with_mounts(binds: Sequence[Bind], place: str, mounts: Mapping[str, str]) -> list[Bind]:
    """Return binds with those of mounts: these come first, and below ``/tmp`` after the payload's own."""
    mine = [Bind(f"{place}/{folder}", target, True) for target, folder in sorted(mounts.items())]
    in_tmp = [bind for bind in mine if bind.target.startswith("/tmp/")]
    first = [bind for bind in mine if bind not in in_tmp]
    return [*first, *(bind for bind in binds if bind.target not in mounts), *in_tmp]


def check_mounts(mounts: Mapping[str, str], mechanism: str, site: SitePaths) -> None:
    """Raise AttemptFailedError if mounts are impossible here, or would make folders outside the job's.

    ``mechanism`` contains the payload; empty: a container does.
    """
    if mounts and mechanism in WITHOUT_MOUNTS:
        raise AttemptFailedError(
            f"mount {min(mounts)}: payloads without a container are contained by {mechanism} here, which "
            "cannot mount; name a container, or a queue whose nodes have bubblewrap or user namespaces"
        )
    for target in mounts:
        legal("mount", target[1:], deep=True)
        for path in (*site.readable, *site.writable, *(SYSTEM if mechanism else ())):
            if f"{target}/".startswith(f"{path.rstrip('/')}/"):
                raise AttemptFailedError(f"mount {target}: payloads see {path} of the node; mount elsewhere")


def unseen(payload_view: View, path: Path) -> Path | None:
    """Return the path, or its target, that a payload does not see; None if it sees both."""
    places = [Path(bind.target) for bind in payload_view.binds]
    visible = (*places, *(Path(link) for link, _ in payload_view.links), *map(Path, ("/dev", "/proc")))
    for place in dict.fromkeys((path, path.resolve())):
        if place.is_absolute() and not any(folder == place or folder in place.parents for folder in visible):
            return place
    return None


def _interpreter() -> set[Path]:
    """Return the folders of the Python that runs this. Payloads find it first in their search path."""
    folders = {Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).resolve().parent}
    return folders - {Path("/")}


def _outermost(paths: Iterable[Path]) -> Sequence[Path]:
    """Return the existing paths that lie below no other, in order."""
    outermost: list[Path] = []
    for path in sorted({path for path in paths if path.is_absolute() and path.exists()}):
        if not any(path == outer or outer in path.parents for outer in outermost):
            outermost.append(path)
    return outermost


def _binds(
    path: Path, hidden: Sequence[str], links: list[tuple[Path, Path]], *, writable: bool
) -> Iterator[Bind]:
    """Yield the path itself, or its parts if hidden folders lie below it."""
    source = os.path.realpath(path)
    inside = [folder for folder in hidden if folder.startswith(f"{source.rstrip('/')}/")]
    if not inside:
        yield Bind(source, str(path), writable)
        return
    for part in sorted(path.iterdir()):
        if part.is_symlink():
            links.append((part, part.readlink()))
        elif os.path.realpath(part) not in inside:
            yield from _binds(part, inside, links, writable=writable)
