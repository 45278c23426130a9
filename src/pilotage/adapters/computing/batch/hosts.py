"""Hosts that run commands. The queues of one account share connections and listings."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pilotage.adapters.computing.batch.commands import Command, CommandRunner, LocalRunner, Outcome
from pilotage.adapters.computing.batch.options import BatchOptions
from pilotage.adapters.computing.batch.ssh import SshRunner
from pilotage.ports.loop_thread import LoopThread

FRESH = 1.0
"""Seconds for which other queues may reuse a listing."""


@dataclass(slots=True)
class _Shared:
    """An answer of the batch system, and the monotonic ``time`` of the question in s."""

    time: float
    answer: Any


class Host:
    """A host: its commands, and answers that several queues share."""

    def __init__(self, runner: CommandRunner) -> None:
        self.name = runner.name
        self._runner = runner
        self._lock = threading.Lock()
        self._locks: dict[object, threading.Lock] = {}
        self._answers: dict[object, _Shared] = {}
        self._rests: dict[object, float] = {}

    def run(self, command: Command) -> Outcome:
        """Run a command. Raises OSError if the host cannot be reached and the command did not start."""
        return self._runner.run(command)

    def shared(
        self, key: object, ask: Callable[[], Mapping[str, Any]], *, fresh: bool = False
    ) -> Mapping[str, Any]:
        """Return the answer to a question. Ask again if the last answer is older than ``FRESH``.

        Concurrent callers wait for the same answer, except with ``fresh``.
        """
        # Take the time of the call: an answer that arrives while we wait for the lock is fresh enough.
        oldest = time.monotonic() - (0 if fresh else FRESH)
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            answer = self._answers.get(key)
            if answer is None or answer.time < oldest:
                answer = _Shared(time.monotonic(), ask())
                self._answers[key] = answer
            return answer.answer  # type: ignore[no-any-return]

    def rests(self, key: object) -> bool:
        """Return whether a question is suspended, see ``rest``."""
        with self._lock:
            return time.monotonic() < self._rests.get(key, 0.0)

    def rest(self, key: object, seconds: float) -> None:
        """Suspend a question that got no answer."""
        with self._lock:
            self._rests[key] = time.monotonic() + seconds

    def changed(self) -> None:
        """Forget all answers, because something was submitted or cancelled."""
        with self._lock:
            self._answers.clear()
            self._locks.clear()

    def closed_for(self) -> float:
        """See ``LeadingBack``."""
        return self._runner.closed_for() if isinstance(self._runner, SshRunner) else 0.0

    def server_url(self, url: str, file: str) -> str:
        """See ``CommandRunner.server_url``."""
        return self._runner.server_url(url, file)


class Hosts:
    """Hosts by their connection options."""

    def __init__(self, server_url: str = "") -> None:
        self._server_url = server_url
        self._lock = threading.Lock()
        self._loop = LoopThread("ssh")
        self._hosts: dict[object, Host] = {}

    def host(self, options: BatchOptions) -> Host:
        """Return the host of these options. It connects at its first command."""
        key = (options.ssh, options.ssh_config, options.spool, options.tunnel, options.relay_host)
        with self._lock:
            if key not in self._hosts:
                remote = options.ssh and SshRunner(options, self._loop, self._server_url)
                self._hosts[key] = Host(remote or LocalRunner())
            return self._hosts[key]
