"""One attempt at another Pilotage: submit it once, lease it, follow it, and report it only when it is
surely over."""

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pilotage.adapters.computing.forwarding.peer import Peer, PeerTask, Refused
from pilotage.adapters.computing.web_service import AnswerLost
from pilotage.agent.machine import now
from pilotage.agent.payload.attempt import Attempt, AttemptFailedError, legal
from pilotage.agent.payload.payload import Ended
from pilotage.agent.wire import JobInput, Point, Specification
from pilotage.model.documents.serialization import to_document
from pilotage.model.records.failure_kinds import FAILURE_RULES
from pilotage.model.records.spec import TaskSpec
from pilotage.model.values.paths import path_in_job

SCRIPT = "forwarded.sh"
"""A script that puts inputs where the payload expects them. The other side has them in the attempt's own
folder."""

_MOVE = """\
mv "inputs/$1" forwarded.inputs && rm -rf inputs && mv forwarded.inputs inputs || exit 97
awk -v begin="inputs/$1/" '{ print "inputs/" substr($0, length(begin) + 1) }' inputs.txt > forwarded.list
mv forwarded.list inputs.txt
shift
exec "$@"
"""

OURS = frozenset(
    {
        *(
            "inputs",
            "files_per_job",
            "jobs",
            "scouts",
            "merge",
            "max_attempts",
            "retries",
            "nucleus",
            "t1_weight",
            "destinations",
        ),
        *("queues", "brokerage", "stations", "site_requirements", "site_rank", "share"),
        *("transfer_sub_share", "submit_pools", "private_pilots", "force_generic"),
        # There, such names belong to secrets of the account that forwards.
        *("seed", "parameters", "secrets"),
    }
)
"""Fields of a task that concern this side's choices, not the job's needs."""

_DEFAULTS = to_document(TaskSpec(name=""))

FIRST_LOOK, LONGEST_PAUSE = 0.5, 30.0
"""First and longest pause in s between two checks of an attempt. Short jobs end soon, so the first is
short."""

UNREACHED = 600.0
"""Seconds after which an attempt that never reached the other Pilotage is given back."""

