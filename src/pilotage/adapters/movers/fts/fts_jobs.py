"""Files that wait for an FTS server: submitted together, and checked together."""

import errno
import logging
import re
import threading
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pilotage.adapters.movers.fts.client import FtsClient, JobRefusedError, NoAnswerError, NoProxyError
from pilotage.adapters.movers.fts.delegation import Delegation
from pilotage.adapters.movers.transfer_services import Sign, TransferServiceError
from pilotage.model.records.observations import Fault
from pilotage.ports.moving import Progress, StorageError

_REASON = re.compile(r"(SOURCE|DESTINATION|TRANSFER)\b[A-Z_ ]*\[(\d+)\]")
"""FTS writes ``SCOPE [errno] words``. Its own faults have the scope GENERAL_FAILURE."""

_SCOPES: dict[str, Fault] = {"SOURCE": "source", "DESTINATION": "destination", "TRANSFER": "either"}

_OF_NAMES = frozenset({errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG})

_OF_READING = frozenset({errno.ENOENT, errno.EACCES, errno.EPERM})
"""Errors of a working storage: about a name, and about a file to read."""

log = logging.getLogger(__name__)

T = TypeVar("T")

MOST_FILES, MOST_JOBS = 200, 50
"""Most files of one job, and most jobs in one question."""

GATHER = 1.0
"""Seconds to collect files for one job."""

LOOK = 0.5
"""Seconds between two checks of a delivery's known state."""

LOOK_AFTER = 600.0
"""Seconds between two checks that the server still has our proxy, while it copies files."""

OVER = frozenset({"FINISHED", "FAILED", "CANCELED", "NOT_USED"})
"""States of files that the server has finished with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FtsFile:
    """A file to copy: the URL of its source, and its temporary names by attempt from the first.

    ``targets`` are their paths at the destination; the last one is this attempt's. ``size`` is in bytes.
    """

    instance: str
    transfer: int
    attempt: int
    size: int
    source: str
    targets: Mapping[str, str]
    tokens: tuple[str, str] | None = field(default=None, repr=False)
    activity: str = ""

    def document(self) -> dict[str, Any]:
        """Return the file in the server's form."""
        document: dict[str, Any] = {
            "sources": [self.source],
            "destinations": [list(self.targets)[-1]],
            "filesize": self.size,
            "metadata": {"transfer": self.transfer, "attempt": self.attempt},
        }
        if self.tokens:
            document |= {"source_tokens": [self.tokens[0]], "destination_tokens": [self.tokens[1]]}
        return document | ({"activity": self.activity} if self.activity else {})


@dataclass(slots=True)
class _Waiting:
    """A waiting delivery, with its file's job and attempt at the server, possibly an earlier one."""

    request: FtsFile
    attempt: int
    done: threading.Event = field(default_factory=threading.Event)
    job: str = ""
    file: int | None = None
    moved: int = 0
    answers: int = 0
    error: str = ""
    fault: Fault = ""
    given_up: bool = False

    def end(self, error: str = "", fault: Fault = "") -> None:
        self.error, self.fault = error, fault
        self.done.set()

    @property
    def path(self) -> str:
        return list(self.request.targets.values())[self.attempt - 1]


