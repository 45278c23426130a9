"""An executor of the standard library; its calls run as jobs."""

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pilotage.model.values.phrases import plural

from ._sync.functions import MappedTask
from .call_batches import CallBatch, batch_key, catalogue_file
from .errors import CallFailed
from .functions import failure_of, value_of
from .job_states import DELETED, ENDED
from .session import AWAY, PASSING, ProgramLog, Session

if TYPE_CHECKING:
    from ._sync.job_control import JobControl

GATHER = 0.1
"""Seconds to gather calls into one task."""

LONGEST = 1.0
"""Most seconds to gather calls while more of them come."""

SHORTEST_PACE, LONGEST_PACE = 0.1, 1.0
"""Seconds between two looks at the server's events: few after a change, more as nothing happens."""

MOST_READERS = 8
"""Results that are read at a time."""


@dataclass(frozen=True)
class _WaitingCall:
    """A call that waits to be gathered."""

    future: "Future[Any]"
    function: Callable[..., Any]
    args: tuple[Any, ...]
    keywords: Mapping[str, Any]
    fields: Mapping[str, Any]
    inputs: Sequence[str]


@dataclass
class _RunningTask:
    """A task of calls, with the futures of those that have not ended, by their places."""

    mapped: "MappedTask"
    futures: "dict[int, Future[Any]]"
    late: dict[int, float] = field(default_factory=dict)
    """When the server first failed to give a result, on the monotonic clock."""