ENDED = ("finished", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class Handover:
    """An attempt, its task's full description, and the storage that takes its inputs for the other side."""

    attempt: Attempt
    specification: Specification
    storage: str

    @property
    def key(self) -> str:
        """Return the attempt's name at the other Pilotage.

        It ensures a single submission, even if answers are lost or processes killed.
        """
        return f"{self.specification.instance}:{self.attempt.name}"

    @property
    def folder(self) -> str:
        """Return the folder of its inputs at that storage."""
        return f"forwarded/{self.specification.instance}/{self.attempt.name}"

    def spec(self) -> dict[str, Any]:
        """Return the task to submit: this one job, tried once, because this side counts attempts."""
        # An earlier version does not know all fields: send only fields that say something.
        document = {
            name: value
            for name, value in self.specification.spec.items()
            if name not in OURS and (name not in _DEFAULTS or value != _DEFAULTS[name])
        }
        inputs = self.attempt.order.inputs
        document |= {
            "name": f"{self.specification.instance}-{self.attempt.name}",
            "scouts": 0,
            "max_attempts": 1,
        }
        variables = {**self.attempt.order.environment, **document.get("environment", {})}
        document["environment"] = {**variables, "PILOTAGE_FORWARDED": self.key}
        if inputs:
            document |= {"inputs": [self._input(file) for file in inputs], "files_per_job": len(inputs)}
            document |= self._stdin()
            document["command"] = ["sh", SCRIPT, self.folder, *document.get("command", ())]
            document["payload_files"] = {**document.get("payload_files", {}), SCRIPT: _MOVE}
        return document

    def _stdin(self) -> dict[str, str]:
        """Return the name that the other side has for an input that is read from standard input."""
        name = self.attempt.order.stdin.removeprefix("inputs/")
        return {"stdin": f"{self.folder}/{name}"} if name != self.attempt.order.stdin else {}

    def _input(self, file: JobInput) -> dict[str, Any]:
        name = f"{self.folder}/{file.name}"
        return {"name": name, "size": file.size, "checksum": file.checksum, "replicas": [self.storage]}


class ForwardedAttempt:
    """An attempt that runs at another Pilotage. ``run`` follows it in its own thread.

    The other Pilotage stops the attempt by a time that we set. The attempt counts as over when the other side
    reports that it ended by itself, or after that time. Earlier, a second attempt might run beside it.
    """

    def __init__(
        self, peer: Peer, handover: Handover, lease_end: float, running: Callable[[], object]
    ) -> None:
        self._peer = peer
        self._handover = handover
        self._lease_end = lease_end
        self._running = running
        self._over_by = 0.0
        self._stopping = ""
        self._woken = threading.Event()
        self.task: int | None = None
        self._job = 0

    def renew(self, lease_end: float) -> None:
        """Let the attempt run until then."""
        self._lease_end = lease_end

    def stop(self, reason: str) -> None:
        """Cancel the attempt."""
        self._stopping = self._stopping or reason
        self._woken.set()

    def points_so_far(self) -> tuple[Point, ...]:
        """Return no time line: the other server keeps it."""
        return ()

    @property
    def may_run(self) -> bool:
        """Return whether the attempt may still run at the other side."""
        return now() < self._over_by

    def run(self) -> Ended:
        """Follow the attempt to its end.

        Raises AttemptFailedError if the other side refuses it, or if its end cannot be seen.
        """
        self.task = self._submitted()
        begun, is_reported = now(), False
        while True:
            task = self._renewed(self.task)
            if task and not is_reported and (is_reported := bool(task.job and task.job["started"])):
                self._running()
            if task and task.state in ENDED:
                return self._ended(task)
            if self._stopping:
                return self._cancelled(self.task)
            if not self.may_run:
                raise AttemptFailedError(f"{self._peer.url} was not heard of until its lease was over")
            self._woken.wait(min(self._pause(), FIRST_LOOK + (now() - begun) / 20))

    def _lease(self) -> float:
        """Return the seconds until our server gives the job to others if it hears nothing from us."""
        return self._lease_end + self._handover.specification.grace - now()

    def _pause(self) -> float:
        """Return the longest pause in s between two checks, so that the lease is renewed several times
        before it ends."""
        return max(0.1, min(LONGEST_PAUSE, self._lease() / 6))

    def _submitted(self) -> int:
        """Submit the attempt, and repeat until there is an answer."""
        spec, key = self._handover.spec(), self._handover.key
        begun, pause = now(), FIRST_LOOK
        while True:
            lease = self._lease()
            if lease <= 0:
                raise AttemptFailedError(f"our lease was over before {self._peer.url} answered")
            try:
                task = self._peer.submit(spec, lease, key)
                # Counting from the answer is safe: the other side counts from an earlier moment.
                self._over_by = now() + lease
                return task
            except Refused as refusal:
                raise AttemptFailedError(f"{self._peer.url} refuses the job: {refusal}") from refusal
            except AnswerLost:
                self._over_by = now() + lease
            except OSError as error:
                if not self.may_run and (self._stopping or now() > begun + UNREACHED):
                    raise AttemptFailedError(self._stopping or str(error)) from error
            self._woken.wait(pause)
            # Clear the request to stop, or no later wait would wait.
            self._woken.clear()
            pause = min(self._pause(), 2 * pause)

    def _renewed(self, task: int) -> PeerTask | None:
        """Renew the lease and return the task's state; None if there is no answer."""
        lease = self._lease()
        try:
            if lease <= 0 or self._stopping:
                return self._peer.look(task)
            try:
                renewal = self._peer.renew(task, lease)
            except AnswerLost:
                self._over_by = max(self._over_by, now() + lease)
                return None
            except Refused:
                # The task is gone, or the remaining lease is too short to keep.
                return self._peer.look(task)
            self._over_by = max(self._over_by, now() + lease)
            return renewal
        except (OSError, Refused):
            return None

    def _cancelled(self, task: int) -> Ended:
        """Cancel the attempt, and repeat until it works. An attempt that has ended by then stays ended."""
        while self.may_run:
            try:
                return self._ended(self._peer.cancel(task))
            except (OSError, Refused):
                self._woken.clear()
                self._woken.wait(min(1.0, self._pause()))
        raise AttemptFailedError(self._stopping)

    def _ended(self, task: PeerTask) -> Ended:
        """Return the attempt's end as a payload's end.

        A cancelled attempt may run on until its lease is over.
        """
        job: Mapping[str, Any] = task.job or {}
        self._job = job.get("id", 0)
        # An attempt that ended by itself has stopped. A cancelled one may run until its pilot hears of it.
        if task.state != "cancelled" or job.get("pilot") is None:
            self._over_by = 0.0
        return Ended(
            error=self._error(task, job),
            exit_code=job.get("exit_code"),
            cpu_seconds=job.get("cpu_seconds") or 0.0,
            wall_seconds=job.get("wall_seconds") or 0.0,
            max_rss=job.get("max_rss") or 0.0,
            max_workdir=job.get("max_workdir") or 0.0,
            kind=self._kind(task),
        )

    def _kind(self, task: PeerTask) -> str:
        """Return how the attempt failed at the other side, which knows its limits and its pilots."""
        kind = ""
        if task.state == "failed" and self._job:
            with suppress(OSError, Refused):
                kind = self._peer.failure_kind(self._job)
        return kind if kind in FAILURE_RULES else Ended.kind

    def _error(self, task: PeerTask, job: Mapping[str, Any]) -> str:
        if task.state == "finished":
            return ""
        if task.state == "cancelled" and self._stopping:
            return self._stopping
        place = f"queue {job['queue']}" if job.get("queue") else "no queue"
        reason = (job.get("error") or task.error or "no reason was given").strip()
        return f"{task.state} at {self._peer.url}, task {self.task}, {place}: {reason}"

    def pause(self) -> None:
        """Wait a little before repeating a call."""
        self._woken.wait(1.0)

    def bring(self, directory: Path, outputs: bool) -> None:
        """Fetch the attempt's streams, and its ``outputs``.

        Raises OSError, Refused, and AttemptFailedError if the name of an output leads out of the directory.
        """
        for stream, text in self._peer.streams(self._job).items() if self._job else ():
            (directory / stream).write_text(text, encoding="utf-8")
        for file in self._peer.outputs(self.task or 0) if outputs else ():
            path = directory / legal("output", path_in_job(file["name"]), deep=True)
            path.parent.mkdir(parents=True, exist_ok=True)
            self._peer.fetch(file["file"], file["size"], path)