class FtsJobs:
    """The files of one server and identity. One thread follows them while there are any."""

    def __init__(self, client: FtsClient, poll: float) -> None:
        self._client, self._poll = client, poll
        self._delegation = Delegation(client)
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._followed = False
        self._new: list[_Waiting] = []
        self._carried: list[_Waiting] = []

    def carry(self, request: FtsFile, progress: Progress, sign: Sign) -> str:
        """Let FTS copy a file to a temporary name. Return its path. Blocks. Raises TransferServiceError."""
        waiting, answers = _Waiting(request, request.attempt), 0
        with self._lock:
            self._new.append(waiting)
            if not self._followed:
                self._followed = True
                threading.Thread(target=self._follow, name="fts", daemon=True).start()
        self._wake.set()
        try:
            while not waiting.done.wait(LOOK):
                progress(waiting.moved)
                if waiting.answers != answers:
                    answers = waiting.answers
                    sign()
        except BaseException:
            waiting.given_up = True
            self._wake.set()
            raise
        if waiting.error:
            raise TransferServiceError(waiting.error, waiting.fault)
        return waiting.path

    def _follow(self) -> None:
        while True:
            self._wake.wait(self._poll)
            # Deliveries start one by one: those within a moment become one job.
            threading.Event().wait(GATHER)
            self._wake.clear()
            with self._lock:
                new, self._new = [delivery for delivery in self._new if not delivery.given_up], []
                if not new and not self._carried:
                    self._followed = False
                    return
            try:
                self._begin(new)
                self._look()
                self._cancel()
            except Exception as error:  # all deliveries wait for this thread
                log.exception("unexpected fault with an FTS server")
                for delivery in (*new, *self._carried):
                    delivery.end(f"{type(error).__name__}: {error}")
            self._carried = [
                delivery for delivery in self._carried if not (delivery.done.is_set() or delivery.given_up)
            ]

    def _begin(self, new: list[_Waiting]) -> None:
        """Submit files, unless the server still has them from an earlier attempt. End the failed ones."""
        try:
            self._take_up([delivery for delivery in new if delivery.attempt > 1])
            # Check it now and then while files are copied, and always before a job.
            self._delegation.renew(after=0.0 if new else LOOK_AFTER)
        except Exception as error:
            for delivery in new:
                delivery.end(f"{error}")
            return
        for part in _parts([delivery for delivery in new if not delivery.job], MOST_FILES):
            self._submit(part)
        self._carried += [delivery for delivery in new if delivery.job]

    def _submitted(self, files: Sequence[Mapping[str, Any]], metadata: Mapping[str, Any]) -> str:
        """Submit a job. If the server lacks our proxy although it claims to have one, delegate again,
        once."""
        try:
            return self._client.submit(files, metadata)
        except NoProxyError:
            self._delegation.replace()
            return self._client.submit(files, metadata)

    def _submit(self, files: Sequence[_Waiting]) -> None:
        """Submit one job. If it is refused, split it until the faulty file is alone."""
        name = uuid.uuid4().hex
        metadata = {"pilotage": files[0].request.instance, "submission": name}
        error = f"{self._client.url} gave a job no ID"
        try:
            job = self._submitted([delivery.request.document() for delivery in files], metadata)
        except JobRefusedError as refused:
            if len(files) > 1:
                for part in _parts(files, (len(files) + 1) // 2):
                    self._submit(part)
                return
            job, error = "", f"{refused}"
        except NoAnswerError as lost:
            job, error = self._recognised(name), f"{lost}"
        except StorageError as failed:
            job, error = "", f"{failed}"
        for delivery in files:
            delivery.job = job
            if not job:
                delivery.end(error)

    def _recognised(self, name: str) -> str:
        """Return the job of a submission without an answer; empty if none is found."""
        try:
            jobs = self._client.under_way()
        except StorageError:
            return ""
        return next((job for job, metadata in jobs.items() if metadata.get("submission") == name), "")

    def _take_up(self, again: Sequence[_Waiting]) -> None:
        """Wait for files that the server still has from earlier attempts, and cancel others of these jobs.

        So the work of a killed server is neither lost nor done twice. Raises StorageError.
        """
        if not again:
            return
        by_transfer = {delivery.request.transfer: delivery for delivery in again}
        instance = again[0].request.instance
        jobs = [
            job for job, metadata in self._client.under_way().items() if metadata.get("pilotage") == instance
        ]
        for job, file in self._files(jobs):
            transfer, attempt = _names(file)
            delivery = by_transfer.get(transfer)
            if (
                delivery is None
                or file.get("file_state") in OVER
                or not 0 < attempt < delivery.request.attempt
            ):
                continue
            if not delivery.job and file.get("source_surl") == delivery.request.source:
                delivery.job, delivery.attempt = job, attempt
            elif isinstance(file.get("file_id"), int):
                self._client.cancel(job, [file["file_id"]])

    def _files(self, jobs: Sequence[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for part in _parts(jobs, MOST_JOBS):
            for job, files in self._client.files(part).items():
                yield from ((job, file) for file in files)

    def _look(self) -> None:
        """Ask for every job, and end the deliveries of finished files."""
        jobs = sorted({delivery.job for delivery in self._carried})
        try:
            files = {(job, *_names(file)): file for job, file in self._files(jobs)}
        except StorageError as error:
            log.warning("deliveries at an FTS server cannot be seen: %s", error)
            return
        for delivery in self._carried:
            _judge(delivery, files.get((delivery.job, delivery.request.transfer, delivery.attempt)))

    def _cancel(self) -> None:
        by_job: dict[str, list[int]] = defaultdict(list)
        for delivery in self._carried:
            if delivery.given_up and delivery.file is not None and not delivery.done.is_set():
                by_job[delivery.job].append(delivery.file)
        for job, files in by_job.items():
            try:
                self._client.cancel(job, files)
            except StorageError as error:
                log.warning("files %s of FTS job %s go on: %s", files, job, error)


def _judge(delivery: _Waiting, file: Mapping[str, Any] | None) -> None:
    """Record the server's state of a file, and end its delivery if it has finished."""
    if file is None:
        delivery.end(f"FTS job {delivery.job}: the server has lost it")
        return
    state, moved = file.get("file_state"), file.get("transferred")
    delivery.file = file.get("file_id")
    delivery.answers += 1
    delivery.moved = moved if isinstance(moved, int) else delivery.moved
    if state == "FINISHED":
        delivery.end()
    elif state in OVER:
        reason = f"{file.get('reason') or 'no reason is told'}"
        delivery.end(f"FTS job {delivery.job}: {state}: {reason}", fault_of(reason))


def _names(file: Mapping[str, Any]) -> tuple[int, int]:
    """Return transfer and attempt from our metadata of a file; zeros if it is not ours."""
    metadata = file.get("file_metadata")
    names = [metadata.get(name) for name in ("transfer", "attempt")] if isinstance(metadata, Mapping) else []
    transfer, attempt = (name if isinstance(name, int) else 0 for name in names or (0, 0))
    return transfer, attempt


def _parts(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[at : at + size] for at in range(0, len(items), size))


def fault_of(reason: str) -> Fault:
    """Return who is to blame for a reason; empty if it does not say."""
    match = _REASON.match(reason)
    if match is None or (code := int(match[2])) == errno.ECANCELED:
        return ""
    if code in _OF_NAMES or (match[1] != "DESTINATION" and code in _OF_READING):
        return "file"
    return _SCOPES[match[1]]
