"""Requests about tasks and jobs: submit, look at, explain."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pilotage.client.errors import BadAnswer
from pilotage.client.records import ExplainedRecord, LogsRecord, Record, Table, outcome
from pilotage.client.shapes import (
    COUNTS,
    FAILURES,
    JOB,
    LINES,
    LOGS,
    MATCH,
    OUTPUT,
    PLAN,
    TASK,
    TASK_LOGS,
)
from pilotage.client.subjects import RequestSubject

from .api import AsyncApi
from .connection import CHUNK
from .records import AsyncJob, AsyncRequests, AsyncTask

MOST_TASKS = 1000
"""Most tasks of one submission."""

OUTPUTS_OF_PAGE = 10_000
"""Outputs of one request."""

MOST_PAGES = 1000
"""Most requests for one list."""

Document = Mapping[str, Any]
"""A task as in a task file."""


class AsyncTaskRequests(AsyncApi):
    """Tasks and their jobs."""

    async def submit(
        self, task: Document | None = None, /, *, key: str = "", lease: float = 0, **fields: Any
    ) -> AsyncTask:
        """Submit one task, and return it.

        Give its fields as in a task file: a document, names, or both. The same ``key`` again gives the same
        task, never a second one; so does a request that is repeated because its answer was lost. Without
        its ``lease`` renewed, nothing of the task runs after so many s; 0: no limit.
        Raises ``Refused`` with every fault.
        """
        document = {**(task or {}), **fields}
        answer = await self.submit_all([document], key=key, lease=lease)
        return await self.task(answer["tasks"][0]["id"])

    async def submit_all(
        self, tasks: Sequence[Document], *, key: str = "", whole: bool = True, lease: float = 0
    ) -> Record:
        """Submit up to 1000 tasks in one request. Return ``tasks``, ``refused`` and ``warnings``.

        With ``whole`` the server accepts all of them or none; without it, ``refused`` has the tasks that it
        left out. Raises ``Refused``, with every fault and its task, if no task was accepted.
        """
        body: dict[str, Any] = {"tasks": [dict(task) for task in tasks], "whole": whole}
        if lease:
            body["lease"] = lease
        return await self._submitted("/tasks", body, len(tasks), MOST_TASKS, key)

    async def plan(self, tasks: Sequence[Document], *, width: int = 0) -> Record:
        """Say whether tasks would run, where, and if not why. Nothing is submitted.

        ``width`` folds the lines of the text to so many columns; 0: not at all.
        """
        body = {"tasks": [dict(task) for task in tasks]}
        answer = await self._connection.send(
            "POST", "/plan/broker", body=body, query={"width": width or None}, statuses=(422,)
        )
        return await self._understood(answer, PLAN, lambda document: outcome(document, len(tasks)))

    async def task(self, task: int | str | RequestSubject) -> AsyncTask:
        """Return a task by its number or name: a snapshot, which ``refresh()`` renews."""
        return await self._understood(
            await self._get("/tasks/{task}", await self._task(task)), TASK, self._new_task
        )

    def _new_task(self, document: Any) -> AsyncTask:
        return AsyncTask(document, self._client())

    def _new_job(self, document: Any) -> AsyncJob:
        return AsyncJob(document, self._client())

    def _client(self) -> AsyncRequests:
        raise NotImplementedError

    async def tasks(
        self,
        *,
        label: Sequence[str] | None = None,
        name: str | None = None,
        owner: str | None = None,
        vo: str | None = None,
        state: str | None = None,
        word: str | None = None,
        site: str | None = None,
        mine: bool = False,
        shared: bool = False,
        sort: str | None = None,
        after: str | None = None,
        limit: int = 100,
        key: str = "",
    ) -> Table[AsyncTask]:
        """Return tasks, newest first: the caller's, or for an operator everybody's unless ``mine``.

        With ``shared``, tasks of others that you may read. A task has all ``label``s, ``name=text``. In
        ``name``, ``*`` matches any text. ``word``: as in ``jobs``. ``sort``: newest, changed, priority or
        name. ``after`` is the ``next`` of the page before. ``key`` chooses tasks of one submission.
        """
        answer = await self._get(
            "/tasks",
            label=label or None,
            name=name,
            owner=owner,
            vo=vo,
            state=state,
            word=word,
            site=site,
            mine=mine,
            shared=shared or None,
            sort=sort,
            after=after,
            limit=limit,
            key=key or None,
        )
        return await self._rows("tasks", TASK, self._new_task, answer)

    async def job(self, job: int | str | RequestSubject) -> AsyncJob:
        """Return a job with its history."""
        subject = (
            RequestSubject("job", job) if isinstance(job, int) else (await self.subject(job)).of_kinds("job")
        )
        return await self._understood(await self._get("/jobs/{job}", subject.values), JOB, self._new_job)

    async def jobs(
        self,
        task: "int | str | RequestSubject | AsyncTask",
        *,
        state: str | None = None,
        word: str | None = None,
        failed: bool = False,
        sort: str | None = None,
        after: str | None = None,
        limit: int = 100,
        inputs: bool = False,
        parameters: bool = False,
    ) -> Table[AsyncJob]:
        """Return a task's jobs, by number unless ``sort`` names a column.

        ``word`` is ``waiting``, ``running``, ``finishing``, ``done``, ``failed`` or ``cancelled``, ``state``
        one state of the engine. ``after`` is the ``next`` of the page before, or in a list by number any
        number. With ``inputs`` and ``parameters``, each job has the names of its files and its row of
        parameters.
        """
        answer = await self._get(
            "/tasks/{task}/jobs",
            await self._task(task),
            failed=failed,
            state=state,
            word=word,
            sort=sort,
            after=after,
            limit=limit,
            inputs=inputs,
            parameters=parameters,
        )
        return await self._rows("jobs", JOB, self._new_job, answer)

    async def jobs_by_queue(self, task: "int | str | RequestSubject | AsyncTask") -> Record:
        """Return how many jobs of a task each queue has, by state; under an empty name those at no queue."""
        answer = await self._sent(
            "GET", "/tasks/{task}/queues", {"queues": {str: COUNTS}}, await self._task(task), needs=["queues"]
        )
        return Record(answer["queues"])

    async def failures(self, task: "int | str | RequestSubject | AsyncTask") -> Record:
        """Return a task's failed jobs in ``groups`` by error and queue."""
        return await self._record("/tasks/{task}/failures", FAILURES, await self._task(task))

    async def outputs(
        self,
        task: "int | str | RequestSubject | AsyncTask",
        *,
        parameters: bool = False,
        after: str | None = None,
        limit: int | None = None,
    ) -> Table[Record]:
        """Return the files that a task's jobs made, with size, checksum and places.

        With a ``limit``, return one page of so many at most, ``after`` the ``next`` of the page before.
        """
        number, files = await self._task(task), list[Record]()
        # The user may not trust the server: its pages may never end.
        for _ in range(MOST_PAGES):
            page: dict[str, Any] = {"limit": limit or OUTPUTS_OF_PAGE, "after": after}
            rows = await self._table(
                "files", "/tasks/{task}/outputs", OUTPUT, number, parameters=parameters, **page
            )
            files += rows
            if limit or not rows.next:
                document = {**rows.to_dict(), "files": [file.to_dict() for file in files]}
                return Table(document, "files", files)
            if rows.next == after:
                break
            after = rows.next
        raise BadAnswer(f"task {number['task']} has more than {MOST_PAGES * OUTPUTS_OF_PAGE} outputs")

    async def manifest(self, task: "int | str | RequestSubject | AsyncTask") -> Record:
        """Return the RO-Crate of a task that has ended: what ran, where, its inputs and its outputs.

        Raises ``BadAnswer`` above 256 MiB: then ``manifest_content`` yields it in chunks.
        """
        from pilotage.client.crates import LARGEST_MANIFEST, read_manifest  # only who reads one loads it

        content = bytearray()
        async with self.manifest_content(task) as chunks:
            async for chunk in chunks:
                content += chunk
                if len(content) > LARGEST_MANIFEST:
                    raise BadAnswer(f"the manifest has more than {LARGEST_MANIFEST >> 20} MiB")
        return Record(read_manifest(bytes(content)))

    @asynccontextmanager
    async def manifest_content(
        self, task: "int | str | RequestSubject | AsyncTask"
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield the RO-Crate of a task that has ended as text, in chunks."""
        values = await self._task(task)
        async with self._connection.content("/tasks/{task}/manifest", values=values) as response:
            yield response.aiter_bytes(CHUNK)

    @asynccontextmanager
    async def output_archive(
        self,
        task: "int | str | RequestSubject | AsyncTask",
        *,
        after: str = "",
        match: str = "*",
        merged: bool = False,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield a tar archive of a task's outputs of at most 1 MiB, in chunks.

        Each job's are JOB/NAME, its merge job's NAME. One archive is bounded: go on ``after`` its last file,
        by identifier, until one is empty. Outputs that cannot be read are left out.
        """
        query: dict[str, str | bool | None] = {"after": after, "match": match, "merged": merged}
        values = await self._task(task)
        async with self._connection.content(
            "/tasks/{task}/outputs/archive", query=query, values=values
        ) as response:
            yield response.aiter_bytes(CHUNK)

    async def task_logs(
        self,
        task: "int | str | RequestSubject | AsyncTask",
        *,
        failed: bool = False,
        match: str | None = None,
        lines: int = 10,
        limit: int = 20,
        after: str | None = None,
    ) -> LogsRecord:
        """Return head and tail of what a task's jobs wrote, or the lines with ``match``.

        One answer covers ``limit`` jobs; ``next`` is the ``after`` of the next ones.
        """
        answer = await self._get(
            "/tasks/{task}/logs",
            await self._task(task),
            failed=failed,
            match=match or None,
            lines=lines,
            limit=limit,
            after=after,
        )
        return await self._understood(answer, TASK_LOGS, LogsRecord)

    async def matches(self, task: "int | str | RequestSubject | AsyncTask") -> Table[Record]:
        """Return which queues match a task's jobs by the ads of both, and what fails at the others."""
        return await self._table("matches", "/tasks/{task}/sites", MATCH, await self._task(task))

    async def explain(
        self,
        about: "int | str | RequestSubject | AsyncTask | AsyncJob",
        *,
        queue: str | None = None,
        limit: int | None = None,
        width: int = 0,
        rules: bool = False,
    ) -> ExplainedRecord:
        """Explain why a task, job, pilot, transfer or queue is where it is, or waits. ``lines`` is the text.

        With ``queue``: the decisions at this queue about a task's jobs. ``limit`` bounds the decisions of
        a task or job, newest first; ``width`` folds the lines to so many columns. With ``rules`` the lines
        name the published rules that decided.
        """
        subject = await self.subject(about)
        if queue is not None:
            template = "/tasks/{task}/queues/{queue}/explain"
            values = {**subject.of_kinds("task").values, "queue": queue}
            answer = await self._get(template, values, width=width or None, rules=rules or None)
        else:
            template, values = f"{subject.path}/explain", subject.values
            job_limit = limit if subject.kind in ("task", "job") else None
            answer = await self._get(
                template, values, limit=job_limit, width=width or None, rules=rules or None
            )
        return await self._understood(answer, LINES, ExplainedRecord)

    async def what_if(
        self,
        about: "int | str | RequestSubject | AsyncTask | AsyncJob",
        *,
        task: Mapping[str, Any] | None = None,
        queues: Mapping[str, Any] | None = None,
        width: int = 0,
    ) -> Record:
        """Say where jobs would go with other fields of their task, or of queues. Nothing changes."""
        subject = (await self.subject(about)).of_kinds("task", "job")
        body = {"task": dict(task or {}), "queues": dict(queues or {})}
        return await self._posted(f"{subject.path}/what-if", LINES, subject.values, body, width=width or None)

    async def logs(
        self,
        about: "int | str | RequestSubject | AsyncJob",
        *,
        attempt: int | None = None,
        stdout_seen: int | None = None,
        stderr_seen: int | None = None,
        agent_seen: int | None = None,
    ) -> LogsRecord:
        """Return what an attempt of a job wrote, or a pilot's agent; without a number, the latest attempt.

        Both ends of a long stream are kept. ``stdout_seen``, ``stderr_seen`` and, of a pilot, ``agent_seen``
        leave out so many bytes. ``task_logs`` reads the logs of a whole task.
        """
        subject = (await self.subject(about)).of_kinds("job", "pilot")
        query = (
            {"attempt": attempt, "stdout_seen": stdout_seen, "stderr_seen": stderr_seen}
            if subject.kind == "job"
            else {"agent_seen": agent_seen}
        )
        answer = await self._get(f"{subject.path}/logs", subject.values, **query)
        return await self._understood(answer, LOGS, LogsRecord)
