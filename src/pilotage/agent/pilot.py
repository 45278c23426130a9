"""The life of a pilot: ask for jobs, report on them, and end when there is nothing to do."""

from __future__ import annotations

import asyncio
import logging
import platform
import re
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from math import inf
from time import time

from .client import GivenUpError, Pause, PilotClient, RefusedError, UnreachableError
from .failure_kind import OUT_OF_TIME
from .files.courier import Courier
from .jobs import JobRunner
from .logs import OwnLog, weight
from .machine import now
from .node import Resources
from .payload.attempt import Attempt
from .payload.containers import ContainerRuntime, find_runtimes
from .payload.node_disk import free_disk
from .pilot_job import PilotHost
from .proof import Containment, prove
from .wire import AttemptLogs, Node, Offer, Pair, Reason, Report, Reports

log = logging.getLogger(__name__)
ENDS = ("done", "failed")
NODE = re.sub("[^A-Za-z0-9._-]", "-", platform.node())[:100]
"""The machine's name, in characters that servers accept."""

FIRST_IDLE, FIRST_HEARTBEAT = 300.0, 60.0
"""Default times in s, until the server sends its own."""
ASK_EVERY, ASK_SELDOM = 4.0, 60.0
"""Shortest time in s between two requests for work: for a pilot that stays briefly, and for one that stays an
hour."""
REPORT_DELAY = 0.5
"""Seconds that reports may wait to be sent together. The end of an attempt does not wait."""
LONGEST_PAUSE, PAUSE_WITH_NEWS = 60.0, 15.0
"""Longest pauses in s between two calls while the server is unreachable: of a pilot without news, and of one
that has something to report."""
LOOK_AT_END = 0.5
"""Seconds between two looks at the time during a call."""
END_GRACE, AWAY_GRACE = 20.0, 1.0
"""Seconds for delivering the last reports; the second if the server is away and the site has a spool, which
may need the rest of the time."""
MOST_AT_ONCE = 10_000
"""Most jobs that the server gives in one match."""
LOGS_AT_ONCE = 4_000_000
"""Bytes of logs after which the next ended attempt goes into another report: servers limit a request's size.
"""
READ_EVERY = 3.0
"""Seconds between two reports while a person reads a log."""


