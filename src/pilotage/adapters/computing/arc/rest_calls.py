"""The calls of ARC's REST interface, version 1.0, that pilots need. A malformed answer raises OSError."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pilotage.adapters.computing.options import batches
from pilotage.adapters.computing.web_service import GATEWAYS, AnswerLost, WebAnswer, WebService
from pilotage.model.values.phrases import plural

API = "rest/1.0"
MOST_AT_ONCE = 200
"""Most jobs in one call."""

LIVE = (
    "ACCEPTING,ACCEPTED,PREPARING,PREPARED,SUBMITTING,QUEUING,RUNNING,HELD,EXITINGLRMS,OTHER,EXECUTED,"
    "FINISHING,KILLING"
)
"""The states of jobs that have not ended."""

LONGEST_REASON = 300


class ArcJob(NamedTuple):
    """A job that has not ended, with its ``state``; or the ``error`` that prevented it."""

    id: str
    state: str
    error: str = ""


class ArcJobs:
    """The jobs of one identity at one ARC service."""

    def __init__(self, service: WebService) -> None:
        self._service = service

    def create(self, descriptions: bytes, count: int) -> list[ArcJob]:
        """Create a job for each description.

        Raises AnswerLost if the service may have created them.
        """
        answer = self._call(
            "POST",
            "jobs",
            query={"action": "new"},
            body=descriptions,
            content_type="application/xml",
            repeatable=False,
        )
        entries = list(_entries(answer))
        if len(entries) != count:
            raise AnswerLost(f"{count} descriptions have {len(entries)} answers")
        return [_created(entry) for entry in entries]

    def upload(self, job: str, name: str, content: bytes) -> None:
        """Put an input file into a job's session directory. Raises OSError if the service refuses it."""
        self._call("PUT", f"jobs/{job}/session/{name}", body=content)

    def live(self) -> dict[str, str]:
        """Return the jobs that have not ended, with the states that the service itself knows now."""
        answer = self._call("GET", "jobs", query={"state": LIVE})
        return {_text(entry, "id"): _text(entry, "state") for entry in _entries(answer)}

    def states(self, jobs: Collection[str]) -> dict[str, str]:
        """Return the states of known jobs, as the service's information provider last saw them."""
        answers = self._each("status", jobs)
        return {_text(entry, "id"): _text(entry, "state") for entry in answers if _is_done(entry)}

    def activities(self, jobs: Collection[str]) -> dict[str, Mapping[str, Any]]:
        """Return the GLUE2 records of the jobs that have one."""
        records: dict[str, Mapping[str, Any]] = {}
        for entry in filter(_is_done, self._each("info", jobs)):
            document = entry.get("info_document")
            activity = document.get("ComputingActivity") if isinstance(document, dict) else None
            if isinstance(activity, dict):
                records[_text(entry, "id")] = activity
        return records

    def names(self, jobs: Collection[str]) -> dict[str, str]:
        """Return the names of jobs. The service's own files name jobs without a record."""
        names = {job: _text(record, "Name") for job, record in self.activities(jobs).items()}
        for job in jobs:
            if not names.get(job):
                local = self._service.call("GET", f"{API}/jobs/{job}/diagnose/local").body
                lines = local.decode(errors="replace").splitlines()
                names[job] = next((line[8:] for line in lines if line.startswith("jobname=")), "")
        return names

    def kill(self, jobs: Collection[str]) -> None:
        """End jobs. Jobs that have ended, or that the service does not know, stay as they are.

        Raises OSError if the service refuses to end some. It still ends the others.
        """
        answers = list(self._each("kill", jobs))
        refused = [entry for entry in answers if not _is_done(entry) and _text(entry, "status-code") != "404"]
        if refused:
            raise OSError(f"ARC does not end {plural(len(refused), 'job')}: {_text(refused[0], 'reason')}")

    def computing_service(self) -> Mapping[str, Any]:
        """Return the service's GLUE2 description of itself."""
        record = self._call("GET", "info").json()
        for key in ("Domains", "AdminDomain", "Services", "ComputingService"):
            record = record.get(key) if isinstance(record, dict) else None
        return record if isinstance(record, dict) else {}

    def _each(self, action: str, jobs: Collection[str]) -> Iterator[Mapping[str, Any]]:
        """Perform an action on jobs. Yield the answers about these jobs, by their ``id``."""
        for part in batches(list(jobs), MOST_AT_ONCE):
            body = json.dumps({"job": [{"id": job} for job in part]}).encode()
            answer = self._call(
                "POST", "jobs", query={"action": action}, body=body, content_type="application/json"
            )
            for entry in _entries(answer):
                # Do not believe a service that answers about other jobs.
                if _text(entry, "id") in part:
                    yield entry

    def _call(self, method: str, path: str, **arguments: Any) -> WebAnswer:
        answer = self._service.call(method, f"{API}/{path}", **arguments)
        if not 200 <= answer.status < 300:
            reason = _printable(f"{answer.status} {answer.reason}")
            kind = AnswerLost if answer.status in GATEWAYS else OSError
            raise kind(f"ARC refuses {method} {path}: {reason}{HINTS.get(answer.status, '')}")
        return answer


HINTS: Mapping[int, str] = {
    401: "; the certificate or token is not accepted",
    403: "; the service knows no user for this certificate or token",
    404: "; is the endpoint right?",
}


def _entries(answer: WebAnswer) -> Sequence[Mapping[str, Any]]:
    """Return the entries of an answer about jobs.

    Version 1.0 writes a list with one entry as the entry alone.
    """
    document = answer.json()
    if document is None:
        return []
    jobs = document.get("job", []) if isinstance(document, dict) else None
    entries = [jobs] if isinstance(jobs, dict) else jobs
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise OSError(f"the answer is no list of jobs: {_printable(repr(document))}")
    return entries


def _is_done(entry: Mapping[str, Any]) -> bool:
    """Return whether the service performed the action on the job."""
    return _text(entry, "status-code")[:1] == "2"


def _created(entry: Mapping[str, Any]) -> ArcJob:
    job = _text(entry, "id")
    if _is_done(entry) and job.isalnum() and job.isascii():
        return ArcJob(job, "ACCEPTING")
    return ArcJob("", "", _text(entry, "reason") or "refused without a reason")


def _text(entry: Mapping[str, Any], key: str) -> str:
    """Return a value as one line of text. Some versions write numbers as text, others as numbers."""
    value = entry.get(key)
    return _printable(str(value)) if isinstance(value, str | int) else ""


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text[:LONGEST_REASON])
