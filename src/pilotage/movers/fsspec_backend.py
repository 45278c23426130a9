"""Storages of the URL schemes that fsspec can open here, without those that follow links."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import IO, TYPE_CHECKING, Any

from .backend import Entry
from .failures import nothing_left

if TYPE_CHECKING:
    import fsspec

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

FOLLOW_LINKS = frozenset({"dask", "file", "ftp", "jlab", "jupyter", "local", "sftp", "smb", "ssh"})
"""Protocols whose folders may be links that lead out of a storage, which fsspec follows."""

REQUIREMENTS = {
    **dict.fromkeys(("http", "https"), "aiohttp"),
    **dict.fromkeys(("arrow_hdfs", "hdfs"), "pyarrow"),
    **dict.fromkeys(("dbfs", "gist", "github", "webhdfs"), "requests"),
}
"""The module that a filesystem of fsspec's own needs."""


def schemes() -> frozenset[str]:
    """URL schemes that can be opened here."""
    import fsspec

    return frozenset(filter(_is_installed, fsspec.available_protocols())) - NO_STORAGES - FOLLOW_LINKS


def _is_installed(scheme: str) -> bool:
    """Whether a filesystem could be imported, as far as that shows without importing it."""
    from fsspec.registry import known_implementations

    module = known_implementations.get(scheme, {}).get("class", "fsspec").partition(".")[0]
    return all(find_spec(name) for name in (module, REQUIREMENTS.get(scheme, "fsspec")))


class FsspecBackend:
    """A storage behind one of fsspec's filesystems; ``options`` are that filesystem's own."""

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        from fsspec.core import url_to_fs

        scheme = url.partition("://")[0]
        if scheme in NO_STORAGES | FOLLOW_LINKS:
            raise ValueError(f"{scheme}:// is not opened by fsspec here: it may lead out of a storage")
        self.writable = scheme not in READ_ONLY
        settings = dict(options)
        if scheme in READ_ONLY:
            import aiohttp

            timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT, sock_read=READ_TIMEOUT)
            settings["client_kwargs"] = {"timeout": timeout, **settings.get("client_kwargs", {})}
        root: str
        self._filesystem: fsspec.AbstractFileSystem
        self._filesystem, root = url_to_fs(url, use_listings_cache=False, **settings)
        self._root = root.rstrip("/")

    def entry(self, path: str) -> Entry:
        """See :class:`~pilotage.movers.backend.Backend`."""
        self._filesystem.invalidate_cache()
        return _entry(self._filesystem.info(self._at(path)))

    def entries(self, folder: str) -> Iterator[tuple[str, Entry]]:
        """See :class:`~pilotage.movers.backend.Backend`."""
        self._filesystem.invalidate_cache()
        at = f"{self._at(folder)}/"
        # A web server lists a folder where its URL ends so; without the slash a file would be read as a list.
        for info in self._filesystem.ls(at if not self.writable else at.rstrip("/"), detail=True):
            name = info["name"].rstrip("/").removeprefix(at)
            if "/" not in name:
                yield name, _entry(info)

    @contextmanager
    def read(self, path: str) -> Iterator[IO[bytes]]:
        """See :class:`~pilotage.movers.backend.Backend`."""
        with self._filesystem.open(self._at(path), "rb", block_size=0) as stream:
            yield stream

    @contextmanager
    def create(self, path: str, part: str) -> Iterator[IO[bytes]]:
        """See :class:`~pilotage.movers.backend.Backend`."""
        target = self._at(path)
        folder = target.rpartition("/")[0]
        draft = f"{folder}/{part}"
        self._filesystem.makedirs(folder, exist_ok=True)
        sink = self._filesystem.open(draft, "wb")
        with nothing_left(draft, lambda: self._filesystem.rm_file(draft)):
            with sink:
                yield sink
            self._filesystem.mv(draft, target)

    def rename(self, source: str, target: str) -> None:
        """See :class:`~pilotage.movers.backend.Backend`."""
        self._filesystem.makedirs(self._at(target).rpartition("/")[0], exist_ok=True)
        self._filesystem.mv(self._at(source), self._at(target))

    def delete(self, path: str) -> None:
        """See :class:`~pilotage.movers.backend.Backend`."""
        self._filesystem.rm_file(self._at(path))

    def delete_folder(self, path: str, *, recursive: bool) -> None:
        """See :class:`~pilotage.movers.backend.Backend`."""
        if recursive:
            self._filesystem.rm(self._at(path), recursive=True)
        else:
            self._filesystem.rmdir(self._at(path))

    def _at(self, path: str) -> str:
        """Join a path to the root, never to the URL, which fsspec may read as a chain of filesystems."""
        return f"{self._root}/{path}" if path else self._root


def _entry(info: Mapping[str, Any]) -> Entry:
    if info.get("islink") or info["type"] == "link":
        return Entry("link")
    if info["type"] == "file":
        return Entry("file", info.get("size"))
    return Entry("folder" if info["type"] == "directory" else "other")
