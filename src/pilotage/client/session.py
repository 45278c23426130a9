"""A program's conversation with the server while its jobs run: what may fail for a while is asked again."""

import time
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from .errors import (
    ClientError,
    Conflict,
    NotPilotage,
    NotSignedIn,
    Refused,
    ServerFault,
    TooMany,
    Unreachable,
)
from .job_states import WAITING, JobStates, TaskJobs

if TYPE_CHECKING:
    from ._sync.job_control import JobControl
    from ._sync.records import Job

Answer = TypeVar("Answer")
AnyClient = TypeVar("AnyClient", bound="JobControl")

AWAY = 600.0
"""Seconds that a submission waits for a server that is away, or for a new token."""

LONGEST_PAUSE = 10.0

PASSING = (Unreachable, ServerFault, TooMany, NotSignedIn)
"""Errors that may pass without a change of the request."""

LONG_WAIT = 60.0
"""Seconds after which the log has why a job waits, and between two looks at the reason."""

MOST_REASONS = 20
"""Most tasks that are asked for a reason at a time."""

MOST_REPEATS = 3
"""How often a job is repeated whose node, pilot or storage failed."""

FAULTS_OF_PLACES = frozenset(("pilot", "lost", "disk", "storage", "slot-walltime", "start"))
"""Kinds of failures that say nothing about the job."""


class ProgramLog(Protocol):
    """Where a program writes what its user reads."""

    def info(self, message: str, /) -> Any:
        """Write what happens."""

    def warning(self, message: str, /) -> Any:
        """Write what goes wrong."""


