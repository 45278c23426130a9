# Written by `make docs` from ../_async; do not edit.
"""Tasks and jobs as snapshots, with the requests that concern each."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, Self

from pilotage.client.errors import TaskFailed
from pilotage.client.records import ExplainedRecord, Record, Table, required
from pilotage.client.subjects import RequestSubject
from pilotage.client.wanted import Fetched
from pilotage.model.records.states import ENDED


class Requests(Protocol):
    """The requests of a client that concern one task or job."""

    def task(self, task: RequestSubject) -> "Task":
        """Return a task."""

    def job(self, job: RequestSubject) -> "Job":
        """Return a job."""

    def wait(self, *tasks: Any, **options: Any) -> "list[Task]":
        """Wait for tasks."""

    def ended_jobs(self, *task: Any, **options: Any) -> "Iterator[Job]":
        """Yield jobs as they end."""

    def jobs(self, *task: Any, **options: Any) -> "Table[Job]":
        """Return jobs."""

    def outputs(self, *task: Any, **options: Any) -> Table[Record]:
        """Return outputs."""

    def fetch(self, *task: Any, **options: Any) -> Fetched:
        """Download outputs."""

    def task_logs(self, *task: Any, **options: Any) -> Record:
        """Return what jobs wrote."""

    def logs(self, *about: Any, **options: Any) -> Record:
        """Return what an attempt wrote."""

    def failures(self, *task: Any, **options: Any) -> Record:
        """Return failed jobs."""

    def explain(self, *about: Any, **options: Any) -> ExplainedRecord:
        """Explain."""

    def retry(self, *about: Any, **options: Any) -> Record:
        """Run jobs again."""

    def set(self, *about: Any, **options: Any) -> Record:
        """Change jobs."""

    def hold(self, *task: Any, **options: Any) -> Record:
        """Hold a task."""

    def release(self, *task: Any, **options: Any) -> Record:
        """Release a task."""

    def finish(self, *task: Any, **options: Any) -> Record:
        """End a task."""

    def cancel(self, *about: Any, **options: Any) -> Record:
        """Cancel a task or a job."""


class Task(Record):
    """A task as it was when it was read. ``refresh()`` reads it again."""

    def __init__(self, document: Any, client: Requests) -> None:
        super().__init__(required(document, ("id", "name", "state", "jobs", "error")))
        self._client = client

    @property
    def id(self) -> int:
        """Its number."""
        return int(self["id"])

    @property
    def subject(self) -> RequestSubject:
        """Its subject in requests."""
        return RequestSubject("task", self.id)

    @property
    def name(self) -> str:
        """Its name."""
        return str(self["name"])

    @property
    def state(self) -> str:
        """Its state, such as ``running`` or ``finished``."""
        return str(self["state"])

    @property
    def counts(self) -> dict[str, int]:
        """The number of its jobs by state."""
        return dict(self["jobs"])

    @property
    def error(self) -> str:
        """What failed last; empty if nothing did."""
        return str(self["error"])

    @property
    def has_ended(self) -> bool:
        """Whether it has finished, failed, or was cancelled."""
        return self.state in ENDED["task"]

    @property
    def is_blocked(self) -> bool:
        """Whether it only goes on if somebody acts, because a task before it failed."""
        return bool(self.get("blocked"))

    def __repr__(self) -> str:
        counts = ", ".join(f"{many} {state}" for state, many in self.counts.items() if many)
        return f"<task {self.id} {self.name}: {self.state}{f'; {counts}' if counts else ''}>"

    def refresh(self) -> Self:
        """Read it again, and return it."""
        self._document = (self._client.task(self.subject)).to_dict()
        return self

    def wait(self, timeout: float | None = None) -> Self:
        """Wait until it has ended, and return it. Raises ``StillUnderWay`` after ``timeout`` s."""
        (ended,) = self._client.wait([self], timeout=timeout)
        self._document = ended.to_dict()
        return self

    def check(self) -> Self:
        """Return it. Raises ``TaskFailed`` if it ended without finishing, or is blocked."""
        if self.is_blocked:
            raise TaskFailed(f"task {self.id} {self['after']}")
        if self.has_ended and self.state != "finished":
            raise TaskFailed(f"task {self.id} {self.state}{f': {self.error}' if self.error else ''}")
        return self

    def as_completed(self, timeout: float | None = None) -> "Iterator[Job]":
        """Yield each of its jobs when it has ended, until the task has. Then read the task again."""
        for job in self._client.ended_jobs(self, timeout=timeout):
            yield job
        self.refresh()

    def jobs(self, **options: Any) -> "Table[Job]":
        """Return its jobs; options as of ``Client.jobs``."""
        return self._client.jobs(self, **options)

    def outputs(self) -> Table[Record]:
        """Return the files that its jobs made."""
        return self._client.outputs(self)

    def fetch(self, to: str | Path = ".", **options: Any) -> Fetched:
        """Download its outputs into a folder; options as of ``Client.fetch``."""
        fetched = self._client.fetch(self, to, **options)
        fetched.check()
        return fetched

    def logs(self, **options: Any) -> Record:
        """Return head and tail of what its jobs wrote; options as of ``Client.task_logs``."""
        return self._client.task_logs(self, **options)

    def failures(self) -> Record:
        """Return its failed jobs by error and queue."""
        return self._client.failures(self)

    def explain(self, **options: Any) -> ExplainedRecord:
        """Explain where its jobs went, or why they wait; options as of ``Client.explain``."""
        return self._client.explain(self, **options)

    def retry(self, changes: Mapping[str, Any] | None = None, **options: Any) -> Record:
        """Run its jobs again that ended badly, with changed fields."""
        return self._then_refreshed(self._client.retry(self, changes, **options))

    def set(self, changes: Mapping[str, Any], **options: Any) -> Record:
        """Change fields of its jobs that have not started."""
        return self._then_refreshed(self._client.set(self, changes, **options))

    def hold(self) -> Record:
        """Start no more of its jobs until it is released."""
        return self._then_refreshed(self._client.hold(self))

    def release(self) -> Record:
        """Let its jobs start again."""
        return self._then_refreshed(self._client.release(self))

    def finish(self) -> Record:
        """End it with its outputs so far."""
        return self._then_refreshed(self._client.finish(self))

    def cancel(self) -> Record:
        """Cancel it with its jobs and transfers."""
        return self._then_refreshed(self._client.cancel(self))

    def _then_refreshed(self, answer: Record) -> Record:
        self.refresh()
        return answer


class Job(Record):
    """A job as it was when it was read. ``refresh()`` reads it again."""

    def __init__(self, document: Any, client: Requests) -> None:
        super().__init__(required(document, ("id", "state")))
        self._client = client

    @property
    def id(self) -> int:
        """Its number."""
        return int(self["id"])

    @property
    def subject(self) -> RequestSubject:
        """Its subject in requests."""
        return RequestSubject("job", self.id)

    @property
    def state(self) -> str:
        """Its state, such as ``running`` or ``finished``."""
        return str(self["state"])

    @property
    def index(self) -> int | None:
        """Its place in its task, from 0; None of merge jobs."""
        return None if self.get("index") is None else int(self["index"])

    @property
    def has_ended(self) -> bool:
        """Whether it has finished, failed, or was cancelled or closed."""
        return self.state in ENDED["job"]

    def __repr__(self) -> str:
        return f"<job {self.id} of task {self['task']}: {self.state}>"

    def refresh(self) -> Self:
        """Read it again, with its history, and return it."""
        self._document = (self._client.job(self.subject)).to_dict()
        return self

    def logs(self, **options: Any) -> Record:
        """Return what its attempt wrote; options as of ``Client.logs``."""
        return self._client.logs(self, **options)

    def explain(self, **options: Any) -> ExplainedRecord:
        """Explain why it went where it went, or waits."""
        return self._client.explain(self, **options)

    def retry(self, changes: Mapping[str, Any] | None = None, **options: Any) -> Record:
        """Run it again after a bad end, with changed fields."""
        return self._then_refreshed(self._client.retry(self, changes, **options))

    def set(self, changes: Mapping[str, Any], **options: Any) -> Record:
        """Change its fields before it starts."""
        return self._then_refreshed(self._client.set(self, changes, **options))

    def cancel(self) -> Record:
        """Cancel it; the other jobs go on."""
        return self._then_refreshed(self._client.cancel(self))

    def _then_refreshed(self, answer: Record) -> Record:
        self.refresh()
        return answer
