"""The calls of another Pilotage, with a token of its own: submit, renew, look, fetch, cancel, explain."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pilotage.computing.web_service import Credentials, WebAnswer, WebService


class Refused(Exception):
    """The other Pilotage refuses what it was asked for; the message says why, in its own words."""


@dataclass(frozen=True, slots=True)
class PeerTask:
    """A task at the other Pilotage: its state, its error, and its one job, once that is made."""

    state: str
    error: str
    job: Mapping[str, Any] | None


class Peer:
    """Another Pilotage. Calls raise Refused, AnswerLost where nobody knows what was done, or OSError."""

    def __init__(self, url: str, credentials: Credentials) -> None:
        self.url = url.rstrip("/")
        self._service = WebService(f"{self.url}/api/v1", credentials)

    def check(self) -> None:
        """Find out whether it answers and knows us."""
        self._document("GET", "tasks", query={"limit": "1"})

    def submit(self, spec: Mapping[str, Any], lease: float, key: str) -> int:
        """Submit a task, once for each key; return its number."""
        body = {"tasks": [spec], "whole": True, "lease": lease}
        document = self._document("POST", "tasks", body, key=key)
        if document["refused"]:
            raise Refused("; ".join(_fault(fault) for fault in document["refused"][0]["errors"]))
        return int(document["tasks"][0]["id"])

    def named(self, key: str) -> int | None:
        """The number of the task that was submitted with a key; None where there is none."""
        found = self._document("GET", "tasks", query={"key": key, "limit": "1"})["tasks"]
        return int(found[0]["id"]) if found else None

    def renew(self, task: int, lease: float) -> PeerTask:
        """Let a task run on, and see how it is."""
        return self._seen(task, self._document("POST", f"tasks/{task}/renew", {"lease": lease}))

    def look(self, task: int) -> PeerTask:
        """See how a task is."""
        return self._seen(task, self._document("GET", f"tasks/{task}"))

    def cancel(self, task: int) -> PeerTask:
        """Cancel a task; one that has ended stays as it is."""
        return self._seen(task, self._document("POST", f"tasks/{task}/cancel"))

    def outputs(self, task: int) -> list[Mapping[str, Any]]:
        """The files that a task made: ``file``, ``name``, ``size`` and ``checksum`` of each."""
        found: list[Mapping[str, Any]] = self._document("GET", f"tasks/{task}/outputs")["files"]
        return found

    def fetch(self, file: str, size: int, target: Path) -> None:
        """Bring a file here, or what is not here of it yet."""
        with target.open("ab") as opened:
            if opened.tell() < size and (
                refusal := self._service.save("files/content", {"file": file}, opened)
            ):
                self._checked(refusal)
            if opened.tell() != size:
                raise OSError(f"{self.url}: {file} came with {opened.tell()} bytes, should have {size}")

    def streams(self, job: int) -> Mapping[str, str]:
        """The streams of a job's last attempt, as far as they are kept."""
        logs = self._document("GET", f"jobs/{job}/logs")["logs"]
        return {log["stream"]: "\n[...]\n".join(part["text"] for part in log["parts"]) for log in logs}

    def explained(self, job: int) -> list[str]:
        """Ask the other Pilotage for its decisions about a job, in lines."""
        lines: list[str] = self._document("GET", f"jobs/{job}/explain", query={"limit": "3"})["lines"]
        return lines

    def _seen(self, task: int, document: Mapping[str, Any]) -> PeerTask:
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
        """Raise where it is no answer to what was asked: Refused for good, OSError for now."""
        if answer.status < 400:
            return
        # Too late or too much for now: the same may be taken when it is asked again.
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