class PilotAgent:
    """One pilot. ``run`` is its whole life.

    It makes one call to the server at a time, so the attempts listed in a report are never older than the
    last match. Leases belong to jobs. The supervisors enforce them; here they are only renewed.
    """

    def __init__(
        self,
        resources: Resources,
        client: PilotClient,
        own_log: OwnLog,
        runner: Callable[[PilotHost, Resources, PilotClient], JobRunner] = JobRunner,
    ) -> None:
        self.ending = self._draining = ""
        self._had_jobs = self._unfit = False
        self.containment = Containment()
        self.runtimes: tuple[ContainerRuntime, ...] = ()
        self._resources, self._client, self._own_log = resources, client, own_log
        self._born = self.contact = self._report_at = self._busy_at = now()
        self._jobs = runner(self, resources, client)
        self._courier = Courier(resources, client, lambda: not self.ending)
        self._reports: list[Report] = []
        self._logs: dict[Pair, AttemptLogs] = {}
        self._read: tuple[Pair, ...] = ()
        self._read_own = False
        self._end_by = inf
        self._lease, self._heartbeat, self._idle = 0.0, FIRST_HEARTBEAT, FIRST_IDLE
        self._talk, self._ask = Pause(longest=LONGEST_PAUSE), Pause(longest=ASK_EVERY)
        self._node: Node | None = None
        self._told = False
        self._woken = asyncio.Event()

    async def run(self) -> bool:
        """Live until idle, out of time, stopped, or given up.

        Return False if the server gave up the pilot.
        """
        for number in (signal.SIGTERM, signal.SIGINT):
            reason = f"pilot stopped by signal {number} ({signal.Signals(number).name})"
            asyncio.get_running_loop().add_signal_handler(number, self._end, reason)
        # We ask batch systems to send one of these some time before they end a slot.
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            reason = f"warned by signal {number} ({signal.Signals(number).name}) that its slot ends"
            asyncio.get_running_loop().add_signal_handler(number, self._drain, reason)
        # Both run beside the first calls, so that the slot loses no time.
        proof = asyncio.create_task(self._prove())
        trial = asyncio.create_task(self._try_containers())
        try:
            while not self._is_over():
                self._woken.clear()
                await self._converse_in_time(proof)
                self._look_at_the_time()
                await self._rest()
            await self._courier.stop()
            has_left = await self._jobs.leave_results()
            await self._jobs.drop_all(self.ending)
            # After a goodbye, the server counts unreported results as lost.
            if not has_left:
                await self._say_goodbye()
            await trial
        except (GivenUpError, RefusedError) as error:
            log.error("given up: %s", error)
            self.ending = self.ending or f"given up: {error}"
            await self._jobs.drop_all(self.ending)
            return False
        return True

    async def _prove(self) -> Containment:
        """Find out how payloads can be contained here."""
        return await prove(self._resources.directory, self._resources.hidden)

    async def _try_containers(self) -> None:
        """Find out which programs run containers here.

        Until then the pilot takes jobs that need none.
        """
        loop, directory = asyncio.get_running_loop(), self._resources.directory
        self.runtimes = await loop.run_in_executor(None, find_runtimes, directory)
        self._node = replace(
            self._resources.node, containers=tuple(runtime.kind for runtime in self.runtimes)
        )
        # Jobs in containers may have waited for this: ask again now.
        self._ask.succeeded()
        self.wake()

    # For its jobs

    def say(self, report: Report, logs: AttemptLogs | None = None) -> None:
        """Queue a report. An end is sent immediately; other news may wait for more."""
        self._reports.append(report)
        if logs and (logs.logs or logs.points):
            self._logs[report.job, report.attempt] = logs
        self._report_at = min(self._report_at, now() + (0 if report.state in ENDS else REPORT_DELAY))
        self.wake()

    def wake(self) -> None:
        """Let the pilot check its jobs again."""
        self._woken.set()

    # The course of time

    def _is_busy(self) -> bool:
        return bool(self._jobs.attempts or self._jobs.working) or self._courier.is_busy

    def _time_left(self) -> float:
        """Return the seconds left of the pilot's walltime, minus the time of a regular end."""
        walltime = self._resources.walltime
        return self._born + walltime - min(60, walltime / 20) - now()

    def _look_at_the_time(self) -> None:
        if self._is_busy():
            self._busy_at = now()
        if self._time_left() <= 0:
            self._end(OUT_OF_TIME)
        elif self._draining and not self._is_busy():
            self._end(self._draining)
        elif now() >= self._busy_at + self._idle:
            self._end("idle")
        elif self._is_forgotten():
            self._end("no contact with the server for twice the lease", grace=0)

    def _is_forgotten(self) -> bool:
        """Return whether a server that was there has given its jobs to others by now.

        The server may have been away itself: so results stay for as long as the pilot may live.
        """
        lease = max([self._lease, *self._jobs.leases()])
        return bool(lease) and now() >= self.contact + 2 * lease and not self._jobs.has_results

    def _drain(self, reason: str) -> None:
        """Stop taking jobs. End once all running attempts have ended and are delivered."""
        if not self._draining:
            log.info("takes no more jobs: %s", reason)
            self._draining = reason
            self.wake()

    def _end(self, reason: str, grace: float = END_GRACE) -> None:
        """Kill every payload. Live only as long as it takes to report that."""
        if self.ending:
            return
        log.info("ends: %s", reason)
        if self._resources.spool and self._talk.until:
            grace = min(grace, AWAY_GRACE)
        self.ending, self._end_by = reason, now() + grace
        self._jobs.kill_all(reason)
        self.wake()

    def _is_over(self) -> bool:
        return bool(self.ending) and (not self._is_busy() or now() >= self._end_by)

    async def _rest(self) -> None:
        """Wait until something happens or becomes due."""
        if self._is_over():
            return
        moments = [self._report_at]
        if self._has_room():
            moments.append(self._ask.until)
        moment = max(self._talk.until, min(moments))
        idle_end = inf if self._is_busy() else self._busy_at + self._idle
        moment = min(moment, self._end_by, inf if self.ending else idle_end)
        if not self.ending:
            moment = min(moment, now() + self._time_left())
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._woken.wait(), max(0.0, moment - now()))

    # The conversation with the server

    async def _converse_in_time(self, proof: asyncio.Task[Containment]) -> None:
        """Make the calls that are due, but do not wait for an answer beyond the pilot's own end."""
        conversation = asyncio.create_task(self._converse(proof))
        while not (await asyncio.wait({conversation}, timeout=LOOK_AT_END))[0]:
            self._look_at_the_time()
            if self._is_over():
                conversation.cancel()
                return
        await conversation

    async def _converse(self, proof: asyncio.Task[Containment]) -> None:
        if now() < self._talk.until:
            return
        try:
            await self._client.enrol()
            self._courier.look()
            if self._report_at <= now():
                await self._report()
            if self._has_room() and self._ask.until <= now():
                self.containment = await proof
                await self._match_if_there_is_disk()
        except UnreachableError as error:
            self._talk.longest = self._longest_pause()
            log.warning("%s; trying again in %.1f s", error, self._talk.failed(error.pause))
        else:
            self._talk.succeeded()

    async def _report(self) -> None:
        reports, begun = self._next_reports(), now()
        ends = [(report.job, report.attempt) for report in reports if report.state in ENDS]
        logs = [self._logs[pair] for pair in ends if pair in self._logs]
        logs += await self._jobs.logs(self._read)
        own_log = self._own_log.log() if self._read_own else None
        self._report_at = inf
        try:
            answer = await self._client.report(
                Reports(tuple(self._jobs.attempts), tuple(reports), tuple(logs), own_log)
            )
        except UnreachableError as error:
            # The next report is due now; ``_talk`` spaces the calls.
            self._report_at = begun
            for pair in ends:
                self._jobs.attempts[pair].end_heard |= error.may_have_acted
            raise
        # Use the time when the call began: the server may have heard it right then.
        self.contact = begun
        del self._reports[: len(reports)]
        self._jobs.confirm((report.job, report.attempt) for report in reports)
        self._read, self._read_own = answer.read, answer.read_own
        self._heartbeat = answer.heartbeat or self._heartbeat
        if self._reports:
            self._report_at = now()
        self._jobs.renew()
        for pair in answer.stop:
            self._logs.pop(pair, None)
            self._reports = [report for report in self._reports if (report.job, report.attempt) != pair]
            self._jobs.stop(pair)
        for pair in ends:
            self._logs.pop(pair, None)
            self._jobs.acknowledged(pair)
        self._keep_pace()

    def _keep_pace(self) -> None:
        """Report three times within the shortest lease, so that two reports may be lost without harm."""
        period = max(0.1, min(self._heartbeat, self._shortest_lease() / 3))
        if self._read or self._read_own:
            period = min(READ_EVERY, period)
        self._report_at = min(self._report_at, now() + period)

    def _shortest_lease(self) -> float:
        return min([self._lease or inf, *self._jobs.leases()])

    def _longest_pause(self) -> float:
        """Return the longest pause in s between calls to a server that is away."""
        has_news = self._reports or self._jobs.has_results
        return min(PAUSE_WITH_NEWS if has_news else LONGEST_PAUSE, self._shortest_lease() / 3)

    def _next_reports(self) -> list[Report]:
        """Return the queued reports that go together, limited by the size of their logs."""
        batch: list[Report] = []
        size = 0
        for report in self._reports:
            if size > LOGS_AT_ONCE:
                break
            batch.append(report)
            logs = self._logs.get((report.job, report.attempt)) if report.state in ENDS else None
            size += weight(logs.logs) if logs else 0
        return batch

    async def _match_if_there_is_disk(self) -> None:
        directory, least = self._resources.directory, self._resources.least_disk
        if (free := free_disk(directory)) < least:
            # Jobs that ran here may have filled the disk; otherwise the next pilot would fare no better.
            self._unfit = not self._had_jobs
            self._drain(f"only {free:.0f} MB are free in {directory}, less than the {least:.0f} needed")
        else:
            await self._match()

    async def _match(self) -> None:
        begun = now()
        offer = self._offer()
        answer = await self._client.match(offer)
        self._told = self._told or offer.found is not None
        # Before the first match there is no lease. It counts from this call on.
        if not self._lease:
            self.contact = begun
        self._lease, self._heartbeat = answer.pilot_lease or answer.lease, answer.heartbeat
        self._idle = answer.idle
        # Thousands of pilots may stay for an hour: together they must not ask their server too often.
        # The heartbeat is shorter where few live.
        self._ask.longest = max(ASK_EVERY, min(ASK_SELDOM, self._idle / 60, self._heartbeat))
        attempts = [Attempt(work, order) for work in answer.works for order in work.jobs]
        self._had_jobs = self._had_jobs or bool(attempts)
        for attempt in attempts:
            self._jobs.accept(attempt, begun, answer)
        self._keep_pace()
        if attempts:
            self._ask.succeeded()
        else:
            self._ask.failed()

    def _offer(self) -> Offer:
        """Return the free cores, memory (0: no limit), time and slots."""
        cores, memory, slots = self._free()
        walltime, gpus = round(self._time_left(), 1), len(self._jobs.free_gpus())
        node = replace(self._node, clock=round(time(), 1)) if self._node and not self._told else None
        return Offer(
            *(cores, memory, walltime, slots, self.containment.name, NODE),
            *(gpus, bool(self.runtimes), node),
        )

    def _free(self) -> tuple[int, float, int]:
        attempts = [job.attempt for job in self._jobs.working]
        offered = self._resources
        cores = offered.cores - sum(attempt.cores for attempt in attempts)
        memory = offered.memory and max(
            0.0, offered.memory - sum(attempt.work.memory for attempt in attempts)
        )
        return cores, memory, min(offered.slots - len(attempts), MOST_AT_ONCE)

    def _has_room(self) -> bool:
        if self.ending or self._draining or self._time_left() <= 0:
            return False
        cores, memory, slots = self._free()
        return cores > 0 and slots > 0 and (memory > 0 or not self._resources.memory)

    async def _say_goodbye(self) -> None:
        try:
            await self._client.end(Reason(self.ending, self._own_log.log(), self._unfit))
        except UnreachableError as error:
            log.warning("could not report its end to the server: %s", error)
