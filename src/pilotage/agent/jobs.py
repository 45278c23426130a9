"""The attempts that a pilot holds: it prepares and runs each one, stores its outputs, removes its files."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from .client import PilotClient, UnreachableError
from .failure_kind import with_kind
from .files import leaving, outputs, transfer
from .files.file_access import StorageRoutes
from .logs import STREAMS, add_note, read_streams, stderr_tail, storable
from .node import Resources
from .patient_calls import PatientCalls
from .payload import disk_rate, payload_secrets, workdir
from .payload.attempt import Attempt, AttemptFailedError, InputLostError, StorageFailedError
from .payload.containers import choose, write_variables
from .payload.payload import OVERDUE, Ended, Order, Payload, sweep
from .payload.view import NO_MOUNTS, UNCONTAINED, SitePaths, View, check_mounts, view
from .pilot_job import PilotHost, PilotJob, lease_of
from .wire import AttemptLogs, Log, MatchAnswer, Output, Pair, Report

log = logging.getLogger(__name__)
T = TypeVar("T")
CLEANING = 20.0
"""Seconds that an ending pilot spends on removing files."""


class JobRunner:
    """All attempts of a pilot: ``attempts`` by pair, and ``working`` until their end is reported."""

    def __init__(self, pilot: PilotHost, resources: Resources, client: PilotClient) -> None:
        self.attempts: dict[Pair, PilotJob] = {}
        self.working: set[PilotJob] = set()
        self._pilot, self._resources = pilot, resources
        self._client = client
        self._routes = StorageRoutes(client)
        self._tasks: set[asyncio.Task[None]] = set()
        self._cleaning: set[asyncio.Future[None]] = set()
        self._calls = PatientCalls(pilot, client, self.lease_end)
        threads = max(2, min(8, resources.slots))
        # Use two pools: transfers may wait for minutes while a server or storage hangs.
        self._pool, self._movers = ThreadPoolExecutor(threads), ThreadPoolExecutor(threads)

    def accept(self, attempt: Attempt, matched_at: float, answer: MatchAnswer) -> None:
        """Take on an attempt from an answer. An empty payload has already succeeded."""
        if attempt.pair in self.attempts:
            return
        gpus = self.free_gpus()[: attempt.work.gpus]
        job = PilotJob(attempt, matched_at, lease_of(attempt.work, answer), gpus)
        self.attempts[attempt.pair] = job
        if not attempt.work.command:
            self._pilot.say(Report(*attempt.pair, "done"))
            return
        self.working.add(job)
        task = asyncio.create_task(self._work_on(job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def free_gpus(self) -> tuple[str, ...]:
        """Return the GPUs that no attempt uses."""
        gpus = {gpu for job in self.working for gpu in job.gpus}
        return tuple(gpu for gpu in self._resources.gpus if gpu not in gpus)

    def renew(self) -> None:
        """Let every payload live until its own lease ends."""
        for job in self.working:
            if job.payload:
                job.payload.renew(self.lease_end(job))

    def lease_end(self, job: PilotJob) -> float:
        """Return the time until which an attempt may run without an answer from the server."""
        return max(self._pilot.contact, job.matched_at) + job.lease_now

    @property
    def has_results(self) -> bool:
        """Return whether the server still lacks results of payloads that ended well."""
        storing = any(job.stored and not job.stopping for job in self.working)
        return storing or any(job.done for job in self.attempts.values())

    def leases(self) -> list[float]:
        """Return the leases of all attempts, in s."""
        return [job.lease_now for job in self.attempts.values()]

    def confirm(self, pairs: Iterable[Pair]) -> None:
        """Note that the server has answered reports of these attempts."""
        for pair in pairs:
            if pair in self.attempts:
                self.attempts[pair].is_confirmed = True

    async def logs(self, pairs: Iterable[Pair]) -> list[AttemptLogs]:
        """Return the output so far of the running attempts, and their time lines as of the previous call."""
        running = [(job, job.payload) for pair in pairs if (job := self.attempts.get(pair)) and job.payload]
        attempt_logs = []
        for job, payload in running:
            streams = await self._streams(job)
            attempt_logs.append(AttemptLogs(*job.attempt.pair, streams, payload.points_so_far()))
        return attempt_logs

    def stop(self, pair: Pair) -> None:
        """Kill an attempt that this pilot has lost, and stop reporting about it."""
        job = self.attempts.pop(pair, None)
        if job is None:
            return
        log.info("job %s has left this pilot: stopped", job.attempt.name)
        job.dropped = True
        self._kill(job, "stopped by the server")
        if job not in self.working:
            self._forget(job, keep_outputs=job.end_heard)

    def kill_all(self, reason: str) -> None:
        """Kill every payload, and report the reason as their end.

        Results of payloads that already ended may still be delivered.
        """
        for job in self.working:
            if not job.stored:
                self._kill(job, reason)

    def acknowledged(self, pair: Pair) -> None:
        """Forget an attempt after the server has acknowledged its end."""
        if pair in self.attempts:
            self._forget(self.attempts.pop(pair), keep_outputs=True)

    async def leave_results(self) -> bool:
        """Leave results that the server does not have in the spool. Return whether there are any."""
        spool = self._resources.spool
        waiting = [job for job in self.attempts.values() if job.done or (job.stored and not job.stopping)]
        if spool is None or not waiting:
            return False
        for job in waiting:
            job.leaving = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=OVERDUE)
        return any([await self._leave(job, spool) for job in waiting])

    async def _leave(self, job: PilotJob, spool: Path) -> bool:
        if not (job.done and job.report):
            return False
        place, resources = self._place(job), self._resources
        arguments = resources.spool_room, self._client.token_hash, job.report, job.logs, place, job.unsent
        try:
            await self._in_thread(leaving.leave, spool, *arguments)
        except (OSError, AttemptFailedError) as error:
            log.error("job %s: its results are lost: %s", job.attempt.name, error)
            return False
        log.info("job %s: its results are left in %s", job.attempt.name, spool)
        job.unsent = ()
        job.end_heard = True
        return True

    async def drop_all(self, reason: str) -> None:
        """Kill all payloads and delete all files.

        Returns when no payload runs, or when the rest cannot be killed.
        """
        for job in [*self.working]:
            job.dropped = True
            self._kill(job, reason)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=2 * OVERDUE)
        for job in self.attempts.values():
            if not job.dropped:
                self._forget(job, keep_outputs=job.end_heard)
        self.attempts.clear()
        if self._cleaning:
            await asyncio.wait(self._cleaning, timeout=CLEANING)

    # One attempt

    async def _work_on(self, job: PilotJob) -> None:
        """Work on one attempt, from preparing its directory to its last report."""
        ended, kind = Ended(), Ended.kind
        stored: list[Output] = []
        failed: AttemptFailedError | None = None
        try:
            await self._prepare(job)
            ended = await self._run_payload(job)
            error = ended.error
            if not error:
                stored = await self._store(job)
        except AttemptFailedError as failure:
            failed, error = failure, job.stopping or str(failure)
            ended = replace(ended, exit_code=failure.exit_code or ended.exit_code)
        except Exception as failure:
            log.exception("job %s", job.attempt.name)
            error = f"pilot agent: {failure!r}"
        if error:
            place = self._resources.directory, self._resources.least_disk
            error, kind = await self._in_thread(with_kind, error, job.stopping, failed, ended, *place)
        log.info("job %s: %s", job.attempt.name, error.partition("\n")[0] or "done")
        self.working.discard(job)
        if job.dropped:
            self._forget(job, keep_outputs=False)
        else:
            job.done = not error
            fields = asdict(replace(ended, points=())) | {"error": storable(error), "kind": kind}
            del fields["points"], fields["note"], fields["disk_room"]
            fields["outputs"] = tuple(stored) if job.done else ()
            fields["lost_inputs"] = (failed.name,) if isinstance(failed, InputLostError) else ()
            if isinstance(failed, StorageFailedError) and not job.stopping:
                fields["storage_fault"] = failed.fault
            if ended.disk_io is not None:
                fields["disk_io"] = round(ended.disk_io / job.attempt.cores, 3)
            logs = AttemptLogs(*job.attempt.pair, await self._streams(job), ended.points)
            job.report = Report(*job.attempt.pair, "done" if job.done else "failed", **fields)
            job.logs = logs
            if not job.unsent:
                self._pilot.say(job.report, logs)
        self._pilot.wake()

    async def _prepare(self, job: PilotJob) -> None:
        attempt, place = job.attempt, self._place(job)
        if len(job.gpus) < attempt.work.gpus:
            free = f"{len(job.gpus)} are free here"
            raise AttemptFailedError(f"{attempt.work.gpus} GPUs are asked for, {free}")
        self._pilot.say(Report(*attempt.pair, "starting"))
        payload_files = await self._files_of(job) if attempt.work.payload_files else {}
        await self._in_thread(workdir.prepare, attempt, place, payload_files)
        for file in attempt.order.inputs:
            path = place / workdir.input_path(file)
            arguments = self._routes, attempt, file, path, lambda: bool(job.stopping)
            fetch = partial(self._moved, transfer.fetch, *arguments)
            await self._calls.answered(f"input {file.name}", job, fetch)
        if job.stopping:
            raise AttemptFailedError(job.stopping)

    async def _run_payload(self, job: PilotJob) -> Ended:
        place = self._place(job)
        try:
            await self._in_thread(payload_secrets.write, job.attempt.work.secrets, place)
            return await self._ended_payload(job)
        finally:
            await self._in_thread(payload_secrets.remove, place)

    async def _ended_payload(self, job: PilotJob) -> Ended:
        place = self._place(job)
        order = await self._in_thread(self._order, job)
        job.payload = payload = Payload(order, self.lease_end(job))
        read_from = {file.source for file in job.attempt.order.inputs if file.source}
        self._pilot.say(Report(*job.attempt.pair, "running", read_from=tuple(sorted(read_from))))
        watch = asyncio.create_task(disk_rate.watch(job, self._pilot.say))
        try:
            ended = await payload.ended()
        finally:
            watch.cancel()
        job.payload = None
        if payload.lost:
            await sweep(self._supervisors)
            await self._in_thread(self._resources.delegation.remove, job.attempt.name)
        if job.runtime:
            await self._in_thread(job.runtime.clear, place)
        if ended.note:
            log.info("job %s: %s", job.attempt.name, ended.note)
        if not ended.error:
            if ended.note and not {*STREAMS} & {*job.attempt.work.outputs}:
                await self._in_thread(add_note, place, ended.note)
            return ended
        return replace(ended, error=f"{ended.error}\n{stderr_tail(place, job.hidden)}".strip())

    async def _streams(self, job: PilotJob) -> tuple[Log, ...]:
        return await self._in_thread(read_streams, self._place(job), job.hidden)

    def _supervisors(self) -> set[int]:
        payloads = [job.payload for job in self.working]
        return {payload.pid for payload in payloads if isinstance(payload, Payload)}

    def _order(self, job: PilotJob) -> Order:
        """Return the order for the payload, in its container if it asks for one.

        Raises AttemptFailedError.
        """
        attempt, work, place = job.attempt, job.attempt.work, self._place(job)
        order = Order(
            command=work.command,
            environment=workdir.environment(attempt, place, job.gpus),
            directory=place,
            stdin=workdir.stdin(attempt),
            walltime=work.walltime,
            memory=work.memory_limit,
            workdir=work.workdir,
            keep=self._resources.keep,
            cut=not {*STREAMS} & {*work.outputs},
            strict_processes=work.strict_processes,
            cores=attempt.cores,
            alone=self._resources.slots == 1,
            group=self._resources.delegation.group(attempt.name),
        )
        hidden = (*self._resources.hidden, str(self._resources.directory))
        site = SitePaths(work.readable, work.writable, hidden)
        contained = self._pilot.containment.mechanism if work.contained else UNCONTAINED.mechanism
        check_mounts(work.mounts, "" if work.images else contained, site)
        if not work.images:
            return replace(order, view=self._view(job, site, work.mounts))
        job.runtime, image = choose(work.images, self._pilot.runtimes, site)
        write_variables(place, order.environment)
        binds = [(path, "ro") for path in work.readable] + [(path, "rw") for path in work.writable]
        within = replace(
            order,
            command=job.runtime.command(image, place, work.command, binds, bool(job.gpus), work.mounts),
            environment=job.runtime.environment(order.environment),
        )
        if job.runtime.regrouped:
            # Such a container leaves the payload's group, so only watching can limit it.
            within = replace(within, group={})
        inner_view = self._view(job, site, NO_MOUNTS) if job.runtime.is_contained else UNCONTAINED
        return replace(within, view=inner_view)

    def _view(self, job: PilotJob, site: SitePaths, mounts: Mapping[str, str]) -> View:
        containment = self._pilot.containment
        if not job.attempt.work.contained:
            return UNCONTAINED
        name, bubblewrap = containment.mechanism, containment.bubblewrap
        return view(name, bubblewrap, self._place(job), site, bool(job.gpus), mounts)

    async def _store(self, job: PilotJob) -> list[Output]:
        attempt, place = job.attempt, self._place(job)
        skipped: list[str] = []
        names = await self._in_thread(
            outputs.find, attempt.work.outputs, place, attempt.work.optional_outputs, skipped
        )
        if skipped and not {*STREAMS} & {*attempt.work.outputs}:
            await self._in_thread(add_note, place, f"outputs{outputs.skipped_note(skipped)}")
        job.stored = bool(names)
        stored: list[Output] = []
        for number, name in enumerate(names):
            # Count the bytes sent, not those on disk: a sparse file is sent in full.
            room = outputs.most_bytes(attempt) - sum(output.size for output in stored)
            arguments = self._routes, attempt, name, place, lambda: bool(job.stopping), room
            store = partial(self._moved, transfer.store, *arguments)
            try:
                stored.append(await self._calls.answered(f"output {name}", job, store))
            except UnreachableError:
                job.unsent = tuple(names[number:])
                break
        return stored

    async def _files_of(self, job: PilotJob) -> dict[str, str]:
        """Return the payload files of the attempt's task."""
        return await self._calls.files_of(job)

    # Its end

    def _kill(self, job: PilotJob, reason: str) -> None:
        job.stopping = job.stopping or reason
        if job.payload:
            job.payload.stop(reason)

    def _forget(self, job: PilotJob, *, keep_outputs: bool) -> None:
        """Delete the attempt's files, but with ``keep_outputs`` not the outputs of one that is done."""
        if not job.attempt.work.command:
            return
        if job.stored and not (job.done and keep_outputs):
            self._clean(partial(transfer.discard, self._routes), job.attempt)
        if not self._resources.keep:
            self._clean(workdir.remove, self._place(job))

    def _clean(self, function: Callable[[T], None], argument: T) -> None:
        """Remove files in the background. Only log a failure, because nothing waits for the result."""
        cleaning = asyncio.ensure_future(self._in_thread(function, argument))
        self._cleaning.add(cleaning)
        cleaning.add_done_callback(self._cleaned)

    def _cleaned(self, cleaning: asyncio.Future[None]) -> None:
        self._cleaning.discard(cleaning)
        with suppress(asyncio.CancelledError):
            if error := cleaning.exception():
                log.warning("cleaning up: %s", error)

    def _place(self, job: PilotJob) -> Path:
        return self._resources.directory / job.attempt.name

    async def _moved(self, function: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._movers, function, *arguments)

    async def _in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)
