"""Run a command or a Python function over many parameters, and read what functions returned."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pilotage.client.errors import CallFailed, Refused
from pilotage.client.functions import (
    RESULT,
    Calls,
    arguments_of,
    failure_of,
    rows_of,
    value_of,
)

from .fetching import AsyncFetching
from .following import AsyncFollowing
from .records import AsyncJob, AsyncTask

Parameters = Mapping[str, Iterable[Any]] | Iterable[Any]
"""A grid by name, rows by name, or single values."""


class AsyncMappedTask(AsyncTask):
    """A task that runs a function, or a command, over many arguments: one job a call."""

    def __init__(self, task: AsyncTask, client: "AsyncFunctions", is_function: bool = True) -> None:
        super().__init__(task.to_dict(), task._client)
        self._functions = client
        self._is_function = is_function
        self._files: dict[int, str] = {}

    async def results(self, timeout: float | None = None) -> list[Any]:
        """Wait for all calls, and return their results, in the order of their arguments.

        Those of a command are its jobs. Raises what the first function raised, ``CallFailed`` for a job that
        left no result or failed, and ``StillUnderWay`` after ``timeout`` s.
        """
        jobs = [job async for job in self.as_completed(timeout)]
        ordered = sorted((job for job in jobs if job.index is not None), key=lambda job: job.index or 0)
        return [await self.result(job) for job in ordered]

    async def result(self, job: AsyncJob) -> Any:
        """Return the result of an ended job's call, or raise its exception; of a command the job."""
        if job.state != "finished":
            raise failure_of(job)
        if not self._is_function:
            return job
        return value_of(await self.content(job.id))

    async def find(self, jobs: Iterable[int]) -> None:
        """Read which files hold the results of finished jobs, each by its number."""
        if not set(jobs) <= set(self._files):
            outputs = await self._functions.outputs(self)
            self._files = {
                output["job"]: output["file"] for output in outputs if output["name"].endswith(f"/{RESULT}")
            }

    async def content(self, job: int) -> bytes:
        """Return the result of a finished job as it was sent. Raises ``CallFailed`` if it left none."""
        await self.find([job])
        if job not in self._files:
            raise CallFailed(f"job {job} left no result")
        content = b""
        async with self._functions.content(self._files[job]) as chunks:
            async for chunk in chunks:
                content += chunk
        return content


class AsyncFunctions(AsyncFollowing, AsyncFetching):
    """Runs commands and functions over parameters."""

    async def map(
        self,
        work: Callable[..., Any] | str | Sequence[str],
        parameters: Parameters,
        *,
        key: str = "",
        **fields: Any,
    ) -> AsyncMappedTask:
        """Run a command or a Python function once for each row of parameters, as the jobs of one task.

        ``parameters`` are a grid, ``{"k": [21, 31]}``, rows, ``[{"k": 21}]``, or single values, which the
        words of a command have as ``{value}``. A text is run by ``sh -c``, and reads
        ``"$PILOTAGE_PARAMETER_value"``. ``fields`` are further fields of the task. A function needs the extra
        ``functions`` here, and the same minor version of Python on the nodes.
        """
        if callable(work):
            mapped = await self._submitted_calls(work, parameters, key, fields)
            return AsyncMappedTask(mapped, self)
        command = ["sh", "-c", work] if isinstance(work, str) else list(work)
        name = {"name": "map"} if "name" not in fields else {}
        document = {**name, "scouts": 0, **fields, "command": command, "parameters": rows_of(parameters)}
        return AsyncMappedTask(await self.submit(document, key=key), self, is_function=False)

    async def _submitted_calls(
        self, work: Callable[..., Any], parameters: Parameters, key: str, fields: Mapping[str, Any]
    ) -> AsyncTask:
        calls = Calls()
        for args, keywords in arguments_of(parameters):
            if not calls.add(work, args, keywords):
                fit = f"only {len(calls.calls)} of these arguments fit into one task"
                raise Refused(f"{fit}: give fewer, or use client.executor(), which makes several tasks")
        if not calls.calls:
            raise Refused("there are no parameters to run it on")
        return await self.submit(calls.document(fields), key=key)
