"""The REST interface of an FTS server."""

import re
import threading
from collections.abc import Collection, Mapping, Sequence
from http import HTTPStatus
from http.cookiejar import DefaultCookiePolicy
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pilotage.adapters.movers.storages.backend import StorageOptionError
from pilotage.ports.moving import StorageError

if TYPE_CHECKING:
    import requests

OPTIONS = {"token_file", "cert_file", "ca_file", "activity", "poll", "unmanaged_tokens"}
TIMEOUTS = (30.0, 120.0)
"""Time limits in s for connecting, and without a byte."""

FILE_FIELDS = "file_id,file_state,reason,file_metadata,source_surl,dest_surl,filesize,transferred"
UNDER_WAY = "STAGING,TOKEN_PREP,SUBMITTED,READY,ACTIVE"
"""States of unfinished jobs. A server ignores states that it does not know."""

AUTHENTICATION_TIMEOUT = 419
"""The status with which FTS refuses a job whose owner has no valid delegated proxy."""

NO_PROXY = re.compile(r"delegated (proxy|credential)|delegation (not )?found|no delegation", re.IGNORECASE)
"""Words of the same refusal under another status."""

Answer = Mapping[str, Any]


class NoAnswerError(StorageError):
    """The connection broke before the server answered, so it may or may not have acted."""


class JobRefusedError(StorageError):
    """The server refuses a job in this form."""


class NoProxyError(StorageError):
    """The server cannot use our proxy, even if it claims to have one."""


class FtsClient:
    """One FTS server, called with one identity. Raises StorageError with the server's own message."""

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        if unknown := sorted(set(options) - OPTIONS):
            raise StorageOptionError(f"fts: unknown options {unknown}; known are {sorted(OPTIONS)}")
        if ("token_file" in options) == ("cert_file" in options):
            raise StorageOptionError("fts: give either token_file or cert_file")
        if not isinstance(options.get("poll", 10), int | float) or options.get("poll", 10) <= 0:
            raise StorageOptionError("fts: poll must be a number of seconds above 0")
        if not urlsplit(url).hostname:
            raise ValueError(f"{url!r} has no host; give one, as in https://fts.example:8446")
        self.url = url.rstrip("/")
        self._options = dict(options)
        self._lock = threading.Lock()
        self._session: requests.Session | None = None

    @property
    def certificate(self) -> Path | None:
        """Return the file with certificate, chain and key for delegation; None if we have a token."""
        name = self._options.get("cert_file")
        return Path(name).expanduser() if name else None

    def whoami(self) -> str:
        """Return the delegation ID of our identity."""
        return str(_mapping(self._json("GET", "/whoami")).get("delegation_id", ""))

    def submit(self, files: Sequence[Answer], metadata: Answer) -> str:
        """Submit a job. Raises NoAnswerError if the job may exist."""
        params: dict[str, Any] = {
            "job_metadata": metadata,
            # We check size and checksum of each copy ourselves before naming it, and count the attempts.
            "verify_checksum": "none",
            "retry": -1,
            "overwrite": True,
        }
        if self._options.get("unmanaged_tokens"):
            params["unmanaged_tokens"] = True
        job = _mapping(self._json("POST", "/jobs", json={"files": list(files), "params": params}))
        return str(job.get("job_id", ""))

    def files(self, jobs: Collection[str]) -> dict[str, list[Answer]]:
        """Return the files of jobs, without jobs that the server does not have."""
        if not jobs:
            return {}
        path, query = f"/jobs/{','.join(jobs)}", {"files": FILE_FIELDS}
        document = self._json("GET", path, query, allowed=(HTTPStatus.NOT_FOUND,))
        answers = document if isinstance(document, list) else [document]
        return {
            str(job["job_id"]): [_mapping(file) for file in job["files"]]
            for job in map(_mapping, answers)
            if isinstance(job.get("files"), list)
        }

    def under_way(self) -> dict[str, Answer]:
        """Return the metadata of our unfinished jobs, by job."""
        query = {"state_in": UNDER_WAY, "dlg_id": self.whoami(), "fields": "job_id,job_metadata"}
        document = self._json("GET", "/jobs", query)
        jobs = map(_mapping, document if isinstance(document, list) else [])
        return {
            str(job.get("job_id")): job["job_metadata"]
            for job in jobs
            if isinstance(job.get("job_metadata"), Mapping)
        }

    def cancel(self, job: str, files: Collection[int]) -> None:
        """Give up files of a job. Finished ones stay as they are."""
        self._json("DELETE", f"/jobs/{job}/files/{','.join(map(str, files))}")

    def text(self, method: str, path: str, body: str | None = None) -> str:
        """Make a request that is answered with text."""
        return self._ask(method, path, data=body).text

    def _json(
        self,
        method: str,
        path: str,
        query: Answer | None = None,
        json: Any = None,
        allowed: Collection[int] = (),
    ) -> Any:
        answer = self._ask(method, path, allowed, params=query, json=json)
        try:
            return answer.json()
        except ValueError as error:
            raise StorageError(f"{self.url}{path}: answers no JSON: {answer.text[:200]!r}") from error

    def _ask(self, method: str, path: str, allowed: Collection[int] = (), **more: Any) -> "requests.Response":
        import requests

        headers = {"Accept": "application/json"}
        if name := self._options.get("token_file"):
            headers["Authorization"] = f"Bearer {Path(name).expanduser().read_text().strip()}"
        try:
            answer = self._open().request(
                method,
                self.url + path,
                headers=headers,
                timeout=TIMEOUTS,
                allow_redirects=False,
                # Set it with each request: environment variables override a session's setting.
                verify=self._options.get("ca_file", True),
                cert=str(self.certificate) if self.certificate else None,
                **more,
            )
        except (requests.exceptions.ConnectTimeout, requests.exceptions.SSLError) as error:
            raise StorageError(f"{method} {self.url}{path}: {error}") from error
        except requests.RequestException as error:
            raise NoAnswerError(f"{method} {self.url}{path}: {error}") from error
        if answer.ok or answer.status_code in allowed:
            return answer
        raise _failure(answer)(f"{method} {self.url}{path}: {answer.status_code} {_words(answer)}")

    def _open(self) -> "requests.Session":
        """Return the session with its connections. It uses the environment's proxies, but no ``.netrc``."""
        import requests

        with self._lock:
            if self._session is None:
                self._session = requests.Session()
                self._session.auth = lambda request: request
                self._session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=()))
            return self._session


def _mapping(value: Any) -> Answer:
    return value if isinstance(value, Mapping) else {}


def _failure(answer: "requests.Response") -> type[StorageError]:
    if answer.status_code == AUTHENTICATION_TIMEOUT or NO_PROXY.search(_words(answer)):
        return NoProxyError
    refused = answer.status_code in (HTTPStatus.BAD_REQUEST, HTTPStatus.CONFLICT)
    return JobRefusedError if refused else StorageError


def _words(answer: "requests.Response") -> str:
    """Return the server's error message: ``message`` of a JSON document, or plain text."""
    try:
        message = _mapping(answer.json()).get("message", answer.text)
    except ValueError:
        message = answer.text
    return f"{answer.reason}: {str(message).strip()[:500]}"
