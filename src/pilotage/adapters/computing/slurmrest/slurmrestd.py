"""Calls of slurmrestd, and how to read their answers. They use version 0.0.38 of its interface."""

import re
import threading
import time
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pilotage.adapters.computing.batch import BatchJob
from pilotage.adapters.computing.batch.profile import DOUBTFUL
from pilotage.adapters.computing.slurm import REMEDIES, exit_code, expanded, job_of
from pilotage.adapters.computing.web_service import AnswerLost, Credentials, WebAnswer, WebService
from pilotage.ports.computing import ElementState

API = "slurm/v0.0.38"
OPENAPI = ("openapi/v3", "openapi")
"""Paths at which slurmrestd describes its interface."""

FRESH = 1.0
"""Seconds for which other questions may reuse a listing of jobs."""

EXPIRED = (
    "failed while looking for jobs",
    "renew token_file (`scontrol token`), correct user, or wait where Slurm's controller is down",
)
"""The error message when slurmctld does not answer, in lower case, and who can mend it."""

ALREADY = ("invalid job id", "already completing or completed")
"""Parts of messages, in lower case, about ending a job that is gone already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmCredentials(Credentials):
    """A Slurm token, made by ``scontrol token``, and its user."""

    user: str

    def headers(self) -> dict[str, str]:
        """See ``Credentials.headers``."""
        return {"X-SLURM-USER-NAME": self.user, "X-SLURM-USER-TOKEN": self.token()}


class SlurmService:
    """A slurmrestd. Every call raises OSError if the service refuses it or cannot be reached."""

    def __init__(self, url: str, credentials: SlurmCredentials) -> None:
        self.url = url.rstrip("/")
        self._user = credentials.user
        self._service = WebService(url, credentials)
        self._lock = threading.Lock()
        self._listed: tuple[float, list[Mapping[str, Any]]] | None = None

    def submit(self, document: bytes) -> str:
        """Submit one job. Return its number. Raises AnswerLost if Slurm may or may not have accepted it."""
        try:
            answer = self._call("POST", "job/submit", document)
        finally:
            self._changed()
        number = answer.get("job_id")
        if not isinstance(number, int) or isinstance(number, bool) or number <= 0:
            raise AnswerLost(f"{self.url}: no number of a job is in the answer to its submission")
        return str(number)

    def number(self, name: str) -> str:
        """Return the number of the user's listed job with this name; empty if there is none."""
        numbers = [number for number, job in self.jobs(fresh=True).items() if job.name == name]
        return max(numbers, key=int, default="")

    def jobs(self, *, fresh: bool = False) -> Mapping[str, BatchJob]:
        """Return the user's jobs by number, at most a second old, or current with ``fresh``."""
        return {
            str(entry["job_id"]): _job(entry)
            for entry in self._entries(fresh=fresh)
            if entry.get("user_name") == self._user and isinstance(entry.get("job_id"), int)
        }

    def population(self, partitions: Collection[str]) -> tuple[int, int]:
        """Return everybody's running and waiting jobs in these partitions."""
        numbers = Counter[ElementState]()
        for entry in self._entries():
            job = _job(entry)
            if not set(partitions).isdisjoint(job.queue.split(",")):
                # One record represents all waiting jobs of an array.
                numbers[job.state] += sum(1 for _ in expanded(f"_[{entry.get('array_task_string') or 0}]"))
        return numbers["running"], numbers.total() - numbers["running"] - numbers["ended"]

    def _entries(self, *, fresh: bool = False) -> list[Mapping[str, Any]]:
        """Return everybody's jobs, at most a second old, or current with ``fresh``."""
        oldest = time.monotonic() - (0 if fresh else FRESH)
        with self._lock:
            if self._listed is None or self._listed[0] < oldest:
                # Take the time of the question: the answer may miss later changes.
                self._listed = time.monotonic(), self.listing("jobs")
            return self._listed[1]

    def cancel(self, number: str) -> None:
        """End a job. A job that has ended is left alone."""
        try:
            self._call("DELETE", f"job/{number}")
        except OSError as error:
            if not any(words in str(error).lower() for words in ALREADY):
                raise
        self._changed()

    def listing(self, noun: str) -> list[Mapping[str, Any]]:
        """Return all ``jobs``, ``nodes`` or ``partitions``."""
        entries = self._call("GET", noun).get(noun)
        return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []

    def _changed(self) -> None:
        """Forget the listing of jobs."""
        with self._lock:
            self._listed = None

    def _call(self, method: str, path: str, body: bytes = b"") -> Mapping[str, Any]:
        content = "application/json" if body else ""
        answer = self._service.call(
            method, f"{API}/{path}", body=body, content_type=content, repeatable=method == "GET"
        )
        document = _document(answer)
        if answer.status == 404 and not document.get("errors"):
            raise OSError(f"{self.url}: {self._other_versions()}")
        if answer.status != 200 or document.get("errors"):
            complaint = _complaint(answer, document)
            # A gateway or the service itself may fail while Slurm acts. A refusal by Slurm has errors in its
            # document, and no job.
            lost = bool(document.get("job_id")) or (answer.status >= 500 and not document.get("errors"))
            if lost or any(words in complaint.lower() for words in DOUBTFUL):
                raise AnswerLost(f"{self.url}: {complaint}")
            raise OSError(f"{self.url}: {complaint}")
        return document

    def _other_versions(self) -> str:
        """Return which versions of its interface the service has, where it lacks ours."""
        versions: set[bytes] = set()
        for path in OPENAPI:
            with suppress(OSError):
                versions |= set(
                    re.findall(rb"/slurm/(v\d+\.\d+\.\d+)/", self._service.call("GET", path).body)
                )
        listed = b", ".join(sorted(versions)).decode() or "no version that it lists"
        return (
            f"slurmrestd serves {listed}; Pilotage needs {API.partition('/')[2]}: start slurmrestd with "
            "`-s openapi/v0.0.38`, or use kind slurm, which runs Slurm's commands"
        )


def _document(answer: WebAnswer) -> Mapping[str, Any]:
    """Return the answer's object; empty if it has none, as when the service refuses the token."""
    try:
        document = answer.json()
    except OSError:
        document = None
    return document if isinstance(document, dict) else {}


def _complaint(answer: WebAnswer, document: Mapping[str, Any]) -> str:
    """Describe a refusal in Slurm's words, and who can mend it."""
    if answer.status == 401:
        return "the service does not accept the token: renew token_file (`scontrol token`), or correct user"
    errors = document.get("errors")
    records = [error for error in errors if isinstance(error, dict)] if isinstance(errors, list) else []
    words = "; ".join(str(error.get("description") or error.get("error")) for error in records)
    text = words[:600] or f"{answer.status} {answer.reason}"
    remedy = next((remedy for part, remedy in (*REMEDIES, EXPIRED) if part in text.lower()), "")
    return f"{text} ({remedy})" if remedy else text


def _job(entry: Mapping[str, Any]) -> BatchJob:
    reason, state = str(entry.get("state_reason") or ""), entry.get("job_state")
    return job_of(
        # Later versions return a list: the state and its flags.
        " ".join(map(str, state)) if isinstance(state, list) else str(state),
        "" if reason == "None" else reason,
        exit_code(str(entry.get("exit_code"))),
        str(entry.get("partition") or ""),
        str(entry.get("name") or ""),
    )