class Session(Generic[AnyClient]):
    """What a program that waits for jobs needs beside a client. ``host`` is the program's name in its log."""

    def __init__(self, client: AnyClient, host: str, log: ProgramLog) -> None:
        self.client = client
        self.states = JobStates(client)
        self._host = host
        self._log = log
        self._has_worked = False
        self._silence = ""
        self._planned: set[str] = set()
        self._files: dict[str, str] = {}
        self._repeats: dict[int, int] = {}
        self._looked = time.monotonic()

    def page(self, task: int) -> str:
        """Return the address of a task's page."""
        return f"{self.client.url}/tasks/{task}"

    def persevere(self, call: Callable[[], Answer]) -> Answer:
        """Return what a call returns. If the server is away for a while, or wants a new token, repeat it."""
        until, pause = time.monotonic() + AWAY, 1.0
        while True:
            try:
                answer = call()
            except ClientError as error:
                if not self._may_pass(error) or time.monotonic() > until:
                    raise
                self.report_silence(error)
                time.sleep(pause)
                pause = min(LONGEST_PAUSE, pause * 2)
            else:
                self.report_answer()
                return answer

    def _may_pass(self, error: ClientError) -> bool:
        if not self._has_worked and isinstance(error, (NotSignedIn, Unreachable)):
            # A wrong address or token: waiting does not help.
            return False
        return isinstance(error, PASSING) and not isinstance(error, NotPilotage)

    def report_silence(self, error: ClientError) -> None:
        """Log once why the server does not answer."""
        if not self._silence:
            self._silence = str(error)
            self._log.warning(f"Pilotage: {error}. Jobs go on; {self._host} asks again.")

    def report_answer(self) -> None:
        """Log once that the server answers again."""
        self._has_worked = True
        if self._silence:
            self._silence = ""
            self._log.info("Pilotage answers again.")

    # Before a submission

    def queues_of(self, sites: Iterable[str]) -> list[str]:
        """Return the queues of sites. Raises ``Refused`` for a site that has none."""
        chosen, places = list(sites), {queue["site"] for queue in self._queues}
        if strangers := [site for site in chosen if site not in places]:
            raise Refused(f"site: no queue is at {', '.join(strangers)}; sites: {', '.join(sorted(places))}")
        return [queue["name"] for queue in self._queues if queue["site"] in chosen]

    @cached_property
    def _queues(self) -> list[Any]:
        return self.persevere(lambda: list(self.client.each(self.client.queues)))

    def file(self, name: str) -> str:
        """Return the identifier of a file of the catalogue, ``scope:name``. Raises ``NotFound``."""
        if name not in self._files:
            self._files[name] = str(self.persevere(lambda: self.client.file(name))["file"])
        return self._files[name]

    def check(self, example: Mapping[str, Any], same: str) -> None:
        """Raise ``Refused`` if no queue can ever run such jobs, with the cheapest change.

        The server is asked once for each text in ``same``.
        """
        if same in self._planned:
            return
        answer = self.persevere(lambda: self.client.plan([example]))
        for task in answer["tasks"]:
            if all(map(is_hopeless, task["choices"])) and task["choices"]:
                raise Refused("\n".join(task["lines"]))
        if answer["refused"]:
            faults = [fault for task in answer["refused"] for fault in task["errors"]]
            raise Refused("; ".join(f"{fault['field']}: {fault['message']}" for fault in faults))
        self._planned.add(same)

    def submit(self, document: Mapping[str, Any], what: str, key: str) -> int:
        """Submit one task, once whatever happens, log its page, and return its number.

        ``what`` are its jobs in the program's words.
        """
        answer = self.persevere(lambda: self.client.submit_all([document], key=key))
        for warning in answer.get("warnings", ()):
            self._log.warning(f"Pilotage: {warning}")
        task = int(answer["tasks"][0]["id"])
        self._log.info(f"Pilotage runs {what} as task {task}: {self.page(task)}")
        return task

    # While jobs run

    def refresh(self) -> None:
        """Read the states of jobs, and log why some wait. A failure of the server changes nothing."""
        try:
            self.states.refresh()
            self.report_answer()
            if time.monotonic() - self._looked > LONG_WAIT:
                self._looked = time.monotonic()
                self._log_reasons()
        except ClientError as error:
            self.report_silence(error)

    def _log_reasons(self) -> None:
        """Log why jobs wait for longer than a minute: one line for each task and reason."""
        now = time.monotonic()
        waiting = {
            task: jobs
            for task, jobs in self.states.tasks.items()
            if now - jobs.submitted > LONG_WAIT and not WAITING.isdisjoint(jobs.states.values() or [""])
        }
        for number, jobs in list(waiting.items())[:MOST_REASONS]:
            self._log_reason(number, jobs)

    def _log_reason(self, number: int, jobs: TaskJobs) -> None:
        remark = next(iter(self.client.task(number).remarks), None)
        if remark and without_numbers(repr(remark)) != jobs.reason:
            jobs.reason = without_numbers(repr(remark))
            self._log.info(f"Pilotage task {number} waits: {' '.join(repr(remark).split())}")

    def repeats(self, job: "Job") -> bool:
        """Run a failed job again if its place failed, three times at most. Return whether it runs again."""
        attempts = job.get("failed_attempts") or [{}]
        repeats = self._repeats.get(job.id, 0)
        if (
            job.state != "failed"
            or attempts[-1].get("kind") not in FAULTS_OF_PLACES
            or repeats == MOST_REPEATS
        ):
            return False
        self._repeats[job.id] = repeats + 1
        self._log.info(f"Pilotage runs job {job.id} again: {job['error']}")
        self.client.retry(f"job:{job.id}")
        return True

    def cancel(self, jobs: Iterable[tuple[int, int]]) -> None:
        """Cancel jobs, each by its task and its place there; whole tasks where no other job is left."""
        tasks: dict[int, set[int]] = {}
        for task, index in jobs:
            tasks.setdefault(task, set()).add(index)
        for task, indexes in tasks.items():
            live = self.states.live(task)
            numbers = [self.states.number(task, index) for index in sorted(live & indexes)]
            for target in [str(task)] if live <= indexes else [f"job:{number}" for number in numbers]:
                self._cancel(target)

    def _cancel(self, target: str) -> None:
        try:
            self.client.cancel(target)
        except Conflict:
            # It has just ended.
            pass
        except ClientError as error:
            self.report(f"{target} is not cancelled: {error}; pilotage cancel {target}")

    def report(self, problem: str) -> None:
        """Log what went wrong."""
        self._log.warning(f"Pilotage: {problem}")


def is_hopeless(choice: Any) -> bool:
    """Return whether each queue refuses a job for a reason that only the job's owner can remove."""
    refused = {
        queue for refusal in choice["refusals"] if refusal["mend"] == "user" for queue in refusal["queues"]
    }
    return 0 < int(choice["considered"]) <= len(refused)


def without_numbers(text: str) -> str:
    """Return a text without its digits: a reason is the same when only its counts change."""
    return "".join(sign for sign in text if not sign.isdigit())
