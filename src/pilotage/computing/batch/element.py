"""The adapter of every batch system of which commands are the entrance."""

import re
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from pilotage.ports.computing import Capacity, PilotOrder, PilotStatus, Submitted

from .hosts import Host, Hosts
from .options import BatchOptions
from .profile import BatchJob, CommandFault, Profile, Request
from .reference import Reference
from .script import EXITS, pilot_script
from .spool import Spool
from .spool_paths import SpoolPaths
from .system import MOST_NAMED, BatchSystem

LONGEST_SUBMISSION = 180.0
"""Seconds after which no further array is submitted in one call."""

MOST_CANCELLED = 10_000
"""Cancelled pilots that are remembered, the latest ones."""

PILOT_JOB = re.compile(r"-pilot-\d+(\+\d+)?$")
"""The end of the name of a job or an array of pilots, whatever a batch system allows in names."""


class BatchElement:
    """A queue of a batch system, on this host or behind a login node."""

    def __init__(self, profile: Profile, options: BatchOptions) -> None:
        self._profile = profile
        self._options = options
        self._lock = threading.Lock()
        self._hosts: Hosts | None = None
        self._cancelled: dict[Reference, None] = {}

    def share(self, hosts: Hosts) -> None:
        """Use these connections, which others use as well."""
        self._hosts = hosts

    def submit(self, orders: Sequence[PilotOrder]) -> Sequence[Submitted]:
        """Submit pilots; those that are ordered alike as arrays, where the batch system has them.

        Which pilot is where is written down at the site before: a pilot that is ordered again is found there.
        """
        answers: dict[str, Submitted] = {}
        begun = time.monotonic()
        for at in range(0, len(orders), MOST_NAMED):
            answers |= self._submit_some(orders[at : at + MOST_NAMED], begun + LONGEST_SUBMISSION)
        return [answers[order.name] for order in orders]

    def poll(self, references: Collection[str]) -> Mapping[str, PilotStatus]:
        """Tell the status of pilots, by one listing for all queues of the account.

        What is listed no more is looked up in the history; what that does not know is unknown, unless it was
        cancelled from here.
        """
        statuses = {
            text: PilotStatus(state="unknown", reason="not a reference of this kind") for text in references
        }
        known = {text: found for text in references if (found := Reference.parse(text))}
        if not known:
            return statuses
        system = self._system()
        jobs = dict(system.jobs([found.job for found in known.values()]))
        # A number may be given to another's job one day: only one with our name counts.
        if lost := {found.job for found in known.values() if not _is(jobs.get(found.job), found)}:
            jobs |= system.remembered(lost)
        for text, found in known.items():
            statuses[text] = self._status(found, jobs.get(found.job))
        return self._with_last_words(statuses, known)

    def cancel(self, references: Collection[str]) -> None:
        """End those pilots that are listed under their names."""
        known = [found for text in references if (found := Reference.parse(text))]
        if not known:
            return
        system = self._system()
        # Asked anew: a number that was given again since must not be cancelled.
        jobs = system.jobs([found.job for found in known], fresh=True)
        live = [
            found
            for found in known
            if _is(job := jobs.get(found.job), found) and job and job.state != "ended"
        ]
        if not live:
            return
        system.cancel([found.job for found in live])
        with self._lock:
            self._cancelled.update(dict.fromkeys(live))
            while len(self._cancelled) > MOST_CANCELLED:
                del self._cancelled[next(iter(self._cancelled))]

    def capacity(self) -> Capacity:
        """Slots of the queue, and the account's pilots there, whichever server submitted them."""
        system = self._system()
        states = [job.state for job in system.all_jobs().values() if self._is_pilot_here(job)]
        return Capacity(
            slots=system.slots(), running=states.count("running"), waiting=states.count("waiting")
        )

    def _is_pilot_here(self, job: BatchJob) -> bool:
        """Tell whether a job is a pilot of this queue, as far as the listing says which queue it is in."""
        wanted, told = self._profile.queues, job.queue.split(",")
        return bool(PILOT_JOB.search(job.name)) and not (job.queue and wanted and wanted.isdisjoint(told))

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
        for alike in _alike(orders, self._profile.most):
            late = time.monotonic() > until
            answers |= (
                _refused(alike, f"{host.name} is too slow") if late else self._submit(alike, host, paths)
            )
        if refused := [name for name, answer in answers.items() if answer.error]:
            with suppress(OSError):
                spool.forget(refused)
        return answers

    def _places(self, orders: Sequence[PilotOrder]) -> dict[str, str]:
        """The reference of each pilot: the name of its job or array, its index, and the array's size."""
        return {
            order.name: f"{self._job_name(alike)} {at} {len(alike)}"
            for alike in _alike(orders, self._profile.most)
            for at, order in enumerate(alike, 1)
        }

    def _job_name(self, orders: Sequence[PilotOrder]) -> str:
        first, more = orders[0].name, len(orders) - 1
        return self._profile.name(f"{first}+{more}" if more else first)

    def _there_already(self, places: Mapping[str, str]) -> dict[str, Submitted]:
        """The answers for pilots that were ordered before, as far as the batch system has them."""
        answers: dict[str, Submitted] = {}
        numbers = self._system().numbers()
        for pilot, place in places.items():
            name, index, count = place.split()
            if name in numbers:
                job = self._profile.elements(numbers[name], int(count))[int(index) - 1]
                answers[pilot] = Submitted(reference=str(Reference(job, name, pilot)))
        return answers

    def _submit(self, orders: Sequence[PilotOrder], host: Host, paths: SpoolPaths) -> dict[str, Submitted]:
        """Submit pilots that are ordered alike, as one job or one array."""
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
            url = host.server_url(first.server_url, paths)
            stem = name if count > 1 else ""
            script = pilot_script(orders, stem, paths, self._options, self._profile.index, url)
            jobs = self._system().submit(request, script)
        except (OSError, CommandFault) as fault:
            return _refused(orders, str(fault))
        return {
            order.name: Submitted(reference=str(Reference(job, name, order.name)))
            for job, order in zip(jobs, orders, strict=True)
        }

    def _status(self, reference: Reference, job: BatchJob | None) -> PilotStatus:
        if job is not None and _is(job, reference):
            return PilotStatus(state=job.state, reason=job.reason, exit_code=job.exit_code)
        with self._lock:
            if reference in self._cancelled:
                return PilotStatus(state="ended", reason="cancelled from here")
        return PilotStatus(
            state="unknown", reason=f"{self._profile.kind} does not list it, and remembers no end"
        )

    def _with_last_words(
        self, statuses: dict[str, PilotStatus], known: Mapping[str, Reference]
    ) -> Mapping[str, PilotStatus]:
        """Add what the logs of ended pilots end with, or what the script's exit code means."""
        ended = {text: found.pilot for text, found in known.items() if statuses[text].state == "ended"}
        if not ended:
            return statuses
        last: Mapping[str, str] = {}
        with suppress(OSError):
            last = Spool(self._host(), self._options.spool).tails(ended.values())
        for text, pilot in ended.items():
            status = statuses[text]
            # The log is the better witness; a pilot that never started has none.
            words = last.get(pilot) or EXITS.get(status.exit_code or 0, "")
            reason = "; its log ends: ".join(part for part in (status.reason, words) if part)
            statuses[text] = replace(status, reason=reason)
        return statuses


def _is(job: BatchJob | None, reference: Reference) -> bool:
    return job is not None and job.name == reference.name


def _refused(orders: Sequence[PilotOrder], error: str) -> dict[str, Submitted]:
    return {order.name: Submitted(error=error) for order in orders}


def _alike(orders: Sequence[PilotOrder], most: int) -> Iterator[Sequence[PilotOrder]]:
    """Orders that differ in nothing but the pilot, up to ``most`` at a time."""
    groups: dict[tuple[object, ...], list[PilotOrder]] = defaultdict(list)
    for order in orders:
        groups[order.server_url, order.cores, order.memory, order.walltime, order.slots].append(order)
    for group in groups.values():
        for at in range(0, len(group), most):
            yield group[at : at + most]
