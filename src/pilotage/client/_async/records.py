"""Tasks and jobs as snapshots, with the requests that concern each."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Protocol, Self

from pilotage.client.errors import TaskFailed
from pilotage.client.output_files import FetchResult
from pilotage.client.records import ExplainedRecord, Record, RemarkRecord, Table, required
from pilotage.client.subjects import RequestSubject
from pilotage.model.records.states import ENDED
from pilotage.model.rules.plain_states import job_state, jobs_phrase, task_state


class AsyncRequests(Protocol):
    """The requests of a client that concern one task or job."""

    async def task(self, task: RequestSubject) -> "AsyncTask":
        """Return a task."""

    async def job(self, job: RequestSubject) -> "AsyncJob":
        """Return a job."""

    async def wait(self, *tasks: Any, **options: Any) -> "list[AsyncTask]":
        """Wait for tasks."""

    def ended_jobs(self, *task: Any, **options: Any) -> "AsyncIterator[AsyncJob]":
        """Yield jobs as they end."""

    async def jobs(self, *task: Any, **options: Any) -> "Table[AsyncJob]":
        """Return jobs."""

    async def outputs(self, *task: Any, **options: Any) -> Table[Record]:
        """Return outputs."""

    async def fetch(self, *task: Any, **options: Any) -> FetchResult:
        """Download outputs."""

    async def manifest(self, *task: Any, **options: Any) -> Record:
        """Return what ran."""

    async def task_logs(self, *task: Any, **options: Any) -> Record:
        """Return what jobs wrote."""

    async def logs(self, *about: Any, **options: Any) -> Record:
        """Return what an attempt wrote."""

    async def failures(self, *task: Any, **options: Any) -> Record:
        """Return failed jobs."""

    async def explain(self, *about: Any, **options: Any) -> ExplainedRecord:
        """Explain."""

    async def retry(self, *about: Any, **options: Any) -> Record:
        """Run jobs again."""

    async def set(self, *about: Any, **options: Any) -> Record:
        """Change jobs."""

    async def hold(self, *task: Any, **options: Any) -> Record:
        """Hold a task."""

    async def release(self, *task: Any, **options: Any) -> Record:
        """Release a task."""

    async def finish(self, *task: Any, **options: Any) -> Record:
        """End a task."""

    async def cancel(self, *about: Any, **options: Any) -> Record:
        """Cancel a task or a job."""

    async def delete(self, *about: Any, **options: Any) -> Record:
        """Delete a task."""


class AsyncTask(Record):
    """A task as it was when it was read. ``refresh()`` reads it again."""

    def __init__(self, document: Any, client: AsyncRequests) -> None:
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
        """The engine's state, such as ``activated`` or ``finished``; tables show words such as ``done``."""
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
        """Whether a failed task before it blocks it, until a person acts."""
        return any(remark.kind == "blocked" for remark in self.remarks)

    @property
    def remarks(self) -> list[RemarkRecord]:
        """Why it does not go on, who can mend that and how, and what to expect, the weightiest first."""
        return [*map(RemarkRecord, self.get("remarks", ()))]

    def __repr__(self) -> str:
        jobs = jobs_phrase(self.counts)
        return f"<task {self.id} {self.name}: {self.display('state')}{f'; {jobs}' if jobs else ''}>"

    def display(self, field: str) -> Any:
        """Return a field as tables show it: states in the words that people use."""
        if field == "state":
            return str(task_state(self.state, self.counts, self.get("held")))
        return jobs_phrase(self.counts) if field == "jobs" else super().display(field)

    async def refresh(self) -> Self:
        """Read it again, and return it."""
        self._document = (await self._client.task(self.subject)).to_dict()
        return self

    async def wait(self, timeout: float | None = None) -> Self:
        """Wait until it has ended, and return it. Raises ``StillUnderWay`` after ``timeout`` s."""
        (ended,) = await self._client.wait([self], timeout=timeout)
        self._document = ended.to_dict()
        return self

    def check(self) -> Self:
        """Return it. Raises ``TaskFailed`` if it ended without finishing, or is blocked."""
        if blocked := next((remark.text for remark in self.remarks if remark.kind == "blocked"), ""):
            raise TaskFailed(f"task {self.id}: {blocked}")
        if self.has_ended and self.state != "finished":
            raise TaskFailed(f"task {self.id} {self.state}{f': {self.error}' if self.error else ''}")
        return self

    async def as_completed(self, timeout: float | None = None) -> "AsyncIterator[AsyncJob]":
        """Yield each of its jobs when it has ended, until the task has. Then read the task again."""
        async for job in self._client.ended_jobs(self, timeout=timeout):
            yield job
        await self.refresh()

    async def jobs(self, **options: Any) -> "Table[AsyncJob]":
        """Return its jobs; options as of ``AsyncClient.jobs``."""
        return await self._client.jobs(self, **options)

    async def outputs(self) -> Table[Record]:
        """Return the files that its jobs made."""
        return await self._client.outputs(self)

    async def fetch(self, to: str | Path = ".", **options: Any) -> FetchResult:
        """Download its outputs into a folder; options as of ``AsyncClient.fetch``."""
        fetched = await self._client.fetch(self, to, **options)
        fetched.check()
        return fetched

    async def manifest(self) -> Record:
        """Return its RO-Crate: what ran, where, its inputs and its outputs. It must have ended."""
        return await self._client.manifest(self)

    async def logs(self, **options: Any) -> Record:
        """Return head and tail of what its jobs wrote; options as of ``AsyncClient.task_logs``."""
        return await self._client.task_logs(self, **options)

    async def failures(self) -> Record:
        """Return its failed jobs by error and queue."""
        return await self._client.failures(self)

    async def explain(self, **options: Any) -> ExplainedRecord:
        """Explain where its jobs went, or why they wait; options as of ``AsyncClient.explain``."""
        return await self._client.explain(self, **options)

    async def retry(self, changes: Mapping[str, Any] | None = None, **options: Any) -> Record:
        """Run its jobs again that ended badly, with changed fields."""
        return await self._then_refreshed(await self._client.retry(self, changes, **options))

    async def set(self, changes: Mapping[str, Any], **options: Any) -> Record:
        """Change fields of its jobs that have not started."""
        return await self._then_refreshed(await self._client.set(self, changes, **options))

    async def hold(self) -> Record:
        """Hold back its jobs until it is released."""
        return await self._then_refreshed(await self._client.hold(self))

    async def release(self) -> Record:
        """Let its jobs start again."""
        return await self._then_refreshed(await self._client.release(self))

    async def finish(self) -> Record:
        """End it with its outputs so far."""
        return await self._then_refreshed(await self._client.finish(self))

    async def cancel(self) -> Record:
        """Cancel it with its jobs and transfers."""
        return await self._then_refreshed(await self._client.cancel(self))

    async def delete(self, **options: Any) -> Record:
        """Delete it; options as of ``AsyncClient.delete``. It must have ended."""
        return await self._client.delete(self, **options)

    async def _then_refreshed(self, answer: Record) -> Record:
        await self.refresh()
        return answer


