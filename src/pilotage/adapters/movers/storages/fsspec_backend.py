"""Storages with URL schemes that fsspec opens: memory, and object stores other than S3."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from glob import escape
from importlib.util import find_spec
from typing import IO, TYPE_CHECKING, Any

from pilotage.adapters.movers.storages.backend import PathEntry
from pilotage.adapters.movers.storages.backend_calls import nothing_left

if TYPE_CHECKING:
    import fsspec

REQUIREMENTS = {
    "abfs": "adlfs",
    "az": "adlfs",
    "gcs": "gcsfs",
    "gs": "gcsfs",
    "hdfs": "pyarrow",
    "lakefs": "lakefs_spec",
    "memory": "fsspec",
    "oci": "ocifs",
    "oss": "ossfs",
    "webhdfs": "requests",
}
"""URL schemes, each with the module that its filesystem needs. fsspec knows more: filesystems that read
others, or whose folders may be links that lead out of a storage."""


def schemes() -> frozenset[str]:
    """Return URL schemes that can be opened here.

    This does not import fsspec, because most machines need none of them.
    """
    return frozenset(scheme for scheme, module in REQUIREMENTS.items() if find_spec(module))


class FsspecBackend:
    """A storage behind one of fsspec's file systems. ``options`` are that file system's own."""

    writable = True

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        from fsspec.core import url_to_fs

        scheme = url.partition("://")[0]
        if scheme not in REQUIREMENTS:
            raise ValueError(f"{scheme}:// is not opened by fsspec here: it may lead out of a storage")
        root: str
        self._filesystem: fsspec.AbstractFileSystem
        self._filesystem, root = url_to_fs(url, use_listings_cache=False, **options)
        self._root = root.rstrip("/")

    def entry(self, path: str) -> PathEntry:
        """See ``Backend``."""
        self._filesystem.invalidate_cache()
        return _entry(self._filesystem.info(self._at(path)))

    def entries(self, folder: str) -> Iterator[tuple[str, PathEntry]]:
        """See ``Backend``."""
        self._filesystem.invalidate_cache()
        at = f"{self._at(folder)}/"
        for info in self._filesystem.ls(at.rstrip("/"), detail=True):
            name = info["name"].rstrip("/").removeprefix(at)
            if "/" not in name:
                yield name, _entry(info)

    @contextmanager
    def read(self, path: str) -> Iterator[IO[bytes]]:
        """See ``Backend``."""
        with self._filesystem.open(self._at(path), "rb", block_size=0) as stream:
            yield stream

    def store(self, path: str, part: str, chunks: Iterable[bytes], size: int) -> None:  # noqa: ARG002
        """See ``Backend``."""
        target = self._at(path)
        folder = target.rpartition("/")[0]
        draft = f"{folder}/{part}"
        self._filesystem.makedirs(folder, exist_ok=True)
        sink = self._filesystem.open(draft, "wb")
        with nothing_left(draft, lambda: self._filesystem.rm_file(draft)):
            with sink:
                for chunk in chunks:
                    sink.write(chunk)
            self._move(draft, target)

    def rename(self, source: str, target: str) -> None:
        """See ``Backend``."""
        self._filesystem.makedirs(self._at(target).rpartition("/")[0], exist_ok=True)
        self._move(self._at(source), self._at(target))

    def _move(self, source: str, target: str) -> None:
        from fsspec import AbstractFileSystem

        if type(self._filesystem).mv is AbstractFileSystem.mv:
            # Not fsspec's own ``mv``, which reads names as patterns.
            self._filesystem.cp_file(source, target)
            self._filesystem.rm_file(source)
        else:
            self._filesystem.mv(source, target)  # a rename at the server

    def delete(self, path: str) -> None:
        """See ``Backend``."""
        self._filesystem.rm_file(self._at(path))

    def delete_folder(self, path: str, *, recursive: bool) -> None:
        """See ``Backend``."""
        if recursive:
            self._filesystem.rm(escape(self._at(path)), recursive=True)
        else:
            self._filesystem.rmdir(self._at(path))

    def _at(self, path: str) -> str:
        """Return a path below the root.

        Never append it to the URL, which fsspec may read as a chain of file systems.
        """
        return f"{self._root}/{path}" if path else self._root


def _entry(info: Mapping[str, Any]) -> PathEntry:
    if info.get("islink") or info["type"] == "link":
        return PathEntry("link")
    if info["type"] == "file":
        return PathEntry("file", info.get("size"))
    return PathEntry("folder" if info["type"] == "directory" else "other")
