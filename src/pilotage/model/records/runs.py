"""What ran: a job's last attempt with its place, its inputs and its outputs."""

from dataclasses import dataclass

from pilotage.model.records.data import File
from pilotage.model.records.spec import JobKind
from pilotage.model.records.states import JobState
from pilotage.model.values.types import DESCRIBED


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """The last attempt of a job."""

    __pydantic_config__ = DESCRIBED

    job: int
    """The job's number."""
    kind: JobKind
    """Normal, scout or merge."""
    index: int | None
    """The job's place in its task; none: a merge job."""
    state: JobState
    """The state in which the job ended."""
    error: str
    """Why it failed; empty if it did not."""
    attempt: int
    """The number of the attempt."""
    queue: str
    """The queue of its pilot; empty: it never got one."""
    node: str
    """The machine of its pilot; empty: unknown."""
    agent_version: str
    """The version of its pilot; empty: unknown."""
    started: float | None
    """When it started, in s since 1970; none: it has not."""
    ended: float | None
    """When it ended, in s since 1970; none: it has not started."""
    exit_code: int | None
    """Exit code of the payload; none: not reported."""
    inputs: tuple[str, ...] = ()
    """Identifiers of the files that it read."""
    outputs: tuple[File, ...] = ()
    """The files that it made."""
