"""The adapter of every batch system that is used through commands."""

import re
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar

from cachetools import FIFOCache

from pilotage.adapters.computing.batch.hosts import Host, Hosts
from pilotage.adapters.computing.batch.options import BatchOptions
from pilotage.adapters.computing.batch.profile import (
    BatchJob,
    CommandFault,
    Profile,
    Reference,
    Request,
    references_in,
)
from pilotage.adapters.computing.batch.script import EXITS, pilot_script
from pilotage.adapters.computing.batch.spool import MOST_TAILS, Spool, SpoolPaths
from pilotage.adapters.computing.batch.system import MOST_NAMED, BatchSystem
from pilotage.adapters.computing.options import batches, parse, similar
from pilotage.ports.computing import Capacity, PilotOrder, PilotStatus, Submitted

LONGEST_SUBMISSION = 180.0
"""Seconds after which one call submits no further array."""

MOST_EXPLAINED = 20
"""Most jobs and arrays per poll for which a second command asks why they do not run."""

MOST_CANCELLED = 10_000
"""Most cancelled pilots to remember, latest first."""

PILOT_JOB = re.compile(r"-pilot-\d+(\+\d+)?$")
"""The end of the name of a job or an array of pilots, in every batch system."""


class BatchElement:
    """A queue of a batch system, on this host or behind a login node."""

    end_doubt: ClassVar[float] = 0
    options: ClassVar[type[BatchOptions]]
    profile: ClassVar[type[Profile[Any]]]

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = parse(self.profile.kind, self.options, options)
        self._profile = self.profile(self._options)
        self._lock = threading.Lock()
        self._hosts: Hosts | None = None
        self._cancelled: FIFOCache[Reference, None] = FIFOCache(MOST_CANCELLED)

    def share(self, hosts: Hosts) -> None:
        """Use these connections, which others share."""
        self._hosts = hosts

    def submit(self, orders: Sequence[PilotOrder]) -> Sequence[Submitted]:
        """Submit pilots. Similar pilots go together as an array, if the batch system has arrays.

        A file at the site first records where each pilot goes. If an order comes again, the adapter finds its
        pilot there.
        """
        answers: dict[str, Submitted] = {}
        begun = time.monotonic()
        for batch in batches(orders, MOST_NAMED):
            answers |= self._submit_some(batch, begun + LONGEST_SUBMISSION)
        return [answers[order.name] for order in orders]

    def poll(self, references: Collection[str]) -> Mapping[str, PilotStatus]:
        """Return the status of pilots, from one listing for all queues of the account.

        Pilots that are missing in the listing come from the history. One that is missing there too is
        unknown, unless this adapter cancelled it.
        """
        statuses = {
            text: PilotStatus(state="unknown", reason="not a reference of this kind") for text in references
        }
        parsed = references_in(references)
        if not parsed:
            return statuses
        system = self._system()
        jobs = self._matching_jobs(
            parsed.values(), system.jobs([reference.job for reference in parsed.values()])
        )
        complaints: Mapping[str, str] = {}
        if lost := [reference for reference in parsed.values() if reference not in jobs]:
            history = system.remembered({reference.job for reference in lost})
            jobs |= self._matching_jobs(lost, history.jobs)
            complaints = history.complaints
        jobs |= self._with_reasons(jobs, system)
        for text, reference in parsed.items():
            statuses[text] = self._status(reference, jobs.get(reference), complaints.get(reference.job, ""))
        return self._with_last_words(self._with_results(statuses, parsed), parsed)

    def _with_results(
        self, statuses: Mapping[str, PilotStatus], parsed: Mapping[str, Reference]
    ) -> dict[str, PilotStatus]:
        """Add what ended and missing pilots left in the spool. A pilot has ended only when its spool has been
        read.

        Raises OSError if the spool cannot be read: then no pilot gets a status.
        """
        gone = [text for text in parsed if statuses[text].state == "ended" or statuses[text].missing]
        if not gone:
            return dict(statuses)
        first, later = gone[:MOST_TAILS], gone[MOST_TAILS:]
        spool = Spool(self._host(), self._options.spool)
        results = spool.results([parsed[text].pilot for text in first], self._options.results_days)
        read = {
            text: replace(statuses[text], results=tuple(results.get(parsed[text].pilot, ())))
            for text in first
        }
        unread = {
            text: PilotStatus(
                state="unknown", reason=f"{statuses[text].reason}; its spool is looked at later"
            )
            for text in later
        }
        return {**statuses, **read, **unread}

    def read_left(self, place: str, number: int, start: int, size: int) -> str:
        """See ``ResultsKeeper``."""
        return Spool(self._host(), self._options.spool).read_left(place, number, start, size)

    def drop_left(self, places: Collection[str]) -> None:
        """See ``ResultsKeeper``."""
        Spool(self._host(), self._options.spool).drop_left(places)

    def closed_for(self) -> float:
        """See ``LeadingBack``."""
        return self._host().closed_for()

    def _matching_jobs(
        self, references: Iterable[Reference], jobs: Mapping[str, BatchJob]
    ) -> dict[Reference, BatchJob]:
        """Return the jobs behind references. A number may be reused, so the job's name must match too."""
        spelled: dict[str, list[BatchJob]] = defaultdict(list)
        for number, job in jobs.items():
            spelled[self._profile.same(number)].append(job)
        matches = {}
        for reference in references:
            exact = [jobs[reference.job]] if reference.job in jobs else []
            for job in (*exact, *spelled.get(self._profile.same(reference.job), ())):
                if job.name == reference.name:
                    matches[reference] = job
                    break
        return matches

    def _with_reasons(
        self, jobs: Mapping[Reference, BatchJob], system: BatchSystem
    ) -> dict[Reference, BatchJob]:
        """Return the jobs that do not run, with reasons that the listing lacks."""
        idle = {
            reference: job
            for reference, job in jobs.items()
            if job.state in ("waiting", "stuck") and not job.explained
        }
        # Ask for stuck jobs first: the server gives them up once it knows the reason.
        numbers = dict.fromkeys(
            self._profile.number(reference.job)
            for reference in sorted(idle, key=lambda reference: idle[reference].state != "stuck")
        )
        reasons = system.reasons(list(numbers)[:MOST_EXPLAINED]) if numbers else {}
        return {
            reference: replace(job, reason=f"{job.reason}: {words}")
            for reference, job in idle.items()
            if (words := reasons.get(self._profile.number(reference.job)))
        }

    def cancel(self, references: Collection[str]) -> None:
        """End the pilots that are listed under their names."""
        parsed = references_in(references).values()
        if not parsed:
            return
        system = self._system()
        # List again: the batch system may have reused a number, and that job must not be cancelled.
        jobs = self._matching_jobs(parsed, system.jobs([reference.job for reference in parsed], fresh=True))
        live = [reference for reference, job in jobs.items() if job.state != "ended"]
        if not live:
            return
        system.cancel([reference.job for reference in live])
        with self._lock:
            self._cancelled.update(dict.fromkeys(live))

    def capacity(self) -> Capacity:
        """Return the slots of the queue, and everybody's jobs there, or else the account's pilots."""
        system = self._system()
        scope = " ".join((self._profile.kind, system.host.name, *sorted(self._profile.queues)))
        command = self._profile.population()
        if jobs := self._profile.populated(system.ask(command)) if command else None:
            slots, (running, waiting) = system.slots(), jobs
            return Capacity(slots=slots, running=running, waiting=waiting, everybody=True, scope=scope)
        pilots = [job for job in system.all_jobs().values() if PILOT_JOB.search(job.name)]
        states = [job.state for job in pilots if self._profile.may_hold(job)]
        return Capacity.of(states, slots=system.slots(), scope=scope)

    def _host(self) -> Host:
        with self._lock:
            if self._hosts is None:
                self._hosts = Hosts()
            return self._hosts.host(self._options)

    def _system(self) -> BatchSystem:
        return BatchSystem(self._profile, self._host(), self._options.commands)

    def _submit_some(self, orders: Sequence[PilotOrder], until: float) -> dict[str, Submitted]:
        host = self._host()
        spool = Spool(host, self._options.spool)
        paths, places = spool.put({order.name: order.token for order in orders}, self._places(orders))
        answers = self._there_already(places) if places else {}
        if places:
            orders = [order for order in orders if order.name not in answers]
            spool.place(self._places(orders))
        for group in similar(orders, self._profile.array_size):
            late = time.monotonic() > until
            answers |= (
                _refused(group, f"{host.name} is too slow") if late else self._submit(group, host, paths)
            )
        if refused := [name for name, answer in answers.items() if answer.error]:
            with suppress(OSError):
                spool.forget(refused)
        return answers

    def _places(self, orders: Sequence[PilotOrder]) -> dict[str, str]:
        """Return the reference of each pilot: the name of its job or array, its index, and the array's
        size."""
        return {
            order.name: f"{self._job_name(group)} {at} {len(group)}"
            for group in similar(orders, self._profile.array_size)
            for at, order in enumerate(group, 1)
        }

    def _job_name(self, orders: Sequence[PilotOrder]) -> str:
        first, more = orders[0].name, len(orders) - 1
        return self._profile.name(f"{first}+{more}" if more else first)

    def _there_already(self, places: Mapping[str, str]) -> dict[str, Submitted]:
        """Return the answers for pilots of earlier orders that the batch system has."""
        answers: dict[str, Submitted] = {}
        numbers = self._system().numbers()
        for pilot, place in places.items():
            name, index, count = place.split()
            if name in numbers:
                job = self._profile.elements(numbers[name], int(count))[int(index) - 1]
                answers[pilot] = Submitted(reference=str(Reference(job, name, pilot)))
        return answers

    def _submit(self, orders: Sequence[PilotOrder], host: Host, paths: SpoolPaths) -> dict[str, Submitted]:
        """Submit similar pilots as one job or one array."""
        first, count, name = orders[0], len(orders), self._job_name(orders)
        request = Request(
            name=name,
            count=count,
            cores=first.cores,
            memory=first.memory,
            walltime=first.walltime,
            log=f"{paths.logs}/{name if count > 1 else first.name}{self._profile.log_ending(count)}",
        )
        try:
            url = host.server_url(first.server_url, paths.address)
            stem = name if count > 1 else ""
            script = pilot_script(orders, stem, paths, self._options, self._profile.index, url)
            jobs = self._system().submit(request, script)
        except TimeoutError:
            # In doubt is not refused: the same orders come again, and then the name finds the accepted jobs.
            raise
        except (OSError, CommandFault) as fault:
            return _refused(orders, str(fault))
        return {
            order.name: Submitted(reference=str(Reference(job, name, order.name)))
            for job, order in zip(jobs, orders, strict=True)
        }

    def _status(self, reference: Reference, job: BatchJob | None, complaint: str) -> PilotStatus:
        if job is not None:
            return job.status()
        with self._lock:
            if reference in self._cancelled:
                return PilotStatus(state="ended", reason="cancelled from here")
        reason = f"{self._profile.kind} does not list it, and remembers no end"
        reason = f"{reason}: {complaint}" if complaint else reason
        return PilotStatus(state="unknown", reason=reason, missing=True)

    def _with_last_words(
        self, statuses: dict[str, PilotStatus], parsed: Mapping[str, Reference]
    ) -> Mapping[str, PilotStatus]:
        """Add the last lines of ended pilots' logs, or the meaning of the script's exit code."""
        ended = {
            text: reference.pilot for text, reference in parsed.items() if statuses[text].state == "ended"
        }
        if not ended:
            return statuses
        last: Mapping[str, str] = {}
        with suppress(OSError):
            last = Spool(self._host(), self._options.spool).tails(ended.values())
        for text, pilot in ended.items():
            status = statuses[text]
            # Prefer the log. A pilot that never started has none.
            words = last.get(pilot) or EXITS.get(status.exit_code or 0, "")
            reason = "; its log ends: ".join(part for part in (status.reason, words) if part)
            statuses[text] = replace(status, reason=reason)
        return statuses


def _refused(orders: Sequence[PilotOrder], error: str) -> dict[str, Submitted]:
    return {order.name: Submitted(error=error) for order in orders}
