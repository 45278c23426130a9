"""A batch system at one host: its profile's commands, run there, and their answers read."""

import logging
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

from pilotage.ports.pool_logs import submission_log

from .commands import NOT_FOUND, Command, Outcome
from .hosts import Host
from .profile import BatchJob, CommandFault, Profile, Request

log = logging.getLogger(__name__)
T = TypeVar("T")

SUBMIT_LIMIT = 50.0
"""Seconds that a command which submits may take; after them it is ended at the site, too."""

LOOK_AGAIN = 2.0
"""Seconds between looks for jobs whose submission was not answered."""

MOST_NAMED = 500
"""Jobs that one command names."""


class BatchSystem:
    """A batch system. Every call raises OSError where its host, or the system itself, cannot be reached."""

    def __init__(self, profile: Profile, host: Host, commands: str) -> None:
        self.host = host
        self._profile = profile
        self._commands = commands

    def submit(self, request: Request, script: str) -> list[str]:
        """Submit jobs that are alike; returns them in the order of their indexes. Raises CommandFault.

        Where no answer comes, they are looked for by their name, and submitted again only when they are not
        there after the time in which the command must have ended.
        """
        command = self._profile.submit(request)
        outcome = self._run(command, script.encode(), SUBMIT_LIMIT)
        self.host.changed()
        if outcome.code is None:
            submission_log(log).warning(
                "%s: no answer to the submission of %s: looking for it", self.host.name, request.name
            )
            # The command may still be at work, and have begun just now: a host may be slow to connect to.
            found = self._find(request, time.monotonic() + SUBMIT_LIMIT + LOOK_AGAIN)
            if found:
                return found
            outcome = self._run(command, script.encode(), SUBMIT_LIMIT)
            self.host.changed()
        if outcome.code != 0:
            raise CommandFault(self._fault(command, outcome))
        return self._profile.elements(self._profile.submitted(outcome.stdout), request.count)

    def jobs(self, jobs: Collection[str], *, fresh: bool = False) -> Mapping[str, BatchJob]:
        """Return the ``jobs`` that the system lists, among others, as it was a second ago at most."""
        found: dict[str, BatchJob] = {}
        commands = {self._profile.listing(some) for some in _chunks(sorted(jobs))}
        for command in commands:
            found |= self.host.shared(command, partial(self._listed, command), fresh=fresh)
        return found

    def all_jobs(self) -> Mapping[str, BatchJob]:
        """All jobs of the account that are listed, as they were a second ago at most."""
        command = self._profile.listing([])
        return self.host.shared(command, partial(self._listed, command))

    def numbers(self) -> dict[str, str]:
        """The numbers of all jobs and arrays that are listed now, by name; the latest of a name."""
        found: dict[str, str] = {}
        for job, listed in self._listed(self._profile.listing([])).items():
            number = self._profile.number(job)
            found[listed.name] = max(found.get(listed.name, ""), number, key=_age)
        return found

    def remembered(self, jobs: Collection[str]) -> Mapping[str, BatchJob]:
        """Return the ``jobs`` that the system's history knows; none where it has no history."""
        found: dict[str, BatchJob] = {}
        for some in _chunks(sorted(jobs)):
            for command in self._profile.history(some):
                outcome = self._run(command)
                if outcome.code == 0:
                    found |= self._profile.remembered(outcome.stdout)
                    break
        return found

    def cancel(self, jobs: Sequence[str]) -> None:
        """End jobs."""
        for some in _chunks(jobs):
            command = self._profile.cancel(some)
            outcome = self._run(command)
            if outcome.code != 0 and self._are_live(some):
                raise OSError(self._fault(command, outcome))
        self.host.changed()

    def _are_live(self, jobs: Sequence[str]) -> bool:
        """Tell whether some still wait or run: a command complains also of those that have just ended."""
        listed = self.jobs(jobs, fresh=True)
        return any(job in listed and listed[job].state != "ended" for job in jobs)

    def slots(self) -> int | None:
        """Slots of the queue, None where the system does not tell."""
        command = self._profile.capacity()
        if not command:
            return None
        outcome = self._run(command)
        return self._profile.slots(outcome.stdout) if outcome.code == 0 else None

    def ask(self, command: tuple[str, ...]) -> str:
        """Run a command that changes nothing; returns what it printed."""
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
        """The jobs of a name, looked for until there is no hope; empty where they are not there."""
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
                raise OSError(
                    f"{self.host.name}: nobody knows whether {request.name} was submitted: if it was, "
                    "its pilots end when they start"
                )
            time.sleep(LOOK_AGAIN)

    def _run(self, argv: tuple[str, ...], stdin: bytes = b"", time_limit: float = 60.0) -> Outcome:
        if self._commands:
            # Batch systems' commands call each other by the search path.
            argv = ("sh", "-c", 'PATH="$0:$PATH"; export PATH; exec "$@"', self._commands, *argv)
        return self.host.run(Command(argv=argv, stdin=stdin, time_limit=time_limit))

    def _fault(self, argv: tuple[str, ...], outcome: Outcome) -> str:
        """Describe a failure: the command, its complaint, and who can mend it."""
        remedy = self._profile.remedy(outcome.complaint)
        if outcome.code == NOT_FOUND:
            remedy = f"name the directory of {argv[0]} with option commands"
        shown = Command(argv=argv)
        advice = f" ({remedy})" if remedy else ""
        return f"{self.host.name}: {outcome.complaint}{advice}; the command was: {shown}"


def _age(number: str) -> tuple[int, str]:
    """Order numbers of jobs, the latest last, whatever stands behind them."""
    # By length first: 99 is older than 100, and numbers may have letters behind them.
    return len(re.match(r"\d*", number)[0]), number  # type: ignore[index]


def _chunks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for at in range(0, len(items), MOST_NAMED):
        yield items[at : at + MOST_NAMED]
