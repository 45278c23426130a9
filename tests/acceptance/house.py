"""A whole house as processes of its own, any of which may be killed at any moment and started again."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
from sqlalchemy import make_url

from tests import sqlite
from tests.waiting import PATIENCE

AGENTS = {"pilotage.agent", "pilotage.adapters.computing.forwarding.forwarder"}


@contextmanager
def running(
    place: Path,
    port: int,
    federation: str,
    *folders: str,
    store: str = "",
    environment: Mapping[str, str] | None = None,
) -> Iterator["House"]:
    """A house of one part, ``all``, that runs with this federation in a place which has these folders.

    The end of its log is printed, which pytest shows where a test failed.
    """
    for name in ("home", *folders):
        (place / name).mkdir(exist_ok=True)
    file = place / "federation.yaml"
    file.write_text(federation)
    parts = {"all": (str(file),)}
    house = House(place / "home", store or f"sqlite:///{place}/store.db", port, file, parts)
    house.environment = environment or {}
    try:
        house.start("all")
        yield house
    finally:
        house.stop()
        print(house.last_words())


@dataclass
class House:
    """Processes by name, each the arguments of ``pilotage up``; all share one home and one store."""

    home: Path
    store: str
    port: int
    federation: Path
    parts: Mapping[str, Sequence[str]]
    # The address for pilots, if a proxy stands between, and further variables of all processes.
    public_url: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    # Spools of pilots that call home through a tunnel.
    spools: Sequence[Path] = ()
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    # One for all calls: to make a client takes longer than most calls.
    _client: httpx.Client = field(default_factory=httpx.Client, repr=False)

    def start(self, name: str) -> None:
        """Start a part, or start it again."""
        command = [sys.executable, "-m", "pilotage.cli", "up", *self.parts[name]]
        database = make_url(self.store).database
        if self.store.startswith("sqlite:") and not Path(str(database)).exists():
            sqlite.new_store(Path(str(database)))  # to migrate takes a process of its own half a second
        with (self.home / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                command, stdout=log, stderr=log, env=self._variables, start_new_session=True
            )

    def command(self, *words: str, **variables: str) -> str:
        """Run a command of the operator, and return all that it prints. Its exit code may be any."""
        command = [sys.executable, "-m", "pilotage.cli", *words]
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**self._variables, **variables},
            timeout=PATIENCE,
            check=False,
        )
        return done.stdout

    @property
    def _variables(self) -> dict[str, str]:
        return {
            **os.environ,
            "PILOTAGE_HOME": str(self.home),
            "PILOTAGE_STORE": self.store,
            "PILOTAGE_URL": self.public_url or self.url,
            **self.environment,
        }

    def restart(self, name: str) -> None:
        """``kill -9`` a part, and start it again."""
        self.running[name].kill()
        self.running[name].wait()
        self.start(name)

    def kill_an_agent(self, dice: random.Random) -> bool:
        """Kill one of the pilots' processes, if there is any."""
        agents = self.agents()
        if not agents:
            return False
        try:
            dice.choice(agents).kill()
        except psutil.NoSuchProcess:
            return False
        return True

    def agents(self) -> list[psutil.Process]:
        """The pilot agents of this house, by pid."""
        found = []
        for process in psutil.process_iter():
            try:
                command = set(process.cmdline())
            except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
                continue
            # Several servers stand behind one another, with commas between.
            told = {argument.partition(",")[0] for argument in command}
            is_agent = AGENTS & command or "--remove-token-file" in command
            calls_here = f"--url={self.public_url or self.url}" in told or any(
                one.startswith(f"--url=file://{spool}/") for one in told for spool in self.spools
            )
            if is_agent and calls_here:
                found.append(process)
        return sorted(found, key=lambda process: process.pid)

    def stop(self) -> None:
        """End everything."""
        self._client.close()
        for process in self.running.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.running.values():
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for agent in self.agents():
            for left in [*agent.children(recursive=True), agent]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    left.kill()

    @property
    def url(self) -> str:
        """Where the API answers."""
        return f"http://127.0.0.1:{self.port}"

    def call(self, method: str, path: str, body: object = None) -> Any:
        """The API's answer as a document; tried again while the server is being started again."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                answer = self.ask(method, path, body)
                if answer.status_code < 500:
                    answer.raise_for_status()
                    return answer.json() if answer.content else None
                fault: object = answer.text
            except (httpx.TransportError, FileNotFoundError) as error:
                fault = error
            if time.monotonic() > end:
                raise AssertionError(f"no answer from {path}: {fault}\n{self.last_words()}")
            time.sleep(0.1)

    def ask(
        self, method: str, path: str, body: object = None, key: str = "", timeout: float = 60
    ) -> httpx.Response:
        """Call the API once, with an idempotency key. Raises httpx.TransportError and FileNotFoundError."""
        token = (self.home / "token").read_text()
        headers = {"Authorization": f"Bearer {token}"} | ({"Idempotency-Key": key} if key else {})
        url = f"{self.url}/api/v1{path}"
        return self._client.request(method, url, json=body, headers=headers, timeout=timeout)

    def last_words(self) -> str:
        """The end of every part's log."""
        logs = sorted(self.home.glob("*.log"))
        return "\n".join(f"--- {log.name}\n{log.read_text()[-3000:]}" for log in logs)
