"""Web servers as storages: plain HTTP to read, WebDAV to write, list and clear."""

import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from cachetools import FIFOCache

from pilotage.adapters.movers.copies.checksums import DIGESTS, digest
from pilotage.adapters.movers.copies.ranged import MOST, RangedStream, sample_end
from pilotage.adapters.movers.copies.third_party import CannotFetch
from pilotage.adapters.movers.http.downloads import Download, plain_file
from pilotage.adapters.movers.http.http_bodies import (
    Body,
    as_body,
    body_size,
    check_answer,
    whole_text,
    without_body,
)
from pilotage.adapters.movers.http.http_copies import FORWARDED, HttpCopies
from pilotage.adapters.movers.http.http_moves import HttpMoves
from pilotage.adapters.movers.http.http_quota import quota
from pilotage.adapters.movers.http.listings import NO_WEBDAV, PROPFIND, from_index, from_multistatus
from pilotage.adapters.movers.http.redirects import Redirects, check_option
from pilotage.adapters.movers.http.upload_doors import QUESTION, UploadDoor
from pilotage.adapters.movers.storages.backend import Backend, LinkError, PathEntry, StorageOptionError
from pilotage.adapters.movers.storages.backend_calls import empty, explained, nothing_left, sibling_path
from pilotage.agent.files.web_addresses import canonical, server_of, without_query
from pilotage.model.values.urls import file_url
from pilotage.ports.moving import Delivered, Grant, Progress, Readable, Space, StorageError

if TYPE_CHECKING:
    import requests

OPTIONS = {"headers", "client_kwargs", "token_file", "ca_file", "cert_file", "redirects_to"}
SECRETS = {"authorization", "cookie", "proxy-authorization"}
"""Headers that hold credentials."""

TIMEOUTS = (30.0, 300.0)
"""Time limits in s for connecting, and without a byte. A large file may take any time."""

CONNECTIONS = 64
"""Most connections kept open per server."""

MOST_REDIRECTS = 5
DISCARD_PAUSES = (0, 0.1, 0.3, 0.6)
"""Seconds before each request that deletes a file after its PUT broke."""

ELSEWHERE = "elsewhere://"
"""The session's prefix for connections to hosts other than the storage's own."""

KNOWN_SERVERS = 1000
"""Most redirection targets whose settings are kept."""

KNOWN_FOLDERS = 10_000
"""Most folders of a server that are remembered as existing."""


