"""A mover over any fsspec filesystem: local, memory, HTTP (to read), WebDAV, S3, SFTP, as installed.

Keeps nothing: all it knows is in its orders and at the storages. Files are written beside their destination
under a name with transfer and attempt, and renamed when size and checksum are right, so that a file under
its own name is always whole. A file of the scratch area whose destination is the same storage is renamed
without being written again.
"""

import hashlib
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from glob import escape
from importlib.util import find_spec
from typing import IO, TYPE_CHECKING, Any

from pydantic import ValidationError

from pilotage.model.documents import from_document
from pilotage.model.federation import Storage
from pilotage.model.paths import SCRATCH, is_scratch
from pilotage.model.work import InputFile
from pilotage.ports.moving import (
    Abilities,
    Delivered,
    Delivery,
    DeliveryFailed,
    Place,
    Progress,
    StorageError,
    is_below,
)

from .threads import CopyThreads

if TYPE_CHECKING:
    import fsspec

CHUNK = 1 << 20
NAMES = (
    "names are of letters, digits and _.:@+=~-, up to 500 in all, folders set apart by /, and no part begins "
    "with another character than a letter, a digit or _; rename it, or narrow the pattern"
)
CONNECT_TIMEOUT = 30.0
READ_TIMEOUT = 300.0
"""Seconds without a byte from an HTTP server before it is given up; a large file may take any time."""

READ_ONLY = frozenset({"http", "https"})
NO_STORAGES = frozenset(
    {
        *("async_wrapper", "asyncwrapper", "asynclocal", "blockcache", "cached", "data", "dir", "dvc"),
        *("filecache", "generic", "git", "libarchive", "pyscript", "reference", "simplecache", "tar", "zip"),
    }
)
"""Protocols of fsspec that read other filesystems or are none."""

REQUIREMENTS = {
    **dict.fromkeys(("http", "https"), "aiohttp"),
    **dict.fromkeys(("sftp", "ssh"), "paramiko"),
    **dict.fromkeys(("arrow_hdfs", "hdfs"), "pyarrow"),
    **dict.fromkeys(("dbfs", "gist", "github", "jlab", "jupyter", "webhdfs"), "requests"),
    "dask": "distributed",
    "smb": "smbprotocol",
}
"""The module that a filesystem of fsspec's own needs."""


