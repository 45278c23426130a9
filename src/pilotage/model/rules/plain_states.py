"""The few states that people see: each state of the engine's jobs and tasks as a word, and why it waits.

Terminal, page, notebook and messages show these. Documents of the API have the engine's states.
"""

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from pilotage.model.records.states import LIVE, JobState, TaskState
from pilotage.model.values.phrases import plural


class PlainWord(StrEnum):
    """What a job or a task does, in the order of its life."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHING = "finishing"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class PlainState(NamedTuple):
    """A word, and for waiting records what they wait for. As text: ``waiting for a slot``, ``held``.

    The word is a ``PlainWord``, or a state of a newer server's engine, as it is.
    """

    word: str
    reason: str = ""

    def __str__(self) -> str:
        if self.reason == HELD:
            return HELD
        return f"{self.word} {self.reason}" if self.reason else str(self.word)


ENDS = (PlainWord.DONE, PlainWord.FAILED, PlainWord.CANCELLED)
"""Words of what has ended."""

HELD = "held"
"""The reason of jobs that a person holds."""

_W = PlainWord.WAITING
FOR_QUOTA = PlainState(_W, "for room in a quota")
FOR_QUEUE = PlainState(_W, "for a queue")
FOR_INPUTS = PlainState(_W, "for inputs")
FOR_SLOT = PlainState(_W, "for a slot")
FOR_TASKS = PlainState(_W, "for other tasks")
ON_HOLD = PlainState(_W, HELD)
RUNNING = PlainState(PlainWord.RUNNING)
FINISHING = PlainState(PlainWord.FINISHING)
DONE = PlainState(PlainWord.DONE)
FAILED = PlainState(PlainWord.FAILED)
CANCELLED = PlainState(PlainWord.CANCELLED)

JOB_STATES: Mapping[str, PlainState] = {
    JobState.THROTTLED: FOR_QUOTA,
    JobState.PENDING: FOR_QUEUE,
    JobState.DEFINED: FOR_QUEUE,
    JobState.HELD: ON_HOLD,
    JobState.ASSIGNED: FOR_INPUTS,
    JobState.ACTIVATED: FOR_SLOT,
    JobState.SENT: RUNNING,
    JobState.STARTING: RUNNING,
    JobState.RUNNING: RUNNING,
    JobState.HOLDING: FINISHING,
    JobState.TRANSFERRING: FINISHING,
    JobState.MERGING: FINISHING,
    JobState.FINISHED: DONE,
    JobState.FAILED: FAILED,
    JobState.CANCELLED: CANCELLED,
    JobState.CLOSED: CANCELLED,
}
"""Each state of the engine's jobs, in the order of a job's life."""

TASK_STATES: Mapping[str, PlainState] = {
    TaskState.WAITING: FOR_TASKS,
    TaskState.REGISTERED: FOR_QUEUE,
    TaskState.SCOUTING: RUNNING,
    TaskState.SPLITTING: RUNNING,
    TaskState.RUNNING: RUNNING,
    TaskState.MERGING: FINISHING,
    TaskState.FINISHED: DONE,
    TaskState.FAILED: FAILED,
    TaskState.CANCELLED: CANCELLED,
}
"""Each state of the engine's tasks by itself. ``task_state`` sees a live task's jobs too."""

JobCounts = Mapping[str, int] | Mapping[JobState, int]
"""The number of jobs in each state of the engine."""


def job_state(state: str) -> PlainState:
    """Return what people see of a job in this state of the engine."""
    return JOB_STATES.get(state, PlainState(state))


def task_state(state: str, jobs: JobCounts, held: object = False) -> PlainState:
    """Return what people see of a task: it runs only if a job of it does, else it waits as most do."""
    alone = TASK_STATES.get(state, PlainState(state))
    if state not in LIVE["task"]:
        return alone
    counts = plain_counts(jobs)
    waiting = {plain: count for plain, count in counts.items() if plain.word is PlainWord.WAITING}
    if counts[RUNNING]:
        return RUNNING
    if held:
        return ON_HOLD
    if waiting:
        return max(waiting, key=waiting.__getitem__)
    if state == TaskState.RUNNING and counts.total():
        return FINISHING
    return alone if state in (TaskState.WAITING, TaskState.MERGING) else FOR_QUEUE


def clause(plain: PlainState) -> str:
    """Return ``is waiting for a slot``, ``failed``, ``was cancelled``: what follows the name of a task."""
    return {FAILED: "failed", CANCELLED: "was cancelled"}.get(plain, f"is {plain}")


def job_clause(state: JobState) -> str:
    """Return ``is running`` of a job in this state."""
    return clause(JOB_STATES[state])


def task_clause(state: TaskState) -> str:
    """Return ``is running`` of a task in this state, without a look at its jobs."""
    return clause(TASK_STATES[state])


def with_age(plain: PlainState, age: str) -> str:
    """Return ``done 15 min ago``; of what has not ended, only what it does: it may have done so for less."""
    return f"{plain} {age} ago" if plain.word in ENDS else str(plain)


def plain_counts(jobs: JobCounts) -> Counter[PlainState]:
    """Return the number of jobs in each state that people see, in the order of a job's life."""
    counts: Counter[PlainState] = Counter()
    for state in JobState:
        if count := jobs.get(state, 0):
            counts[JOB_STATES[state]] += count
    return counts


def word_counts(jobs: JobCounts) -> Counter[str]:
    """Return the number of jobs by word alone."""
    counts: Counter[str] = Counter()
    for plain, count in plain_counts(jobs).items():
        counts[plain.word] += count
    return counts


def task_sentence(name: str, state: str, jobs: JobCounts, held: object = False) -> str:
    """Return ``task 12 count is running: 2 running, 1 done`` for the ``name`` ``task 12 count``."""
    plain, counts = task_state(state, jobs, held), plain_counts(jobs)
    total = plural(counts.total(), "job") if counts else "no jobs yet"
    return f"{name} {clause(plain)}: {total if set(counts) <= {plain} else jobs_phrase(jobs)}"


def tasks_phrase(tasks: Mapping[str, int]) -> str:
    """Return ``1 waiting, 2 running`` for the number of tasks in each state of the engine."""
    counts: Counter[str] = Counter()
    for state, plain in TASK_STATES.items():
        if count := tasks.get(state, 0):
            counts[plain.word] += count
    return ", ".join(f"{count:,} {word}" for word, count in counts.items())


def engine_states(word: PlainWord) -> tuple[JobState, ...]:
    """Return the engine's states of jobs with a word."""
    return tuple(state for state in JobState if JOB_STATES[state].word == word)


def jobs_phrase(jobs: JobCounts) -> str:
    """Return ``2 waiting for a slot, 1 running, 4 done``; empty without jobs."""
    return ", ".join(f"{count:,} {plain}" for plain, count in plain_counts(jobs).items())
