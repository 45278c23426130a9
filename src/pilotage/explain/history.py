"""The history of a job as lines of text."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, Protocol

from pilotage.model.records.failures import FailedAttempt
from pilotage.model.records.states import JobState, State
from pilotage.model.rules.plain_states import job_state
from pilotage.model.values.phrases import moment


class Event(Protocol):
    """A transition of a record in its history."""

    @property
    def time(self) -> float: ...
    @property
    def source(self) -> State | Literal["unknown"] | None: ...
    @property
    def target(self) -> State | Literal["unknown"]: ...
    @property
    def cause(self) -> str: ...


class _JobWithHistory(Protocol):
    @property
    def id(self) -> int: ...
    @property
    def task(self) -> int: ...
    @property
    def state(self) -> JobState: ...
    @property
    def queue(self) -> str: ...
    @property
    def attempt(self) -> int: ...
    @property
    def error(self) -> str: ...
    @property
    def index(self) -> int | None: ...
    @property
    def parameters(self) -> Mapping[str, str]: ...
    @property
    def events(self) -> Sequence[Event]: ...
    @property
    def failed_attempts(self) -> Sequence[FailedAttempt]: ...


def of_job(job: _JobWithHistory) -> Iterator[str]:
    """Return the job's state, each transition (oldest first), the failures of earlier attempts, and its
    last error."""
    place = f" at {job.queue}" if job.queue else ""
    yield f"job {job.id} of task {job.task}: {job_state(job.state)}{place}, attempt {job.attempt}"
    if job.index is not None:
        yield f"  index {job.index}{''.join(f', {name}={value}' for name, value in job.parameters.items())}"
    for event in job.events:
        change = f"{event.source} to {event.target}" if event.source else str(event.target)
        yield f"  {moment(event.time)}  {change}: {event.cause}"
    for failed in job.failed_attempts:
        if failed.attempt < job.attempt:
            yield f"  attempt {failed.attempt} failed {_describe_failure(failed)}"
    first, *rest = job.error.splitlines() or [""]
    if first:
        yield f"  error: {first}"
    yield from (f"    {line}" for line in rest)


def _describe_failure(failed: FailedAttempt) -> str:
    outcome = "its payload never ran" if failed.exit_code is None else f"exit code {failed.exit_code}"
    place = f"at {failed.queue}, node {failed.node}, after {failed.lasted:.0f} s"
    counts = "" if failed.rules.counts else ", which does not count"
    return f"{place}: {failed.rules.words}{counts}, {outcome}{failed.error and f', {failed.error}'}"