class Filesystems(CopyThreads):
    """The mover of all URL schemes that fsspec knows and whose packages are installed."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        super().__init__(_copied, on_change)

    @cached_property
    def abilities(self) -> Abilities:
        """Schemes whose filesystems can be imported here; fsspec cannot write over plain HTTP."""
        import fsspec

        there = frozenset(filter(_is_installed, fsspec.available_protocols())) - NO_STORAGES
        return Abilities(name="fsspec", reads=there, writes=there - READ_ONLY, scan=True, remove=True)

    def scan(self, storage: Storage, glob: str) -> list[InputFile]:
        """See :func:`scan`."""
        return scan(storage, glob)

    def remove(self, storage: Storage, prefix: str) -> None:
        """See :func:`remove`."""
        remove(storage, prefix)


def _is_installed(scheme: str) -> bool:
    """Whether a filesystem could be imported, as far as that shows without importing it."""
    from fsspec.registry import known_implementations

    module = known_implementations.get(scheme, {}).get("class", "fsspec").partition(".")[0]
    return all(find_spec(name) for name in (module, REQUIREMENTS.get(scheme, "fsspec")))


def _copied(delivery: Delivery, progress: Progress) -> Delivered:
    found = deliver(delivery, progress)
    cleanup(delivery)
    return found


def deliver(delivery: Delivery, progress: Progress) -> Delivered:
    """Brings the file to its destination. What is there already and right counts as delivered.

    What a former attempt left half written is taken away, and from a mover that still writes it.
    Without a known checksum only the size is checked, and the adler32 of what was written is returned;
    a file that is there already cannot be known to be right then, and is replaced.
    """
    with _explained(DeliveryFailed, f"{delivery.source} to {delivery.destination}"):
        expected = Delivered(size=delivery.size, checksum=delivery.checksum)
        target, target_path = _open(delivery.destination)
        if _is_there(target, target_path, expected, progress):
            return expected
        source, source_path = _open(delivery.source)
        info = source.info(source_path)
        if _is_link(info) or info["type"] != "file":
            kind = "symbolic link" if _is_link(info) else info["type"]
            raise DeliveryFailed(f"{delivery.source} is not a plain file but a {kind}")
        folder, name = target_path.rsplit("/", 1)
        target.makedirs(folder, exist_ok=True)
        if (
            delivery.scratch
            and replace(delivery.source, path=delivery.destination.path) == delivery.destination
        ):
            found = _read(source, source_path, expected, progress)
            progress(found.size)
            source.mv(source_path, target_path)
            return found
        *former, part = (
            f"{folder}/.{name}.{delivery.transfer}.{attempt}.part"
            for attempt in range(1, delivery.attempt + 1)
        )
        for left in former:
            _take_away(target, left)
        sink = target.open(part, "wb")
        with _nothing_left(target, part):
            with sink:
                found = _read(source, source_path, expected, progress, sink)
            progress(found.size)
            target.mv(part, target_path)
        return found


def cleanup(delivery: Delivery) -> None:
    """Takes the file out of the scratch area, and its folder with the last of them; gone is well."""
    if not delivery.scratch:
        return
    with _explained(StorageError, f"cleaning up {delivery.source}"):
        filesystem, path = _open(delivery.source)
        filesystem.invalidate_cache()
        _take_away(filesystem, path)
        folder = path.rsplit("/", 1)[0]
        with suppress(FileNotFoundError):
            if not filesystem.ls(folder, detail=False):
                filesystem.rmdir(folder)


def scan(storage: Storage, glob: str) -> list[InputFile]:
    """All plain files that match, by name, with size and adler32; names are relative to the storage.

    Folders, symbolic links and what lies behind them, and names with a part that begins with a dot are
    left out. Reads every file whole.
    """
    with _explained(StorageError, f"scanning {storage.url} for {glob!r}"):
        if not is_below(glob):
            raise StorageError(f"{glob!r} is not a pattern below storage {storage.name}")
        filesystem, root = _filesystem(storage.url, storage.options)
        filesystem.invalidate_cache()
        found = filesystem.glob(f"{escape(root)}/{glob}", detail=True)
        names = {path: path.removeprefix(root).lstrip("/") for path in found}
        plain = [path for path in sorted(found) if _is_plain(filesystem, root, names[path], found[path])]
        return [_input_file(storage, filesystem, path, names[path]) for path in plain]


def remove(storage: Storage, prefix: str) -> None:
    """Deletes a folder below ``.scratch`` with all that is in it; gone is well."""
    with _explained(StorageError, f"removing {prefix!r} from {storage.url}"):
        if not is_scratch(prefix) or not is_below(prefix):
            raise StorageError(f"{prefix!r} is not a folder below {SCRATCH} of storage {storage.name}")
        filesystem, path = _open(Place(url=storage.url, path=prefix, options=storage.options))
        filesystem.invalidate_cache()
        with suppress(FileNotFoundError):
            filesystem.rm(path, recursive=True)


@contextmanager
def _explained(failure: type[StorageError], where: str) -> Iterator[None]:
    """Every filesystem raises exceptions of its own libraries: here all of them become the port's."""
    try:
        yield
    except Exception as error:
        raise failure(f"{where}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, StorageError) else f"{type(error).__name__}: {error}"


@contextmanager
def _nothing_left(filesystem: "fsspec.AbstractFileSystem", part: str) -> Iterator[None]:
    """Takes away a part of a file when what writes it fails."""
    try:
        yield
    except Exception as error:
        try:
            _take_away(filesystem, part)
        except Exception as another:
            raise DeliveryFailed(f"{_reason(error)}; {part} is left behind: {_reason(another)}") from error
        raise


def _take_away(filesystem: "fsspec.AbstractFileSystem", path: str) -> None:
    with suppress(FileNotFoundError):
        filesystem.rm_file(path)


def _filesystem(url: str, options: Mapping[str, Any]) -> "tuple[fsspec.AbstractFileSystem, str]":
    from fsspec.core import url_to_fs

    settings = dict(options)
    if url.startswith(("http://", "https://")):
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT, sock_read=READ_TIMEOUT)
        settings["client_kwargs"] = {"timeout": timeout, **settings.get("client_kwargs", {})}
    filesystem, root = url_to_fs(url, **settings)
    return filesystem, root.rstrip("/")