class AsyncJob(Record):
    """A job as it was when it was read. ``refresh()`` reads it again."""

    def __init__(self, document: Any, client: AsyncRequests) -> None:
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
        """The engine's state, such as ``activated`` or ``finished``; tables show words such as ``done``."""
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
        return f"<job {self.id} of task {self['task']}: {self.display('state')}>"

    def display(self, field: str) -> Any:
        """Return a field as tables show it: the state in the word that people use."""
        return str(job_state(self.state)) if field == "state" else super().display(field)

    async def refresh(self) -> Self:
        """Read it again, with its history, and return it."""
        self._document = (await self._client.job(self.subject)).to_dict()
        return self

    async def logs(self, **options: Any) -> Record:
        """Return what its attempt wrote; options as of ``AsyncClient.logs``."""
        return await self._client.logs(self, **options)

    async def explain(self, **options: Any) -> ExplainedRecord:
        """Explain why it went where it went, or waits."""
        return await self._client.explain(self, **options)

    async def retry(self, changes: Mapping[str, Any] | None = None, **options: Any) -> Record:
        """Run it again after a bad end, with changed fields."""
        return await self._then_refreshed(await self._client.retry(self, changes, **options))

    async def set(self, changes: Mapping[str, Any], **options: Any) -> Record:
        """Change its fields before it starts."""
        return await self._then_refreshed(await self._client.set(self, changes, **options))

    async def cancel(self) -> Record:
        """Cancel it; the other jobs go on."""
        return await self._then_refreshed(await self._client.cancel(self))

    async def _then_refreshed(self, answer: Record) -> Record:
        await self.refresh()
        return answer
