"""The attempts that a pilot holds: it prepares and runs each one, stores its outputs, removes its files."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from .assignments import Held, PilotHost, lease_of
from .client import PilotClient, UnreachableError
from .failure_kind import with_kind
from .files import leaving, outputs, transfer
from .files.file_access import Ways
from .logs import STREAMS, add_note, read_streams, stderr_tail, storable
from .node import Resources
from .patient_calls import PatientCalls
from .payload import disk_rate, payload_secrets, workdir
from .payload.attempt import Attempt, AttemptFailedError, InputLostError, StorageFailedError
from .payload.containers import choose, write_variables
from .payload.payload import OVERDUE, Ended, Order, Payload, sweep
from .payload.view import UNCONTAINED, SitePaths, View, view
from .wire import AttemptLogs, Log, MatchAnswer, Output, Pair, Report

log = logging.getLogger(__name__)
T = TypeVar("T")
CLEANING = 20.0
"""Seconds that an ending pilot spends on removing files."""


class JobRunner:
    """All attempts of a pilot: ``held`` by pair, and ``working`` until their end is reported."""

    def __init__(self, pilot: PilotHost, resources: Resources, client: PilotClient) -> None:
        self.held: dict[Pair, Held] = {}
        self.working: set[Held] = set()
        self._pilot, self._resources = pilot, resources
        self._client = client
        self._ways = Ways(client)
        self._tasks: set[asyncio.Task[None]] = set()
        self._cleaning: set[asyncio.Future[None]] = set()
        self._calls = PatientCalls(pilot, client, self.lease_end)
        threads = max(2, min(8, resources.slots))
        # Apart: transfers may stand for minutes while a server or storage hangs.
        self._pool, self._movers = ThreadPoolExecutor(threads), ThreadPoolExecutor(threads)

    def accept(self, attempt: Attempt, given: float, answer: MatchAnswer) -> None:
        """Take on an attempt from an answer. An empty payload has succeeded at once."""
        if attempt.pair in self.held:
            return
        held = Held(attempt, given, lease_of(attempt.work, answer), self.free_gpus()[: attempt.work.gpus])
        self.held[attempt.pair] = held
        if not attempt.work.command:
            self._pilot.say(Report(*attempt.pair, "done"))
            return
        self.working.add(held)
        task = asyncio.create_task(self._work_on(held))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def free_gpus(self) -> tuple[str, ...]:
        """Return the GPUs that no attempt uses."""
        taken = {gpu for held in self.working for gpu in held.gpus}
        return tuple(gpu for gpu in self._resources.gpus if gpu not in taken)

    def renew(self) -> None:
        """Let every payload live until its own lease ends."""
        for held in self.working:
            if held.payload:
                held.payload.renew(self.lease_end(held))

    def lease_end(self, held: Held) -> float:
        """Return the time until which an attempt may run without an answer from the server."""
        return max(self._pilot.contact, held.given) + held.lease_now

    @property
    def has_results(self) -> bool:
        """Return whether payloads ended well whose results the server does not have yet."""
        storing = any(held.stored and not held.stopping for held in self.working)
        return storing or any(held.done for held in self.held.values())

    def leases(self) -> list[float]:
        """Return the leases of all held attempts, in s."""
        return [held.lease_now for held in self.held.values()]

    def heard(self, pairs: Iterable[Pair]) -> None:
        """Note that the server has answered reports of these attempts."""
        for pair in pairs:
            if pair in self.held:
                self.held[pair].heard = True

    async def logs(self, pairs: Iterable[Pair]) -> list[AttemptLogs]:
        """Return the output so far of the running attempts, and their time lines as of the previous call."""
        running = [(held, held.payload) for pair in pairs if (held := self.held.get(pair)) and held.payload]
        found = []
        for held, payload in running:
            streams = await self._streams(held)
            found.append(AttemptLogs(*held.attempt.pair, streams, payload.points_so_far()))
        return found

    def stop(self, pair: Pair) -> None:
        """Kill an attempt that no longer belongs to this pilot, and report nothing more about it."""
        held = self.held.pop(pair, None)
        if held is None:
            return
        log.info("job %s is not this pilot's any more: stopped", held.attempt.name)
        held.dropped = True
        self._kill(held, "stopped by the server")
        if held not in self.working:
            self._forget(held, wanted=held.end_heard)

    def kill_all(self, reason: str) -> None:
        """Kill every payload, and report the reason as their end.

        Results of payloads that already ended may still be delivered.
        """
        for held in self.working:
            if not held.stored:
                self._kill(held, reason)

    def acknowledged(self, pair: Pair) -> None:
        """Forget an attempt after the server has acknowledged its end."""
        if pair in self.held:
            self._forget(self.held.pop(pair), wanted=True)

    async def leave_results(self) -> bool:
        """Leave results that the server does not have in the spool. Return whether there are any."""
        spool = self._resources.spool
        waiting = [held for held in self.held.values() if held.done or (held.stored and not held.stopping)]
        if spool is None or not waiting:
            return False
        for held in waiting:
            held.leaving = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=OVERDUE)
        return any([await self._left(held, spool) for held in waiting])

    async def _left(self, held: Held, spool: Path) -> bool:
        if not (held.done and held.report):
            return False
        place, resources = self._place(held), self._resources
        arguments = resources.spool_room, self._client.token_hash, held.report, held.logs, place, held.unsent
        try:
            await self._in_thread(leaving.leave, spool, *arguments)
        except (OSError, AttemptFailedError) as error:
            log.error("job %s: its results are lost: %s", held.attempt.name, error)
            return False
        log.info("job %s: its results are left in %s", held.attempt.name, spool)
        held.unsent = ()
        held.end_heard = True
        return True

    async def drop_all(self, reason: str) -> None:
        """Kill all payloads and delete all files.

        Returns when no payload runs, or when the rest cannot be killed.
        """
        for held in [*self.working]:
            held.dropped = True
            self._kill(held, reason)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=2 * OVERDUE)
        for held in self.held.values():
            if not held.dropped:
                self._forget(held, wanted=held.end_heard)
        self.held.clear()
        if self._cleaning:
            await asyncio.wait(self._cleaning, timeout=CLEANING)

    # One attempt

    async def _work_on(self, held: Held) -> None:
        """Work on one attempt, from preparing its directory to its last report."""
        ended, kind = Ended(), Ended.kind
        stored: list[Output] = []
        failed: AttemptFailedError | None = None
        try:
            await self._prepare(held)
            ended = await self._run_payload(held)
            error = ended.error
            if not error:
                stored = await self._store(held)
        except AttemptFailedError as failure:
            failed, error = failure, held.stopping or str(failure)
            ended = replace(ended, exit_code=failure.exit_code or ended.exit_code)
        except Exception as failure:
            log.exception("job %s", held.attempt.name)
            error = f"pilot agent: {failure!r}"
        if error:
            place = self._resources.directory, self._resources.least_disk
            error, kind = await self._in_thread(with_kind, error, held.stopping, failed, ended, *place)
        log.info("job %s: %s", held.attempt.name, error.partition("\n")[0] or "done")
        self.working.discard(held)
        if held.dropped:
            self._forget(held, wanted=False)
        else:
            held.done = not error
            told = asdict(replace(ended, points=())) | {"error": storable(error), "kind": kind}
            del told["points"], told["note"], told["disk_room"]
            told["outputs"] = tuple(stored) if held.done else ()
            told["lost_inputs"] = (failed.name,) if isinstance(failed, InputLostError) else ()
            if isinstance(failed, StorageFailedError) and not held.stopping:
                told["storage_fault"] = failed.fault
            if ended.disk_io is not None:
                told["disk_io"] = round(ended.disk_io / held.attempt.cores, 3)
            logs = AttemptLogs(*held.attempt.pair, await self._streams(held), ended.points)
            held.report = Report(*held.attempt.pair, "done" if held.done else "failed", **told)
            held.logs = logs
            if not held.unsent:
                self._pilot.say(held.report, logs)
        self._pilot.wake()

    async def _prepare(self, held: Held) -> None:
        attempt, place = held.attempt, self._place(held)
        if len(held.gpus) < attempt.work.gpus:
            free = f"{len(held.gpus)} are free here"
            raise AttemptFailedError(f"{attempt.work.gpus} GPUs are asked for, {free}")
        self._pilot.say(Report(*attempt.pair, "starting"))
        payload_files = await self._files_of(held) if attempt.work.payload_files else {}
        await self._in_thread(workdir.prepare, attempt, place, payload_files)
        for file in attempt.order.inputs:
            path = place / workdir.input_path(file)
            arguments = self._ways, attempt, file, path, lambda: bool(held.stopping)
            fetch = partial(self._moved, transfer.fetch, *arguments)
            await self._calls.answered(f"input {file.name}", held, fetch)
        if held.stopping:
            raise AttemptFailedError(held.stopping)

    async def _run_payload(self, held: Held) -> Ended:
        place = self._place(held)
        try:
            await self._in_thread(payload_secrets.write, held.attempt.work.secrets, place)
            return await self._ended_payload(held)
        finally:
            await self._in_thread(payload_secrets.remove, place)

    async def _ended_payload(self, held: Held) -> Ended:
        place = self._place(held)
        order = await self._in_thread(self._order, held)
        held.payload = payload = Payload(order, self.lease_end(held))
        read_from = {file.source for file in held.attempt.order.inputs if file.source}
        self._pilot.say(Report(*held.attempt.pair, "running", read_from=tuple(sorted(read_from))))
        watch = asyncio.create_task(disk_rate.watch(held, self._pilot.say))
        try:
            ended = await payload.ended()
        finally:
            watch.cancel()
        held.payload = None
        if payload.lost:
            await sweep(self._supervisors)
            await self._in_thread(self._resources.delegation.remove, held.attempt.name)
        if held.runtime:
            await self._in_thread(held.runtime.clear, place)
        if ended.note:
            log.info("job %s: %s", held.attempt.name, ended.note)
        if not ended.error:
            if ended.note and not {*STREAMS} & {*held.attempt.work.outputs}:
                await self._in_thread(add_note, place, ended.note)
            return ended
        return replace(ended, error=f"{ended.error}\n{stderr_tail(place, held.hidden)}".strip())

    async def _streams(self, held: Held) -> tuple[Log, ...]:
        return await self._in_thread(read_streams, self._place(held), held.hidden)

    def _supervisors(self) -> set[int]:
        payloads = [held.payload for held in self.working]
        return {payload.pid for payload in payloads if isinstance(payload, Payload)}

    def _order(self, held: Held) -> Order:
        """Return the order for the payload, in its container if it asks for one.

        Raises AttemptFailedError.
        """
        attempt, work, place = held.attempt, held.attempt.work, self._place(held)
        order = Order(
            command=work.command,
            environment=workdir.environment(attempt, place, held.gpus),
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
        if not work.images:
            return replace(order, view=self._view(held, site))
        held.runtime, image = choose(work.images, self._pilot.runtimes, site)
        write_variables(place, order.environment)
        binds = [(path, "ro") for path in work.readable] + [(path, "rw") for path in work.writable]
        within = replace(
            order,
            command=held.runtime.command(image, place, work.command, binds, bool(held.gpus)),
            environment=held.runtime.environment(order.environment),
        )
        if held.runtime.regrouped:
            # Such a container leaves the payload's group, so only watching can limit it.
            within = replace(within, group={})
        seen = self._view(held, site) if held.runtime.is_contained else UNCONTAINED
        return replace(within, view=seen)

    def _view(self, held: Held, site: SitePaths) -> View:
        found = self._pilot.containment
        if not held.attempt.work.contained:
            return UNCONTAINED
        return view(found.way, found.bubblewrap, self._place(held), site, bool(held.gpus))

    async def _store(self, held: Held) -> list[Output]:
        attempt, place = held.attempt, self._place(held)
        skipped: list[str] = []
        found = await self._in_thread(
            outputs.find, attempt.work.outputs, place, attempt.work.optional_outputs, skipped
        )
        if skipped and not {*STREAMS} & {*attempt.work.outputs}:
            await self._in_thread(add_note, place, f"outputs{outputs.told(skipped)}")
        held.stored = bool(found)
        stored: list[Output] = []
        for number, name in enumerate(found):
            # Count the bytes sent, not those on disk: a sparse file is sent in full.
            left = outputs.most_bytes(attempt) - sum(one.size for one in stored)
            arguments = self._ways, attempt, name, place, lambda: bool(held.stopping), left
            store = partial(self._moved, transfer.store, *arguments)
            try:
                stored.append(await self._calls.answered(f"output {name}", held, store))
            except UnreachableError:
                held.unsent = tuple(found[number:])
                break
        return stored

    async def _files_of(self, held: Held) -> dict[str, str]:
        """Return the payload files of the attempt's task."""
        return await self._calls.files_of(held)

    # Its end

    def _kill(self, held: Held, reason: str) -> None:
        held.stopping = held.stopping or reason
        if held.payload:
            held.payload.stop(reason)

    def _forget(self, held: Held, *, wanted: bool) -> None:
        """Delete the attempt's files. Keep the outputs if it is done and still ``wanted``."""
        if not held.attempt.work.command:
            return
        if held.stored and not (held.done and wanted):
            self._clean(partial(transfer.discard, self._ways), held.attempt)
        if not self._resources.keep:
            self._clean(workdir.remove, self._place(held))

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

    def _place(self, held: Held) -> Path:
        return self._resources.directory / held.attempt.name

    async def _moved(self, function: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._movers, function, *arguments)

    async def _in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)