def _open(place: Place) -> "tuple[fsspec.AbstractFileSystem, str]":
    """The path is joined to the root, never to the URL, which fsspec may read as a chain of filesystems."""
    if not is_below(place.path):
        raise StorageError(f"{place.path!r} is not a path below {place.url}")
    filesystem, root = _filesystem(place.url, place.options)
    return filesystem, f"{root}/{place.path}"


class _Sum:
    """A checksum under way, of the same kind as a given one; adler32 where none is given."""

    def __init__(self, like: str) -> None:
        self._sha256 = hashlib.sha256() if like.startswith("sha256:") else None
        self._adler32 = 1

    def add(self, chunk: bytes) -> None:
        if self._sha256:
            self._sha256.update(chunk)
        else:
            self._adler32 = zlib.adler32(chunk, self._adler32)

    def __str__(self) -> str:
        return f"sha256:{self._sha256.hexdigest()}" if self._sha256 else f"adler32:{self._adler32:08x}"


def _read(
    filesystem: "fsspec.AbstractFileSystem",
    path: str,
    expected: Delivered,
    progress: Progress,
    sink: IO[bytes] | None = None,
) -> Delivered:
    """Reads a file, writing it to the sink if there is one, and checks it. Stops where it is too long."""
    checksum, size = _Sum(expected.checksum), 0
    with filesystem.open(path, "rb", block_size=0) as stream:
        while size <= expected.size and (chunk := stream.read(CHUNK)):
            checksum.add(chunk)
            size += len(chunk)
            if sink is not None:
                sink.write(chunk)
            progress(size)
    if size != expected.size:
        more = "at least " if size > expected.size else ""
        raise DeliveryFailed(f"{path} has {more}{size} bytes, must have {expected.size}")
    if expected.checksum not in ("", str(checksum)):
        raise DeliveryFailed(f"{path} has checksum {checksum}, must have {expected.checksum}")
    return Delivered(size=size, checksum=str(checksum))


def _is_there(
    filesystem: "fsspec.AbstractFileSystem", path: str, expected: Delivered, progress: Progress
) -> bool:
    """Whether the destination is right already. Raises where something other than a file is in the way."""
    filesystem.invalidate_cache()
    try:
        info = filesystem.info(path)
    except FileNotFoundError:
        return False
    if info["type"] != "file":
        raise DeliveryFailed(f"{path} is in the way: a {info['type']}, not a file")
    if not expected.checksum or info["size"] != expected.size:
        return False
    try:
        _read(filesystem, path, expected, progress)
    except DeliveryFailed:
        return False
    return True


def _is_link(info: Mapping[str, Any]) -> bool:
    return bool(info.get("islink")) or info["type"] == "link"


def _is_plain(filesystem: "fsspec.AbstractFileSystem", root: str, name: str, info: Mapping[str, Any]) -> bool:
    parts = name.split("/")
    if info["type"] != "file" or _is_link(info) or any(part.startswith(".") for part in parts):
        return False
    folders = (f"{root}/{'/'.join(parts[:depth])}" for depth in range(1, len(parts)))
    return "islink" not in info or not any(_is_link(filesystem.info(folder)) for folder in folders)


def _input_file(storage: Storage, filesystem: "fsspec.AbstractFileSystem", path: str, name: str) -> InputFile:
    checksum, size = _Sum(""), 0
    with filesystem.open(path, "rb", block_size=0) as stream:
        while chunk := stream.read(CHUNK):
            checksum.add(chunk)
            size += len(chunk)
    document = {"name": name, "size": size, "checksum": str(checksum), "replicas": [storage.name]}
    try:
        return from_document(InputFile, document)
    except ValidationError as error:
        raise StorageError(f"{name!r} at {storage.name} cannot be an input: {NAMES}") from error
