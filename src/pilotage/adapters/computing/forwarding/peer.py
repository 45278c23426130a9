"""The calls to another Pilotage, with its token: submit, renew, look, fetch, cancel, explain."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pilotage.adapters.computing.web_service import Credentials, WebAnswer, WebService

PAGE = 10_000
"""Outputs of one request."""


class Refused(Exception):
    """The other Pilotage refuses a request. The message holds its own words."""


@dataclass(frozen=True, slots=True)
class PeerTask:
    """A task at the other Pilotage: its state, its error, and its one job, once that exists."""

    state: str
    error: str
    job: Mapping[str, Any] | None


class Peer:
    """Another Pilotage.

    Calls raise Refused, OSError, or AnswerLost if the call may have taken effect.
    """

    def __init__(self, url: str, credentials: Credentials) -> None:
        self.url = url.rstrip("/")
        self._service = WebService(f"{self.url}/api/v1", credentials)

    def check(self) -> None:
        """Check whether it answers and accepts our token."""
        self._document("GET", "tasks", query={"limit": "1"})

    def submit(self, spec: Mapping[str, Any], lease: float, key: str) -> int:
        """Submit a task, only once for each key. Return its number."""
        body = {"tasks": [spec], "whole": True, "lease": lease}
        document = self._document("POST", "tasks", body, key=key)
        if document["refused"]:
            raise Refused("; ".join(_fault(fault) for fault in document["refused"][0]["errors"]))
        return int(document["tasks"][0]["id"])

    def named(self, key: str) -> int | None:
        """Return the number of the task submitted with this key; None if there is none."""
        tasks = self._document("GET", "tasks", query={"key": key, "limit": "1"})["tasks"]
        return int(tasks[0]["id"]) if tasks else None

    def renew(self, task: int, lease: float) -> PeerTask:
        """Extend a task's lease. Return its state."""
        return self._task(task, self._document("POST", f"tasks/{task}/renew", {"lease": lease}))

    def look(self, task: int) -> PeerTask:
        """Return a task's state."""
        return self._task(task, self._document("GET", f"tasks/{task}"))

    def cancel(self, task: int) -> PeerTask:
        """Cancel a task. A task that has ended stays as it is."""
        return self._task(task, self._document("POST", f"tasks/{task}/cancel"))

    def outputs(self, task: int) -> list[Mapping[str, Any]]:
        """Return the files that a task made: ``file``, ``name``, ``size`` and ``checksum`` of each."""
        files: list[Mapping[str, Any]] = []
        after: dict[str, str] = {}
        while True:
            query = {"limit": f"{PAGE}", **after}
            page = self._document("GET", f"tasks/{task}/outputs", query=query)["files"]
            files += page
            # A server of an earlier release knows no pages, and sends all files in one answer.
            if len(page) != PAGE:
                return files
            after = {"after": page[-1]["file"]}

    def fetch(self, file: str, size: int, target: Path) -> None:
        """Fetch a file, or the part of it that is still missing here."""
        with target.open("ab") as opened:
            if opened.tell() < size and (
                refusal := self._service.save("files/content", {"file": file}, opened)
            ):
                self._checked(refusal)
            if opened.tell() != size:
                raise OSError(f"{self.url}: {file} came with {opened.tell()} bytes, should have {size}")

    def streams(self, job: int) -> Mapping[str, str]:
        """Return the kept streams of a job's last attempt."""
        logs = self._document("GET", f"jobs/{job}/logs")["logs"]
        return {log["stream"]: "\n[...]\n".join(part["text"] for part in log["parts"]) for log in logs}

    def failure_kind(self, job: int) -> str:
        """Return how a job's last attempt failed; empty if the other Pilotage does not say."""
        failed = self._document("GET", f"jobs/{job}").get("failed_attempts")
        return str(failed[-1].get("kind", "")) if failed else ""

    def explained(self, job: int) -> list[str]:
        """Return the other Pilotage's decisions about a job, in lines."""
        lines: list[str] = self._document("GET", f"jobs/{job}/explain", query={"limit": "3"})["lines"]
        return lines

    def _task(self, task: int, document: Mapping[str, Any]) -> PeerTask:
        jobs = self._document("GET", f"tasks/{task}/jobs", query={"limit": "1"})["jobs"]
        return PeerTask(document["state"], document["error"], jobs[0] if jobs else None)

    def _document(
        self,
        method: str,
        path: str,
        body: object = None,
        query: Mapping[str, str] | None = None,
        key: str = "",
    ) -> Any:
        answer = self._service.call(
            method,
            path,
            body=b"" if body is None else json.dumps(body).encode(),
            content_type="" if body is None else "application/json",
            query=query,
            headers={"Idempotency-Key": key} if key else {},
        )
        self._checked(answer)
        return answer.json()

    def _checked(self, answer: WebAnswer) -> None:
        """Raise unless the request succeeded: Refused for good, OSError for now."""
        if answer.status < 400:
            return
        # Too late or too much for now: a later request may succeed.
        if answer.status >= 500 or answer.status in (408, 429):
            raise OSError(f"{self.url}: {answer.status} {answer.reason} {_detail(answer)}")
        if answer.status == 422 and (document := answer.json()) and document.get("refused"):
            raise Refused("; ".join(_fault(fault) for fault in document["refused"][0]["errors"]))
        raise Refused(f"{answer.status} {answer.reason}: {_detail(answer)}")


def _detail(answer: WebAnswer) -> str:
    try:
        detail = answer.json()["detail"]
    except (OSError, KeyError, TypeError):
        return answer.body[:300].decode(errors="replace")
    return "; ".join(map(_fault, detail)) if isinstance(detail, list) else str(detail)


def _fault(fault: Mapping[str, str]) -> str:
    return f"{fault['field']}: {fault['message']}"
