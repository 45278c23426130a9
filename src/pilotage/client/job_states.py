"""The states of jobs on the server, kept up to date by its events: one request for all tasks."""

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pilotage.model.records import states as record_states

from .errors import Gone, NotFound

if TYPE_CHECKING:
    from ._sync.job_control import JobControl

RELIST_EVERY = 300.0
"""Seconds after which all lists are read again, whatever the events say."""

MOST_NAMED = 200
"""Most tasks that one request for events names. With more, it asks for the events of all."""

MOST_PAGES = 20
"""Most pages of events that are read one after the other. With more, the lists are read instead."""

DELETED = "deleted"
"""The state of the jobs of a task that is not there."""

WAITING = frozenset(("", "throttled", "pending", "defined", "held", "assigned", "activated"))
"""States of jobs that do not run yet."""

ENDED = frozenset((*record_states.ENDED["job"], DELETED))
"""States of jobs that do not go on."""

LOST = "closed"
"""The state of a job that its task never made before it ended."""


@dataclass
class TaskJobs:
    """The jobs of one task."""

    states: dict[int, str] = field(default_factory=dict)
    """By the place of the job in its task."""
    numbers: dict[int, int] = field(default_factory=dict)
    """The place of each job, by its number."""
    is_stale: bool = True
    submitted: float = field(default_factory=time.monotonic)
    reason: str = ""
    """Why it waits, as the log has it."""
    has_ended: bool = False
    """Whether the task has ended."""

    def state(self, index: int) -> str:
        """Return the state of a job; empty if it is not made yet."""
        absent = LOST if self.has_ended and not self.is_stale else ""
        return self.states.get(index, absent)


class JobStates:
    """Reads the states of the jobs of some tasks. Two threads may use it."""

    def __init__(self, client: "JobControl") -> None:
        self._client = client
        self._lock = threading.RLock()
        self._tasks: dict[int, TaskJobs] = {}
        self._after: int | None = None
        self._listed = time.monotonic()

    def begin(self) -> None:
        """Remember which events were there before the first task."""
        with self._lock:
            if self._after is None:
                self._after = int(self._client.event_page().next)

    def add(self, task: int) -> None:
        """Read the states of the jobs of a task from now on."""
        with self._lock:
            self._tasks.setdefault(task, TaskJobs())

    def keep(self, tasks: Iterable[int]) -> None:
        """Forget all tasks but these."""
        with self._lock:
            for number in set(self._tasks) - set(tasks):
                del self._tasks[number]

    @property
    def tasks(self) -> dict[int, TaskJobs]:
        """The tasks by number."""
        with self._lock:
            return dict(self._tasks)

    def state(self, task: int, index: int) -> str:
        """Return the state of a job; empty if it is not made yet."""
        with self._lock:
            jobs = self._tasks.get(task)
            return jobs.state(index) if jobs else ""

    def number(self, task: int, index: int) -> int | None:
        """Return the number of a job; None if it is not made yet."""
        with self._lock:
            jobs = self._tasks.get(task)
            numbers = jobs.numbers.items() if jobs else ()
            return next((number for number, place in numbers if place == index), None)

    def live(self, task: int) -> set[int]:
        """Return the places of the jobs of a task that have not ended, as far as they are made."""
        with self._lock:
            jobs = self._tasks.get(task)
            return {place for place, state in (jobs.states if jobs else {}).items() if state not in ENDED}

    def refresh(self) -> None:
        """Read what has changed."""
        with self._lock:
            self._read_events()
            if time.monotonic() - self._listed > RELIST_EVERY:
                self._forget_lists()
            for number, jobs in self._tasks.items():
                if jobs.is_stale:
                    self._read_jobs(number, jobs)

    def _forget_lists(self) -> None:
        self._listed = time.monotonic()
        for jobs in self._tasks.values():
            jobs.is_stale = True

    def _read_events(self) -> None:
        named = sorted(self._tasks) if len(self._tasks) <= MOST_NAMED else []
        for _ in range(MOST_PAGES if self._tasks else 0):
            try:
                page = self._client.event_page(self._after, kinds=["job", "task"], tasks=named)
            except Gone:
                break
            for event in page:
                self._apply(event["kind"], event["task"], event["target"], event["records"])
            self._after = int(page.next)
            if self._after >= int(page.document.get("newest", self._after)):
                return
        if self._tasks:
            self._after = int(self._client.event_page().next)
            self._forget_lists()

    def _apply(self, kind: str, task: int, state: str, numbers: Iterable[int]) -> None:
        if (jobs := self._tasks.get(task)) is None:
            return
        if kind == "task":
            jobs.has_ended = state in record_states.ENDED["task"]
            # The jobs of a task that ends may be new here.
            jobs.is_stale = jobs.is_stale or jobs.has_ended
            return
        for number in numbers:
            if number in jobs.numbers:
                jobs.states[jobs.numbers[number]] = state
            else:
                jobs.is_stale = True

    def _read_jobs(self, task: int, jobs: TaskJobs) -> None:
        try:
            for job in self._client.each(self._client.jobs, task):
                if job.index is not None:
                    jobs.numbers[job.id], jobs.states[job.index] = job.index, job.state
        except (Gone, NotFound):
            jobs.states = dict.fromkeys(jobs.states or [0], DELETED)
        # A task that is not split yet has no jobs: their events name numbers that are new here.
        jobs.is_stale = False