class HttpBackend:
    """A folder of a web server.

    Options: ``headers`` for every request; ``token_file``, a file with a bearer token, read each time;
    ``ca_file`` with trusted authorities; ``cert_file``, a client certificate with its key, such as an X.509
    proxy; ``redirects_to``, the hosts that it may redirect to. Our headers go to no server but the storage's.
    """

    writable = True

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        if unknown := sorted(set(options) - OPTIONS):
            raise StorageOptionError(f"http: unknown options {unknown}; known are {sorted(OPTIONS)}")
        self._root = canonical(url).rstrip("/")
        self._host = urlsplit(self._root).hostname
        if not self._host:
            raise ValueError(f"{url!r} has no host; give one, as in https://host/path")
        self._headers = {**options.get("client_kwargs", {}).get("headers", {}), **options.get("headers", {})}
        if secret := sorted(name for name in self._headers if name.lower() in SECRETS):
            raise StorageOptionError(
                f"http: headers stand in the federation, which is no place for {secret[0]}: write the token "
                "to a file that the server alone may read, and name that with token_file"
            )
        named = options.get("redirects_to")
        check_option("http", named)
        self._redirects = Redirects(self._root, named)
        self._token_file = options.get("token_file")
        self._trust: Any = options.get("ca_file", True)
        self._certificate = options.get("cert_file")
        self._lock = threading.Lock()
        self._session: requests.Session | None = None
        self._settings: FIFOCache[tuple[str, ...], Any] = FIFOCache(KNOWN_SERVERS)
        self._folders: FIFOCache[str, None] = FIFOCache(KNOWN_FOLDERS)
        self._plain = False
        self._door = UploadDoor(self.request, self.delete)
        self._copies, self._moves = HttpCopies(self), HttpMoves(self, self._root)

    @property
    def origin(self) -> str:
        """Return scheme, host and port of the server."""
        return "://".join(urlsplit(self._root)[:2])

    def entry(self, path: str) -> PathEntry:
        """See ``Backend``."""
        for name, entry in self._propfind(path, depth=0) or ():
            if not name:
                return entry
        with self.request("HEAD", path) as answer:
            if urlsplit(answer.url).path.endswith("/"):
                return PathEntry("folder")
            return PathEntry("file", body_size(answer))

    def entries(self, folder: str) -> Iterator[tuple[str, PathEntry]]:
        """See ``Backend``. Without WebDAV, read the server's index page."""
        at = f"{folder}/".lstrip("/")
        if (listing := self._propfind(at, depth=1)) is not None:
            return (yield from ((name, entry) for name, entry in listing if name))
        with self.request("GET", at) as answer:
            if "html" not in answer.headers.get("Content-Type", ""):
                raise StorageError(f"{answer.url} is no listing: its server has neither WebDAV nor an index")
            yield from from_index(whole_text(answer), urlsplit(answer.url).path)

    def read(self, path: str) -> AbstractContextManager[Download]:
        """See ``Backend``."""
        return self.read_from(path, 0)

    @contextmanager
    def read_from(self, path: str, start: int) -> Iterator[Download]:
        """See ``SeekableBackend``."""
        with Download(partial(self._ask_for, path), start) as download:
            yield plain_file(download, path)

    @contextmanager
    def read_ranges(self, path: str, start: int, size: int) -> Iterator[Readable]:
        """See ``RangedBackend``."""
        ask, begun = partial(self._ask_for, path), time.monotonic()
        with Download(ask, start, sample_end(start, size)) as first:
            answered = time.monotonic() - begun
            if not first.partial:
                yield plain_file(first, path)
                return
            if ranged := first.ranged:
                total, version = ranged
                # If another server gives the bytes, each request costs both servers one.
                limit = MOST if server_of(first.url) == server_of(self._root) else 1
                more = partial(Download, ask, version=version)
                with RangedStream(first, more, start, total, answered, limit=limit) as stream:
                    yield stream
                return
        with self.read_from(path, start) as download:
            yield download

    def _ask_for(self, path: str, headers: Mapping[str, str]) -> "AbstractContextManager[requests.Response]":
        return self.request("GET", path, headers=headers)

    def store(self, path: str, part: str, chunks: Iterable[bytes], size: int) -> None:
        """See ``Backend``."""
        draft = sibling_path(path, part)
        self._make(path.rpartition("/")[0])
        if size:
            self._door.learn(sibling_path(path, f"{part.removesuffix('.part')}-ask.part"))
        with nothing_left(draft, lambda: self._discard(draft)), self._remembered(path):
            with self.request("PUT", draft, body=as_body(chunks, size)):
                pass
            self._moves.move(draft, path)

    def fetch(self, source: Backend, path: str, draft: str, size: int, progress: Progress) -> None:  # noqa: ARG002
        """See ``FetchingBackend``."""
        if not isinstance(source, HttpBackend):
            raise CannotFetch("only one of them is a web server")
        self._make(draft.rpartition("/")[0])
        with self._remembered(draft):
            self._copies.fetch(source, path, draft, progress)

    def describe(self, path: str, kind: str) -> Delivered | None:
        """See ``FetchingBackend``; not every server computes checksums."""
        with self.request("HEAD", path, headers={"Want-Digest": DIGESTS[kind]}) as answer:
            checksum, size = digest(answer.headers.get("Digest", ""), kind), body_size(answer)
            return Delivered(size=size, checksum=checksum) if checksum and size is not None else None

    def grant(self, path: str, size: int | None) -> Grant | None:
        """See ``GrantingBackend``. The current token goes with it.

        A client certificate is not given to others.
        """
        if self._certificate:
            return None
        if size is not None:
            self._make(path.rpartition("/")[0])
        authorities = Path(self._trust).expanduser().read_text() if isinstance(self._trust, str) else ""
        return Grant(url=self.url(path), headers=self.own_headers(), authorities=authorities)

    def space(self) -> Space | None:
        """See ``SpaceBackend``: the quota of WebDAV."""
        return quota(self.request)

    def rename(self, source: str, target: str) -> None:
        """See ``Backend``."""
        self._make(target.rpartition("/")[0])
        with self._remembered(target):
            self._moves.move(source, target)

    def delete(self, path: str) -> None:
        """See ``Backend``."""
        with self.request("DELETE", path):
            pass

    def delete_folder(self, path: str, *, recursive: bool) -> None:
        """See ``Backend``.

        WebDAV cannot delete a folder only if it is empty, so such a folder stays.
        """
        if not recursive:
            return
        with self._lock:
            self._folders.clear()
        try:
            self.delete(f"{path}/")
        except StorageError:
            # XRootD's servers, for example, delete no folder with content.
            empty(self, path)
            self.delete(f"{path}/")

    @contextmanager
    def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: "Body | bytes | None" = None,
        allowed: Collection[int] = (),
    ) -> Iterator["requests.Response"]:
        """Make a request and follow its redirections.

        If a server redirects uploads, ask it for the target first, because a file's chunks can be sent only
        once. Raises FileNotFoundError, and StorageError for any other failure that is not ``allowed``.
        """
        url = origin = self.url(path)
        questions = self._door.redirects if isinstance(body, Body) else 0
        redirections: list[requests.Response] = []
        while len(redirections) <= MOST_REDIRECTS:
            # Scheme and host must match: other servers do not get our tokens.
            home = url is origin or server_of(url) == server_of(origin)
            fields = {**(self.own_headers() if home else {}), **(headers or {})}
            if not home:
                fields = {name: value for name, value in fields.items() if not name.startswith(FORWARDED)}
            # A body compressed on the way would have another size than the file.
            asks = len(redirections) < questions
            sent = QUESTION if asks else body
            with self._sent(method, url, {"Accept-Encoding": "identity", **fields}, sent) as answer:
                if answer.is_redirect:
                    redirections.append(answer)
                    url = urljoin(url, answer.headers["Location"])
                elif asks:
                    questions = 0  # it keeps this one
                    continue
                else:
                    answer.history = redirections
                    check_answer(answer, f"{method} {url}", allowed)
                    yield answer
                    return
            self._check_redirect(f"{method} {origin}", url, body)
        raise StorageError(f"{method} {origin}: sent on more than {MOST_REDIRECTS} times")

    def _check_redirect(self, label: str, url: str, body: "Body | bytes | None") -> None:
        """Raise StorageError for an address that a request must not be redirected to."""
        if late := isinstance(body, Body) and body.started:
            # It cannot be sent again: its chunks come from the source.
            self._door.forget()
        if late or urlsplit(url).scheme not in ("http", "https"):
            remark = ", since its content is on the way: the next attempt asks first" if late else ""
            raise StorageError(f"{label}: sent on to {without_query(url)}, which is not followed{remark}")
        with explained(StorageError, label):
            self._redirects.check(url)

    def _sent(
        self, method: str, url: str, headers: Mapping[str, str], body: "Body | bytes | None"
    ) -> "requests.Response":
        """Send one request over the session's connections.

        Bypass the session itself: for each request it searches the environment for proxies and authorities
        and merges cookies. For a small file that takes as long as everything else.
        """
        import requests

        session, parts = self._open(), urlsplit(url)
        server = parts[:2]
        with self._lock:
            if (settings := self._settings.get(server)) is None:
                settings = session.merge_environment_settings(url, {}, True, self._trust, self._certificate)
                self._settings[server] = settings
        if body is None:
            request = without_body(method, url, headers)
        else:
            request = requests.Request(method, url, headers=headers, data=body).prepare()
        adapter = session.get_adapter(url if parts.hostname == self._host else ELSEWHERE)
        answer: requests.Response = adapter.send(request, timeout=TIMEOUTS, **settings)
        self._moves.recognise(answer)
        return answer

    def _propfind(self, path: str, *, depth: int) -> list[tuple[str, PathEntry]] | None:
        """Return names and entries that WebDAV lists for a path; None if the server has no WebDAV."""
        if self._plain:
            return None
        headers = {"Depth": str(depth), "Content-Type": "application/xml"}
        with self.request("PROPFIND", path, headers=headers, body=PROPFIND, allowed=NO_WEBDAV) as answer:
            if answer.status_code == HTTPStatus.MULTI_STATUS:
                at, raw = urlsplit(answer.url).path, self._moves.is_xrootd
                return list(from_multistatus(whole_text(answer), at, may_be_raw=raw))
            self._plain = answer.status_code in (HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED)
            return None

    def _discard(self, draft: str) -> None:
        """Delete the remains of a broken PUT. Until the server notices, the file is locked or missing."""
        for number, pause in enumerate(DISCARD_PAUSES, 1):
            time.sleep(pause)
            try:
                self.delete(draft)
                return
            except FileNotFoundError:
                continue
            except StorageError:
                if number == len(DISCARD_PAUSES):
                    raise

    def _make(self, folder: str) -> None:
        """Make a folder and its parents. Folders made once are assumed to exist."""
        parts = folder.split("/") if folder else []
        root = [""] if urlsplit(self._root).path else []
        for path in (*root, *("/".join(parts[: depth + 1]) for depth in range(len(parts)))):
            with self._lock:
                if path in self._folders:
                    continue
            # A server answers 405 if the folder exists. One that makes folders by itself may refuse.
            with self.request("MKCOL", f"{path}/".lstrip("/"), allowed=(*NO_WEBDAV, HTTPStatus.CONFLICT)):
                pass
            with self._lock:
                self._folders[path] = None

    @contextmanager
    def _remembered(self, path: str) -> Iterator[None]:
        """Forget the folders made so far when writing fails: they may have been deleted.

        If a file has the name of a folder, raise LinkError: servers answer 500, or 409.
        """
        try:
            yield
        except Exception as error:
            with self._lock:
                self._folders.clear()
            if isinstance(error, StorageError):
                self._check_folders(path)
            raise

    def _check_folders(self, path: str) -> None:
        while path := path.rpartition("/")[0]:
            with suppress(FileNotFoundError, StorageError):
                if self.entry(path).kind != "file":
                    return
                break
        if path:
            raise LinkError(f"{path} is in the way: a file, not a folder")

    def own_headers(self) -> dict[str, str]:
        """Return the headers for every request, including the token."""
        if self._token_file is None:
            return self._headers
        token = Path(self._token_file).expanduser().read_text().strip()
        return {**self._headers, "Authorization": f"Bearer {token}"}

    def url(self, path: str) -> str:
        """Return the address of a path. Raises WrongFileError for one that the server cannot hold."""
        self._moves.check(path)
        return file_url(self._root, path)

    def _open(self) -> "requests.Session":
        """Return the session with its connections. It uses the environment's proxies, but no ``.netrc``."""
        import requests
        from requests.adapters import HTTPAdapter
        from urllib3 import Retry

        from pilotage.adapters.movers.http.guarded_connections import GuardedAdapter

        with self._lock:
            if self._session is None:
                # A server may close a kept connection just when it is reused.
                again = Retry(2, read=1, status=0, redirect=0, allowed_methods=("GET", "HEAD", "PROPFIND"))
                self._session = requests.Session()
                settings: dict[str, Any] = {"pool_maxsize": CONNECTIONS, "max_retries": again}
                for scheme in ("http://", "https://"):
                    self._session.mount(scheme, HTTPAdapter(**settings))
                self._session.mount(ELSEWHERE, GuardedAdapter(self._redirects, **settings))
            return self._session
