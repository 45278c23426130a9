"""The life of a pilot: ask for jobs, work on them side by side, report, end when nothing is left to do."""

import asyncio
import logging
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from math import inf
from pathlib import Path
from typing import Any, TypeVar

from . import directory, files
from .payload import now
from .server import GivenUpError, Pause, RefusedError, Server, UnreachableError
from .supervision import OVERDUE, Ended, Order, Supervisor, sweep
from .work import Attempt, AttemptFailedError, InputLostError, Offer, attempts

log = logging.getLogger(__name__)
T = TypeVar("T")
Pair = tuple[int, int]
ENDS = ("done", "failed")
FIRST_IDLE, FIRST_HEARTBEAT = 300.0, 60.0
"""Seconds, until the server has said its own."""
REPORT_DELAY = 0.5
"""Seconds that news other than an attempt's end may wait for company."""
END_GRACE = 20.0
"""Seconds in which the last reports must be delivered."""
MOST_AT_ONCE = 10_000
"""Jobs in one match: the most that the server gives."""
KEPT_PAYLOADS = 16
LONGEST_ERROR = 3900


@dataclass(slots=True, eq=False)
class Held:
    """An attempt that the agent has: until the server acknowledges its end, or wants it stopped.

    ``stored`` once bytes may lie in its scratch place; ``done`` once it was said to be done, and
    ``end_heard`` once the server may have heard of its end.
    """

    attempt: Attempt
    supervisor: Supervisor | None = None
    stopping: str = ""
    dropped: bool = False
    stored: bool = False
    done: bool = False
    end_heard: bool = False