class TaskExecutor(Executor):
    """Runs Python functions as jobs. Calls that come within a tenth of a second become one task.

    ``fields`` are fields of the tasks, such as ``ram=2000``. Functions and arguments are pickled by
    cloudpickle: the nodes need the same minor version of Python, and the packages that the functions
    import. Results are unpickled here, so no other person may be able to change the jobs. The server may be
    away for a while, and a token may end and be renewed: the log has it, and no call is lost.
    """

    def __init__(
        self,
        client: "JobControl",
        fields: Mapping[str, Any],
        host: str = "the executor",
        log: ProgramLog | None = None,
    ) -> None:
        """Run calls through a client, which a shutdown that waits closes.

        ``host`` is what the log, by default ``pilotage.executor``, calls the program.
        """
        self._session: Session[JobControl] = Session(
            client, host, log or logging.getLogger("pilotage.executor")
        )
        self._client = client
        self._fields = dict(fields)
        self._waiting: queue.Queue[_WaitingCall | None] = queue.Queue()
        self._lock = threading.Lock()
        self._is_shut = self._is_cancelled = False
        self._tasks: dict[int, _RunningTask] = {}
        self._change = threading.Event()
        self._readers = ThreadPoolExecutor(MOST_READERS, thread_name_prefix="pilotage-result")
        self._gatherer = threading.Thread(target=self._gather, name="pilotage-executor", daemon=True)
        self._watcher = threading.Thread(target=self._watch, name="pilotage-watcher", daemon=True)
        self._gatherer.start()
        self._watcher.start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Run a call as a job, and return its future. Raises RuntimeError after a shutdown."""
        return self.submit_call(fn, args, kwargs)

    def submit_call(
        self,
        function: Callable[..., Any],
        args: Sequence[Any] = (),
        keywords: Mapping[str, Any] | None = None,
        *,
        fields: Mapping[str, Any] | None = None,
        inputs: Sequence[str] = (),
    ) -> "Future[Any]":
        """Run a call as a job whose task has further ``fields``: calls with the same ones share tasks.

        The job reads ``inputs``, files of the catalogue as ``scope:name``. Raises RuntimeError after a
        shutdown.
        """
        future: Future[Any] = Future()
        call = _WaitingCall(future, function, tuple(args), keywords or {}, fields or {}, tuple(inputs))
        with self._lock:
            if self._is_shut:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._waiting.put(call)
        return future

    def queues_of(self, sites: Iterable[str]) -> list[str]:
        """Return the queues of sites. Raises ``Refused`` for a site that has none."""
        return self._session.queues_of(sites)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Refuse further calls. With ``wait``, return when all have ended; their tasks go on in any case."""
        with self._lock:
            if not self._is_shut:
                self._is_shut = True
                if cancel_futures:
                    self._cancel_waiting()
                self._waiting.put(None)
        self._change.set()
        if wait:
            self._gatherer.join()
            self._watcher.join()
            self._readers.shutdown(wait=True)
            self._client.close()

    def cancel(self) -> None:
        """Refuse further calls, and cancel the jobs of all others; their futures raise ``CallFailed``."""
        self._is_cancelled = True
        self.shutdown(wait=False, cancel_futures=True)
        # A submission that is under way ends before.
        self._gatherer.join(LONGEST)
        running = dict(self._tasks)
        self._session.cancel(
            (number, index) for number, task in running.items() for index in list(task.futures)
        )
        for task in running.values():
            _fail(list(task.futures.values()), CallFailed("it was cancelled when its executor was shut down"))

    def _cancel_waiting(self) -> None:
        while True:
            try:
                call = self._waiting.get_nowait()
            except queue.Empty:
                return
            if call:
                call.future.cancel()

    # One thread gathers calls, and submits them

    def _gather(self) -> None:
        """Gather calls into tasks until the executor is shut."""
        batches: dict[str, CallBatch] = {}
        while True:
            try:
                call = self._waiting.get(timeout=GATHER if batches else None)
            except queue.Empty:
                self._start(batches)
                continue
            if call is None:
                self._start(batches)
                return
            if call.future.set_running_or_notify_cancel():
                self._add(call, batches)
            now = time.monotonic()
            self._start(batches, [key for key, batch in batches.items() if now - batch.begun > LONGEST])

    def _add(self, call: _WaitingCall, batches: dict[str, CallBatch]) -> None:
        """Put a call into the batch of its fields. Its future raises what pickle raises."""
        key = ""
        try:
            files = [catalogue_file(self._session.file(name)) for name in dict.fromkeys(call.inputs)]
            key = batch_key(call.fields, files)
            if key in batches and batches[key].add(
                call.future, call.function, call.args, call.keywords, files
            ):
                return
            self._start(batches, [key] if key in batches else [])
            batch = CallBatch({**self._fields, **call.fields})
            batch.add(call.future, call.function, call.args, call.keywords, files)
        except Exception as error:
            call.future.set_exception(error)
        else:
            batches[key] = batch

    def _start(self, batches: dict[str, CallBatch], keys: Sequence[str] | None = None) -> None:
        """Run gathered calls, each batch as one task."""
        for key in list(batches) if keys is None else keys:
            batch = batches.pop(key)
            try:
                self._submit(batch)
            except Exception as error:
                _fail(batch.futures, error)

    def _submit(self, batch: CallBatch) -> None:
        if self._is_cancelled:
            raise CallFailed("it was cancelled before it began")
        self._session.check(batch.example(), batch.same)
        self._session.persevere(self._session.states.begin)
        calls = f"{plural(len(batch.futures), 'call')} of {batch.name}"
        number = self._session.submit(batch.document(), calls, uuid4().hex)
        task = self._session.persevere(lambda: self._client.task(number))
        self._tasks[number] = _RunningTask(MappedTask(task, self._client), dict(enumerate(batch.futures)))
        self._session.states.add(number)
        self._change.set()

    # Another waits for their ends

    def _watch(self) -> None:
        """Give each future its result when its job has ended, until the executor is shut and all have."""
        pace = SHORTEST_PACE
        while (self._gatherer.is_alive() or self._tasks) and not self._is_cancelled:
            is_new = self._change.wait(pace if self._tasks else LONGEST_PACE)
            self._change.clear()
            if self._tasks:
                has_ended = self._look()
                pace = SHORTEST_PACE if is_new or has_ended else min(LONGEST_PACE, pace * 1.5)

    def _look(self) -> bool:
        """Settle the futures of all jobs that have ended. Return whether there were any."""
        self._session.refresh()
        count = 0
        for number, task in list(self._tasks.items()):
            try:
                count += self._settle(number, task)
            except PASSING as error:
                self._session.report_silence(error)
            except Exception as error:
                _fail(task.futures.values(), error)
                task.futures.clear()
            if not task.futures:
                self._tasks.pop(number, None)
        self._session.states.keep(self._tasks)
        return count > 0

    def _settle(self, number: int, task: _RunningTask) -> int:
        """Settle the futures of the jobs of a task that have ended. Return their number."""
        states = {index: self._session.states.state(number, index) for index in list(task.futures)}
        ended = {index: state for index, state in states.items() if state in ENDED}
        jobs = [self._session.states.number(number, index) for index in ended]
        finished = [job for job, state in zip(jobs, ended.values(), strict=True) if state == "finished"]
        task.mapped.find([job for job in finished if job is not None])
        settle = partial(self._settle_call, task)
        return sum(self._readers.map(settle, ended, ended.values(), jobs))

    def _settle_call(self, task: _RunningTask, index: int, state: str, job: int | None) -> bool:
        """Settle the future of a job. Return whether it is: the server may be away, or run the job again."""
        try:
            result = self._outcome(task, state, job)
        except PASSING as error:
            if time.monotonic() - task.late.setdefault(index, time.monotonic()) < AWAY:
                self._session.report_silence(error)
                return False
            result = partial(_raise, error)
        except Exception as error:
            result = partial(_raise, error)
        if result is not None:
            _settle(task.futures.pop(index), result)
        return result is not None

    def _outcome(self, task: _RunningTask, state: str, number: int | None) -> Callable[[], Any] | None:
        """Return what returns the result of a call or raises its error; None if its job runs again."""
        if number is None or state == DELETED:
            raise CallFailed(f"its task {task.mapped.id} ended or was deleted before it")
        if state == "finished":
            return partial(value_of, task.mapped.content(number))
        job = self._client.job(number)
        if self._session.repeats(job):
            return None
        raise failure_of(job)


def _settle(future: "Future[Any]", result: Callable[[], Any]) -> None:
    try:
        value = result()
    except Exception as error:
        _fail([future], error)
    else:
        if not future.done():
            future.set_result(value)


def _fail(futures: "Iterable[Future[Any]]", error: Exception) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(error)


def _raise(error: Exception) -> None:
    raise error
