"""The server as a pilot sees it: four calls over HTTP, the token in the header and nowhere else."""

import json
import random
from collections.abc import Sequence
from typing import Any

import httpx

from .payload import now


class UnreachableError(Exception):
    """No usable answer came; ``heard`` tells whether the server may have acted on the call all the same."""

    def __init__(self, message: str, *, heard: bool) -> None:
        super().__init__(message)
        self.heard = heard


class GivenUpError(Exception):
    """The server does not count on this pilot any more: it must kill everything and exit."""


class RefusedError(Exception):
    """The server does not accept what was sent."""


class Pause:
    """When to try again: twice as long after every failure, a little at random, until there is success."""

    def __init__(self, *, longest: float, first: float = 0.25) -> None:
        self.until = 0.0
        self.longest = longest
        self._first = self._next = first

    def failed(self) -> float:
        """Pause; returns how long, in s."""
        pause = self._next * random.uniform(0.75, 1.25)
        self.until = now() + pause
        self._next = min(2 * self._next, self.longest)
        return pause

    def succeeded(self) -> None:
        """No pause, and the next is short again."""
        self.until, self._next = 0.0, self._first


class Server:
    """A pilot's server. Every call raises UnreachableError, GivenUpError or RefusedError."""

    def __init__(self, url: str, token: str, timeout: float = 30) -> None:
        self._client = httpx.AsyncClient(
            base_url=f"{url.rstrip('/')}/api/v1/pilot/",
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            timeout=httpx.Timeout(timeout, connect=min(5, timeout)),
        )

    async def match(self, cores: int, memory: float, walltime: float, max_jobs: int) -> dict[str, Any]:
        """Works for what is free now, with the server's ``lease``, ``heartbeat`` and ``idle`` in s."""
        free = {"cores": cores, "memory": memory, "walltime": walltime, "max_jobs": max_jobs}
        return await self._call("POST", "match", free)

    async def payload(self, task: int) -> dict[str, str]:
        """The payload files of a task by name."""
        files: dict[str, str] = (await self._call("GET", f"payload/{task}"))["files"]
        return files

    async def report(
        self, holding: Sequence[tuple[int, int]], reports: Sequence[dict[str, Any]]
    ) -> list[tuple[int, int]]:
        """Tell what became of jobs, and which are held; the answer is those that must be stopped."""
        answer = await self._call("POST", "report", {"holding": holding, "reports": reports})
        return [(int(job), int(attempt)) for job, attempt in answer["stop"]]

    async def end(self, reason: str) -> None:
        """Say that this pilot ends."""
        await self._call("POST", "end", {"reason": reason})

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        content = None if body is None else json.dumps(body)
        try:
            response = await self._client.request(method, path, content=content)
        except httpx.TransportError as error:
            heard = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
            raise UnreachableError(f"{method} {path}: {error!r}", heard=heard) from error
        code = response.status_code
        if code in (401, 403, 410):
            raise GivenUpError(f"{method} {path}: {code} {_detail(response)}")
        if code >= 500 or code in (408, 425, 429):
            raise UnreachableError(f"{method} {path}: {code} {_detail(response)}", heard=True)
        if not response.is_success:
            raise RefusedError(f"{method} {path}: {code} {_detail(response)}")
        try:
            document: dict[str, Any] = response.json() if response.content else {}
        except ValueError as error:
            raise UnreachableError(f"{method} {path}: {code} without JSON", heard=True) from error
        return document


def _detail(response: httpx.Response) -> str:
    return " ".join(response.text.split())[:300]