class Agent:
    """One pilot. :meth:`run` is its whole life.

    All conversation with the server is one call at a time, so that what it says to hold is never older
    than the last match. The lease is enforced by the supervisors; here it is only renewed.
    """

    def __init__(self, offer: Offer, server: Server) -> None:
        self.offer = offer
        self.server = server
        self._born = self._contact = self._report_at = self._busy_at = now()
        self._held: dict[Pair, Held] = {}
        self._working: set[Held] = set()
        self._reports: list[dict[str, Any]] = []
        self._ending, self._end_by = "", inf
        self._lease, self._heartbeat, self._idle = 0.0, FIRST_HEARTBEAT, FIRST_IDLE
        self._talk, self._ask = Pause(longest=15), Pause(longest=4)
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._cleaning: set[asyncio.Future[None]] = set()
        self._payloads: dict[int, asyncio.Task[dict[str, str]]] = {}
        self._pool = ThreadPoolExecutor(max_workers=max(2, min(8, offer.slots)))

    async def run(self) -> bool:
        """Live until idle, out of time, told to end or given up. False where the server gave it up."""
        for number in (signal.SIGTERM, signal.SIGINT):
            reason = f"pilot stopped by signal {number} ({signal.Signals(number).name})"
            asyncio.get_running_loop().add_signal_handler(number, self._end, reason)
        try:
            while not self._is_over():
                self._wake.clear()
                await self._converse()
                self._look_at_the_time()
                await self._rest()
            await self._drop_everything()
            await self._say_goodbye()
        except (GivenUpError, RefusedError) as error:
            log.error("given up: %s", error)
            self._ending = self._ending or f"given up: {error}"
            await self._drop_everything()
            return False
        finally:
            await self.server.close()
        return True

    # The course of time

    @property
    def _lease_end(self) -> float:
        return self._contact + self._lease

    def _time_left(self) -> float:
        """Seconds of the pilot's walltime, less what it takes to end in good order."""
        return self._born + self.offer.walltime - min(60, self.offer.walltime / 20) - now()

    def _look_at_the_time(self) -> None:
        if self._held or self._working:
            self._busy_at = now()
        if self._time_left() <= 0:
            self._end("the pilot's walltime is over")
        elif now() >= self._busy_at + self._idle:
            self._end("idle")
        elif self._lease and now() >= self._contact + 2 * self._lease:
            # The server has given its jobs to others by now: what it holds is nobody's any more.
            self._end("no contact with the server for twice the lease", grace=0)

    def _end(self, reason: str, grace: float = END_GRACE) -> None:
        """Kill every payload, and live no longer than it takes to report that."""
        if self._ending:
            return
        log.info("ends: %s", reason)
        self._ending, self._end_by = reason, now() + grace
        for held in self._working:
            self._kill(held, reason)
        self._wake.set()

    def _is_over(self) -> bool:
        return bool(self._ending) and (not (self._held or self._working) or now() >= self._end_by)

    async def _rest(self) -> None:
        """Until something happens or is due."""
        if self._is_over():
            return
        due = [self._report_at]
        if self._has_room():
            due.append(self._ask.until)
        moment = max(self._talk.until, min(due))
        idle_end = inf if self._held or self._working else self._busy_at + self._idle
        moment = min(moment, self._end_by, idle_end if not self._ending else inf)
        if not self._ending:
            moment = min(moment, now() + self._time_left())
        with suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), max(0.0, moment - now()))

    # The conversation with the server

    async def _converse(self) -> None:
        if now() < self._talk.until:
            return
        try:
            if self._report_at <= now():
                await self._report()
            if self._has_room() and self._ask.until <= now():
                await self._match()
        except UnreachableError as error:
            log.warning("%s; trying again in %.1f s", error, self._talk.failed())
        else:
            self._talk.succeeded()

    async def _report(self) -> None:
        reports, begun = list(self._reports), now()
        ends = [_pair(report) for report in reports if report["state"] in ENDS]
        self._report_at = inf
        try:
            stop = await self.server.report(list(self._held), reports)
        except UnreachableError as error:
            self._report_at = begun
            for pair in ends:
                self._held[pair].end_heard |= error.heard
            raise
        self._contact = begun
        del self._reports[: len(reports)]
        self._report_at = min(self._report_at, now() + self._heartbeat)
        for held in self._working:
            if held.supervisor:
                held.supervisor.renew(self._lease_end)
        for pair in stop:
            self._stop(pair)
        for pair in ends:
            if pair in self._held:
                self._forget(self._held.pop(pair), wanted=True)

    def _stop(self, pair: Pair) -> None:
        """The attempt is not this pilot's: kill it, and report nothing more of it."""
        held = self._held.pop(pair, None)
        if held is None:
            return
        log.info("job %s is not this pilot's any more: stopped", held.attempt.name)
        self._reports = [report for report in self._reports if _pair(report) != pair]
        held.dropped = True
        self._kill(held, "stopped by the server")
        if held not in self._working:
            self._forget(held, wanted=held.end_heard)

    async def _match(self) -> None:
        begun = now()
        cores, memory, slots = self._free()
        answer = await self.server.match(cores, memory, round(self._time_left(), 1), slots)
        if not self._lease:
            self._contact = begun
        self._lease, self._idle = float(answer["lease"]), float(answer["idle"])
        self._heartbeat = max(0.1, min(float(answer["heartbeat"]), self._lease / 3))
        self._talk.longest = min(15, self._lease / 3)
        self._report_at = min(self._report_at, now() + self._heartbeat)
        found = list(attempts(answer["works"]))
        for attempt in found:
            self._accept(attempt)
        if found:
            self._ask.succeeded()
        else:
            self._ask.failed()

    def _say(self, attempt: Attempt, state: str, **more: Any) -> None:
        """Put a report in line: an end is sent at once, other news may wait for company."""
        self._reports.append({"job": attempt.job, "attempt": attempt.attempt, "state": state, **more})
        self._report_at = min(self._report_at, now() + (0 if state in ENDS else REPORT_DELAY))
        self._wake.set()

    async def _say_goodbye(self) -> None:
        try:
            await self.server.end(self._ending)
        except UnreachableError as error:
            log.warning("ends unheard: %s", error)

    # Attempts

    def _free(self) -> tuple[int, float, int]:
        """Cores, memory in MB (0 where there is no limit to it) and slots that no attempt takes."""
        works = [held.attempt for held in self._working]
        cores = self.offer.cores - sum(attempt.cores for attempt in works)
        memory = self.offer.memory and max(0.0, self.offer.memory - sum(a.work.memory for a in works))
        return cores, memory, min(self.offer.slots - len(works), MOST_AT_ONCE)

    def _has_room(self) -> bool:
        if self._ending or self._time_left() <= 0:
            return False
        cores, memory, slots = self._free()
        return cores > 0 and slots > 0 and (memory > 0 or not self.offer.memory)

    def _accept(self, attempt: Attempt) -> None:
        """Take an attempt on. An empty payload has succeeded already."""
        if attempt.pair in self._held:
            return
        self._held[attempt.pair] = held = Held(attempt)
        if not attempt.work.command:
            self._say(attempt, "done")
            return
        self._working.add(held)
        task = asyncio.create_task(self._work_on(held))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work_on(self, held: Held) -> None:
        """One attempt from its first byte to its last report."""
        ended = Ended()
        outputs: list[dict[str, Any]] = []
        lost: list[str] = []
        try:
            await self._prepare(held)
            ended = await self._run_payload(held)
            error = ended.error
            if not error:
                outputs = await self._store(held)
        except AttemptFailedError as failure:
            error = held.stopping or str(failure)
            lost = [failure.name] if isinstance(failure, InputLostError) else []
        except Exception as failure:
            log.exception("job %s", held.attempt.name)
            error = f"pilot agent: {failure!r}"
        log.info("job %s: %s", held.attempt.name, error.partition("\n")[0] or "done")
        self._working.discard(held)
        if held.dropped:
            self._forget(held, wanted=False)
        else:
            held.done = not error
            said = asdict(ended) | {"error": _storable(error), "lost_inputs": lost}
            said |= {"outputs": outputs if held.done else []}
            self._say(held.attempt, "done" if held.done else "failed", **said)
        self._wake.set()

    async def _prepare(self, held: Held) -> None:
        attempt, place = held.attempt, self._place(held)
        self._say(attempt, "starting")
        payload_files = await self._payload_files(held) if attempt.work.payload_files else {}
        await self._in_thread(directory.prepare, attempt, place, payload_files, lambda: bool(held.stopping))
        if held.stopping:
            raise AttemptFailedError(held.stopping)

    async def _run_payload(self, held: Held) -> Ended:
        work, place = held.attempt.work, self._place(held)
        order = Order(
            command=work.command,
            environment=directory.environment(held.attempt, place),
            directory=place,
            walltime=work.walltime,
            memory=work.memory_limit,
            workdir=work.workdir,
            keep=self.offer.keep,
        )
        held.supervisor = supervisor = Supervisor(order, self._lease_end)
        self._say(held.attempt, "running")
        ended = await supervisor.ended()
        held.supervisor = None
        if supervisor.lost:
            await sweep(lambda: {other.supervisor.pid for other in self._working if other.supervisor})
        if not ended.error:
            return ended
        return replace(ended, error=f"{ended.error}\n{directory.stderr_tail(place)}".strip())

    async def _store(self, held: Held) -> list[dict[str, Any]]:
        attempt, place = held.attempt, self._place(held)
        held.stored = bool(attempt.work.outputs)
        return [
            await self._in_thread(files.store, attempt, name, place, lambda: bool(held.stopping))
            for name in attempt.work.outputs
        ]

    async def _payload_files(self, held: Held) -> dict[str, str]:
        """The files of the attempt's task, asked for once for all its jobs."""
        task = held.attempt.work.task
        if task not in self._payloads:
            if len(self._payloads) >= KEPT_PAYLOADS:
                self._payloads.pop(next(iter(self._payloads)))
            self._payloads[task] = asyncio.create_task(self._ask_payload(task))
        try:
            return await self._payloads[task]
        except (GivenUpError, RefusedError, UnreachableError) as error:
            self._payloads.pop(task, None)
            raise AttemptFailedError(f"payload files: {error}") from error

    async def _ask_payload(self, task: int) -> dict[str, str]:
        pause = Pause(longest=5)
        while True:
            try:
                return await self.server.payload(task)
            except UnreachableError:
                if self._ending or now() > self._lease_end:
                    raise
                await asyncio.sleep(pause.failed())

    def _kill(self, held: Held, reason: str) -> None:
        held.stopping = held.stopping or reason
        if held.supervisor:
            held.supervisor.stop(reason)

    def _forget(self, held: Held, *, wanted: bool) -> None:
        """Delete what the attempt left behind, but not the outputs of one that is done and ``wanted``."""
        if not held.attempt.work.command:
            return
        if held.stored and not (held.done and wanted):
            self._clean(files.discard, held.attempt)
        if not self.offer.keep:
            self._clean(directory.remove, self._place(held))

    def _clean(self, function: Callable[[T], None], argument: T) -> None:
        """Do it by and by; a failure is logged, as nothing waits for it."""
        cleaning = asyncio.ensure_future(self._in_thread(function, argument))
        self._cleaning.add(cleaning)
        cleaning.add_done_callback(self._cleaned)

    def _cleaned(self, cleaning: asyncio.Future[None]) -> None:
        self._cleaning.discard(cleaning)
        if not cleaning.cancelled() and (error := cleaning.exception()):
            log.warning("cleaning up: %s", error)

    async def _drop_everything(self) -> None:
        """Kill all that is left, and delete it. Returns when nothing runs any more, or cannot be killed."""
        for held in [*self._working]:
            held.dropped = True
            self._kill(held, self._ending)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=2 * OVERDUE)
        for held in self._held.values():
            if not held.dropped:
                self._forget(held, wanted=held.end_heard)
        self._held.clear()
        if self._cleaning:
            await asyncio.wait(self._cleaning, timeout=END_GRACE)

    def _place(self, held: Held) -> Path:
        return self.offer.directory / held.attempt.name

    async def _in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)


def _pair(report: dict[str, Any]) -> Pair:
    return report["job"], report["attempt"]


def _storable(text: str) -> str:
    """Text that any database takes, of bounded length."""
    return text.replace("\0", "").encode(errors="replace").decode()[:LONGEST_ERROR]
