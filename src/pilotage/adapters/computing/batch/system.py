"""A batch system at one host: run its profile's commands there, and read their answers."""

import logging
import re
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from pilotage.adapters.computing.batch.commands import NOT_FOUND, Command, Outcome
from pilotage.adapters.computing.batch.hosts import Host
from pilotage.adapters.computing.batch.profile import BatchJob, CommandFault, Profile, Request
from pilotage.adapters.computing.options import batches
from pilotage.ports.computing import submission_log

log = logging.getLogger(__name__)

SUBMIT_LIMIT = 50.0
"""Time limit in s of the submit command. The site ends the command too."""

LOOK_AGAIN = 2.0
"""Seconds between searches for jobs whose submission got no answer."""

LOOKS = 3
"""Most searches for jobs whose submission got an unclear answer."""

MOST_ASKED = 40
"""Most questions to a history that refuses some jobs without naming them."""

BROKEN_FOR = 600.0
"""Seconds during which a history that refuses each single job gets only questions about all jobs at once."""

MOST_NAMED = 500
"""Most jobs in one command."""


class BatchSystem:
    """A batch system. Every call raises OSError if its host, or the system itself, cannot be reached."""

    def __init__(self, profile: Profile[Any], host: Host, commands: str) -> None:
        self.host = host
        self._profile = profile
        self._commands = commands

    def submit(self, request: Request, script: str) -> list[str]:
        """Submit similar jobs. Return them in order of index.

        After an unclear answer, search for the jobs by name. After no answer, submit again, but only if the
        jobs are still missing when the command must have ended. Raises CommandFault if the system refused
        them, and TimeoutError if the jobs may exist.
        """
        command = self._profile.submit(request)
        outcome = self._run(command, script.encode(), SUBMIT_LIMIT)
        self.host.changed()
        if outcome.code is None:
            submission_log(log).warning(
                "%s: no answer to the submission of %s: looking for it", self.host.name, request.name
            )
            # The command may still run, and may have begun only now: connecting to a host can be slow.
            jobs = self._find(request, time.monotonic() + SUBMIT_LIMIT + LOOK_AGAIN)
            if jobs:
                return jobs
            outcome = self._run(command, script.encode(), SUBMIT_LIMIT)
            self.host.changed()
        if number := self._number(outcome):
            return self._profile.elements(number, request.count)
        return self._resolved(request, command, outcome)

    def _number(self, outcome: Outcome) -> str:
        """Return the number of a successful submission; empty if it is unclear.

        If several lines have digits, the number may belong to a note.
        """
        lines = [line for line in outcome.stdout.split("\n") if re.search(r"\d", line)]
        if outcome.code == 0 and len(lines) == 1:
            with suppress(CommandFault):
                return self._profile.submitted(outcome.stdout)
        return ""

    def _resolved(self, request: Request, command: tuple[str, ...], outcome: Outcome) -> list[str]:
        """Return the jobs of an unclear submission, found by name. Raises like ``submit``."""
        fault = self._fault(command, outcome)
        if outcome.code == 0:
            answer = " ".join(f"{outcome.stdout} {outcome.stderr}".split())
            remedy = self._profile.remedy(answer)
            fault = f"{self.host.name}: {_program(command)} answered {answer[:300]!r}"
            fault = f"{fault} ({remedy})" if remedy else fault
        if outcome.code == NOT_FOUND:
            raise CommandFault(fault)
        complaint = f"{outcome.stdout} {outcome.stderr}".lower()
        names_a_job = self._names_a_job(outcome.stdout)
        is_doubtful = names_a_job or any(words in complaint for words in self._profile.doubtful)
        in_doubt = outcome.code in (0, None) or is_doubtful
        # Some wrappers of the command exit with 0 although the batch system refused the job.
        refused = outcome.code == 0 and not is_doubtful and self._profile.is_refusal(complaint)
        for look in range(LOOKS if in_doubt else 1):
            if look:
                time.sleep(LOOK_AGAIN)
            try:
                number = self.numbers().get(request.name)
            except OSError as error:
                # A refusal that we understand is certain without a listing.
                in_doubt = in_doubt or not self._profile.remedy(outcome.complaint)
                submission_log(log).warning("%s", error)
            else:
                if number:
                    return self._profile.elements(number, request.count)
                if refused:
                    raise CommandFault(fault)
        if in_doubt:
            raise TimeoutError(f"{fault}: {request.name} may or may not be submitted")
        raise CommandFault(fault)

    def _names_a_job(self, stdout: str) -> bool:
        """Return whether a line could be the answer to a successful submission."""
        for line in stdout.split("\n"):
            with suppress(CommandFault):
                return bool(self._profile.submitted(line))
        return False

    def jobs(self, jobs: Collection[str], *, fresh: bool = False) -> Mapping[str, BatchJob]:
        """Return the listed jobs, including ``jobs``. The listing is at most a second old."""
        listed: dict[str, BatchJob] = {}
        commands = {self._profile.listing(some) for some in batches(sorted(jobs), MOST_NAMED)}
        for command in commands:
            listed |= self.host.shared(command, partial(self._listed, command), fresh=fresh)
        return listed

    def all_jobs(self) -> Mapping[str, BatchJob]:
        """Return all listed jobs of the account. The listing is at most a second old."""
        command = self._profile.listing([])
        return self.host.shared(command, partial(self._listed, command))

    def numbers(self) -> dict[str, str]:
        """Return the numbers of all listed jobs and arrays by name; the latest for each name."""
        latest: dict[str, str] = {}
        for job, listed in self._listed(self._profile.listing([])).items():
            number = self._profile.number(job)
            latest[listed.name] = max(latest.get(listed.name, ""), number, key=_age)
        return latest

    def remembered(self, jobs: Collection[str]) -> "Remembered":
        """Return the ``jobs`` that the system's history knows; none if it has no history.

        If the history refuses some of them, ask again for the others.
        """
        records: dict[str, BatchJob] = {}
        complaints: dict[str, str] = {}
        for some in batches(sorted(jobs), MOST_NAMED):
            refused, complaint = False, ""
            for command in self._profile.history(some):
                outcome = self._run(command)
                # Lines before an error message are valid too.
                with suppress(CommandFault):
                    records |= self._profile.remembered(outcome.stdout)
                if outcome.code == 0:
                    break
                refused, complaint = True, complaint or outcome.complaint
            missing = [job for job in some if job not in records]
            if refused and missing:
                complaints |= dict.fromkeys(missing, complaint)
                self._ask_apart(missing, complaint, records, complaints)
        return Remembered(records, {job: text for job, text in complaints.items() if job not in records})

    def _ask_apart(
        self, jobs: Sequence[str], complaint: str, records: dict[str, BatchJob], complaints: dict[str, str]
    ) -> None:
        """Ask a history that refused all of these jobs in parts: first without the jobs that it named."""
        named = set(re.findall(r"[\w.\[\]-]+", complaint)) & set(jobs)
        clean = [job for job in jobs if job not in named]
        parts = [part for part in (clean, sorted(named)) if part] if named else _halves(clean)
        key, answered = ("history", self._profile.kind), False
        if len(jobs) == 1 or self.host.rests(key):
            return
        for _ in range(MOST_ASKED):
            if not parts:
                break
            part = parts.pop(0)
            outcome = self._run(self._profile.history(part)[0])
            with suppress(CommandFault):
                records |= self._profile.remembered(outcome.stdout)
            answered = answered or outcome.code == 0
            if outcome.code != 0:
                complaints |= dict.fromkeys(part, outcome.complaint)
                parts += _halves(part)
        if not answered:
            self.host.rest(key, BROKEN_FOR)

    def reasons(self, numbers: Sequence[str]) -> Mapping[str, str]:
        """Return why jobs and arrays do not run, by number, if the system gives reasons."""
        command = self._profile.reasons(numbers)
        return self._profile.explained(self._run(command).stdout) if command else {}

    def cancel(self, jobs: Sequence[str]) -> None:
        """End jobs."""
        for some in batches(jobs, MOST_NAMED):
            command = self._profile.cancel(some)
            outcome = self._run(command)
            if outcome.code != 0 and self._are_live(some):
                raise OSError(self._fault(command, outcome))
        self.host.changed()

    def _are_live(self, jobs: Sequence[str]) -> bool:
        """Return whether some jobs still wait or run.

        Commands complain about jobs that have just ended, too.
        """
        listed = self.jobs(jobs, fresh=True)
        names = {self._profile.same(job) for job in jobs}
        return any(job.state != "ended" for name, job in listed.items() if self._profile.same(name) in names)

    def slots(self) -> int | None:
        """Return the slots of the queue, None if the system does not say."""
        command = self._profile.capacity()
        if not command:
            return None
        outcome = self._run(command)
        return self._profile.slots(outcome.stdout) if outcome.code == 0 else None

    def ask(self, command: tuple[str, ...]) -> str:
        """Run a command that changes nothing. Return its output."""
        outcome = self._run(command)
        if outcome.code != 0:
            raise OSError(self._fault(command, outcome))
        return outcome.stdout

    def _listed(self, command: tuple[str, ...]) -> Mapping[str, BatchJob]:
        outcome = self._run(command)
        try:
            if not self._profile.is_listed(outcome):
                raise OSError(self._fault(command, outcome))
            return self._profile.listed(outcome.stdout)
        except CommandFault as fault:
            raise OSError(self._fault(command, Outcome(stderr=str(fault), code=outcome.code))) from fault

    def _find(self, request: Request, until: float) -> list[str]:
        """Search for the jobs of a name until the time is up. Return an empty list if they are missing."""
        while True:
            try:
                number = self.numbers().get(request.name)
            except OSError as error:
                submission_log(log).warning("%s", error)
            else:
                if number:
                    return self._profile.elements(number, request.count)
                if time.monotonic() >= until:
                    return []
            if time.monotonic() >= until + SUBMIT_LIMIT:
                raise TimeoutError(f"{self.host.name}: {request.name} may or may not be submitted")
            time.sleep(LOOK_AGAIN)

    def _run(self, argv: tuple[str, ...], stdin: bytes = b"", time_limit: float = 60.0) -> Outcome:
        if self._commands:
            # Batch systems' commands find each other through the search path.
            argv = ("sh", "-c", 'PATH="$0:$PATH"; export PATH; exec "$@"', self._commands, *argv)
        return self.host.run(Command(argv=argv, stdin=stdin, time_limit=time_limit))

    def _fault(self, argv: tuple[str, ...], outcome: Outcome) -> str:
        """Describe a failure: the command, its message, and who can mend it."""
        remedy = self._profile.remedy(outcome.complaint)
        if outcome.code == NOT_FOUND:
            remedy = f"name the directory of {_program(argv)} with option commands"
        command = Command(argv=argv)
        advice = f" ({remedy})" if remedy else ""
        return f"{self.host.name}: {outcome.complaint}{advice}; the command was: {command}"


@dataclass(frozen=True, slots=True)
class Remembered:
    """Jobs by number that a history knows, and its ``complaints`` about refused jobs."""

    jobs: Mapping[str, BatchJob]
    complaints: Mapping[str, str]


def _program(argv: Sequence[str]) -> str:
    """Return the batch system's own command, even if a shell script runs it."""
    return argv[3] if argv[:2] == ("sh", "-c") and len(argv) > 3 else argv[0]


def _halves(jobs: Sequence[str]) -> list[Sequence[str]]:
    middle = len(jobs) // 2
    return [jobs[:middle], jobs[middle:]] if middle else []


def _age(number: str) -> tuple[int, str]:
    """Return a sort key that orders job numbers by age, latest last. Letters may follow the digits."""
    # By length first: 99 is older than 100, and letters may follow.
    return len(re.match(r"\d*", number)[0]), number  # type: ignore[index]
