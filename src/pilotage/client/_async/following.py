"""Wait for tasks, and follow them as they go on."""

import time
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from pilotage.client.errors import ClientError, StillUnderWay, Unreachable
from pilotage.client.subjects import RequestSubject
from pilotage.client.waiting import Pace, async_sleep
from pilotage.model.records.states import ENDED
from pilotage.model.rules.plain_states import clause, task_state

from .api import MOST_ROWS
from .events import AWAY, LOOK_EVERY, MOST_NAMED, AsyncEventRequests
from .records import AsyncJob, AsyncTask
from .tasks import AsyncTaskRequests

if TYPE_CHECKING:
    Tasks = Iterable["int | str | RequestSubject | AsyncTask"]

MOST_JOBS = 10_000
"""Most jobs of one answer."""


class AsyncFollowing(AsyncTaskRequests, AsyncEventRequests):
    """Waits, and follows tasks and jobs to their end."""

    async def follow(
        self, tasks: "Tasks", *, timeout: float | None = None, is_any: bool = False
    ) -> AsyncIterator[AsyncTask]:
        """Yield each task as it is, then again after each change of its state or its jobs.

        It ends when all have ended or are blocked, with ``is_any`` the first. The server may be away for ten
        minutes after its first answer. Raises ``StillUnderWay`` after ``timeout`` s.
        """
        async for task in self._followed(tasks, timeout, is_any, ("task", "job")):
            yield task

    async def _followed(
        self, tasks: "Tasks", timeout: float | None, is_any: bool, kinds: Sequence[str]
    ) -> AsyncIterator[AsyncTask]:
        """Do the same where events of some kinds count as changes."""
        pace = Pace(timeout)
        subjects = [await self.subject(task) for task in tasks]
        unended = {int(subject.id): subject for subject in subjects}
        snapshots: dict[int, AsyncTask] = {}
        if not unended:
            return
        async for changed in self._changed(list(unended), kinds, pace):
            for number in [number for number in unended if number in changed]:
                read = self._patiently if snapshots else self.task
                task = await read(unended[number])
                before = snapshots.get(number)
                snapshots[number] = task
                if before is None or _progress(before) != _progress(task):
                    yield task
                if task.has_ended:
                    del unended[number]
            stopped = [number for number, task in snapshots.items() if task.has_ended or task.is_blocked]
            if set(unended) <= set(stopped) or (is_any and stopped):
                return
            self._stop_late(pace, [snapshots[number] for number in unended])

    async def _changed(
        self, tasks: Collection[int], kinds: Sequence[str], pace: Pace
    ) -> AsyncIterator[set[int]]:
        """Yield tasks that may have changed: all at first, then the ones in events.

        Where there are no events, yield all from time to time.
        """
        named = tasks if len(tasks) <= MOST_NAMED else ()
        while True:
            changed, looked = set(tasks), 0.0
            try:
                async for event in self._signals(None, kinds, named, pace.until):
                    # A task may be blocked by another one. Events of that one do not come here.
                    changed |= set(tasks) if event is None else {event["task"]}
                    is_due = time.monotonic() - looked >= LOOK_EVERY
                    if changed and (is_due or (event is not None and event["kind"] == "task")):
                        yield changed
                        changed, looked = set(), time.monotonic()
            except ClientError:
                # If it matters, the look at a task fails too.
                pass
            yield set(tasks)
            await async_sleep(pace.pause(len(tasks), False))

    async def wait(
        self, tasks: "Tasks", *, timeout: float | None = None, is_any: bool = False
    ) -> list[AsyncTask]:
        """Wait until all tasks have ended, with ``is_any`` the first. Return them in the given order.

        It ends as well when all others wait for a task before them that failed (``is_blocked``).

        Raises ``StillUnderWay`` after ``timeout`` s.
        """
        subjects = [await self.subject(task) for task in tasks]
        snapshots: dict[RequestSubject, AsyncTask] = {}
        async for task in self._followed(subjects, timeout, is_any, ("task",)):
            snapshots[task.subject] = task
        return [snapshots[subject] for subject in subjects]

    async def as_completed(self, tasks: "Tasks", *, timeout: float | None = None) -> AsyncIterator[AsyncTask]:
        """Yield each task when it has ended. ``ended_jobs`` does the same with the jobs of one task.

        A task that is blocked by one before it does not end: it has ``is_blocked``.
        """
        async for task in self._followed(tasks, timeout, False, ("task",)):
            if task.has_ended:
                yield task

    async def ended_jobs(
        self, task: "int | str | RequestSubject | AsyncTask", *, timeout: float | None = None
    ) -> AsyncIterator[AsyncJob]:
        """Yield each job of a task when it has ended, until the task has. Each comes once."""
        yielded: set[int] = set()
        before: dict[str, int] = {}
        async for now in self.follow([task], timeout=timeout):
            for state in ENDED["job"]:
                more = now.counts.get(state, 0) - before.get(state, 0)
                async for job in self._latest(now, state, min(MOST_JOBS, more + MOST_ROWS) if more else 0):
                    if job.id not in yielded:
                        yielded.add(job.id)
                        yield job
            before = now.counts
        # Jobs that ended between two counts, or were retried.
        async for job in self._all_jobs(await self.subject(task)):
            if job.id not in yielded and job.has_ended:
                yielded.add(job.id)
                yield job

    async def _latest(self, task: AsyncTask, state: str, limit: int) -> AsyncIterator[AsyncJob]:
        """Yield the jobs that came to a state last."""
        if limit > 0:
            for job in await self.jobs(task, state=state, sort="since", limit=limit, parameters=True):
                yield job

    async def _all_jobs(self, task: RequestSubject) -> AsyncIterator[AsyncJob]:
        """Yield all jobs of a task by number."""
        async for job in self.each(self.jobs, task, parameters=True):
            yield job

    def _stop_late(self, pace: Pace, unended: list[AsyncTask]) -> None:
        if pace.is_over:
            named = ", ".join(
                f"task {task.id} {clause(task_state(task.state, task.counts))}" for task in unended[:3]
            )
            more = f" and {len(unended) - 3} more" if len(unended) > 3 else ""
            raise StillUnderWay(f"{named}{more} after {pace.timeout:g} s")

    async def _patiently(self, subject: RequestSubject) -> AsyncTask:
        """Return a task, also from a server that is away for a while."""
        try:
            return await self.task(subject)
        except Unreachable:
            pass
        from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_fixed

        again = AsyncRetrying(
            retry=retry_if_exception_type(Unreachable),
            stop=stop_after_delay(AWAY),
            wait=wait_fixed(LOOK_EVERY),
            reraise=True,
        )
        return await again(self.task, subject)


def _progress(task: AsyncTask) -> tuple[object, ...]:
    """Return what counts as a change."""
    return task.state, task.counts, task.is_blocked
