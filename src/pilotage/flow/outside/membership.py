"""Membership: this process writes heartbeats into the store, and watches those of the others.

No clocks are compared. Each server counts, on its own steady clock, for how long another's heartbeat has not
changed. If a server could not look, because it was frozen or the database was away, it starts counting
again. So no server seems silent after a minute without the database.
"""

import logging
import secrets
import socket
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

from pilotage.flow.background import BackgroundService
from pilotage.flow.outside.host_processes import HostProcesses
from pilotage.model.records.servers import ServerActivity, ServerProcess
from pilotage.ports.presence import Presence
from pilotage.release import full_version
from pilotage.store import ServerBeat, Store, outage
from pilotage.store.clock import steady_time

log = logging.getLogger(__name__)


class BeatTimes(NamedTuple):
    """Seconds between two ``beats``, and seconds of silence until other servers end its ``lease``.

    A server ends its lease itself after ``own_lease``, so it stops before others begin.
    """

    beats: float
    own_lease: float
    lease: float

    @property
    def takeover(self) -> float:
        """Return the longest time in s from a server's last heartbeat until others know that it is silent."""
        return self.lease + 2 * self.beats


ON_POSTGRESQL = BeatTimes(beats=0.75, own_lease=2.25, lease=3.0)
ON_SQLITE = BeatTimes(beats=5.0, own_lease=15.0, lease=20.0)
"""All servers of an SQLite file run on one machine, and see each other's end there. So beats may be rare."""


def times_of(store: Store) -> BeatTimes:
    """Return the times of leases of a store's servers."""
    return store.database.dialect.choose(ON_SQLITE, ON_POSTGRESQL)


def new_name() -> str:
    """Return a random name for one start of a server."""
    return secrets.token_hex(5)


def this_process(store: Store, name: str, loops: Sequence[str], url: str = "") -> ServerProcess:
    """Return this process as a server of a store, with its loops and the address of its API, if any."""
    now = store.clock()
    return ServerProcess(
        name=name,
        version=full_version(),
        host=socket.gethostname(),
        process=HostProcesses().name,
        url=url,
        loops=tuple(loops),
        started=now,
        seen=now,
    )


@dataclass(slots=True)
class _Watched:
    """The last heartbeat seen of a server, and since when it has not changed."""

    last: ServerBeat
    since: float


def _rank(server: str, loop: str) -> tuple[int, str]:
    """Return a server's rank for a loop, which every server computes alike."""
    return zlib.crc32(f"{server} {loop}".encode()), server


@contextmanager
def joined(url: str, loops: Sequence[str]) -> Iterator[tuple[Store, "Membership"]]:
    """Open a store, and be one of its servers until the block ends."""
    name = new_name()
    with closing(Store.open(url, server=name)) as store:
        member = Membership(store, this_process(store, name, loops))
        member.start()
        try:
            yield store, member
        finally:
            member.stop()


class Membership(BackgroundService):
    """This server among the servers of its store. It implements ``Presence``.

    A thread calls ``on_gone`` after it finds that others are gone. ``report`` returns this server's activity;
    it may take long, because a separate thread calls it.
    """

    def __init__(
        self,
        store: Store,
        server: ServerProcess,
        *,
        on_gone: Sequence[Callable[[], None]] = (),
        report: Callable[[], ServerActivity] = ServerActivity,
        host: Presence | None = None,
        steady: Callable[[], float] = steady_time,
    ) -> None:
        self.times = times_of(store)
        threads = {"heartbeat": self._beats, "server-report": self._reports}
        super().__init__(threads, patience=self.times.beats)
        self._store = store
        self.on_gone: list[Callable[[], None]] = list(on_gone)
        self.report = report
        self._host = host or HostProcesses()
        self.server = server
        self._steady = steady
        self._lock = threading.Lock()
        self._watched: dict[str, _Watched] = {}
        self._looked = steady()
        self._held_until = float("-inf")
        self._term = 0
        self._activity = ServerActivity()

    @property
    def name(self) -> str:
        """The random name of this start."""
        return self.server.name

    @property
    def term(self) -> int | None:
        """See ``Presence``."""
        with self._lock:
            return self._term if self._steady() < self._held_until else None

    def gone(self, names: Iterable[str]) -> frozenset[str]:
        """See ``Presence``.

        Servers that have left the store's list are gone: each joins before it takes anything. Only servers
        of versions before 0.1.0 have names that are not in the list; ``host`` knows whether they run.
        """
        other_servers = {name for name in names if name and name != self.name}
        ended = set(self._host.gone(other_servers))
        listed = {name for name in other_servers - ended if " " not in name}
        with self._lock:
            beats = {name: self._watched[name].last for name in listed if name in self._watched}
        if unknown := listed - beats.keys():
            beats |= {beat.name: beat for beat in self._store.servers.named(unknown)}
        return frozenset(ended | {name for name in listed if self._is_gone(beats.get(name))})

    def has_turn(self, loop: str) -> bool:
        """Return whether this server, of all that have a loop, is woken for it. Another one is if it ends."""
        with self._lock:
            beats = [watched.last for watched in self._watched.values()]
        others = [beat.name for beat in beats if beat.gone is None and loop in beat.loops.split()]
        return all(_rank(self.name, loop) > _rank(other, loop) for other in others)

    def _is_gone(self, last: ServerBeat | None) -> bool:
        return last is None or last.gone is not None or bool(self._host.gone([last.process]))

    def start(self) -> None:
        """Join the store's servers, and begin to send heartbeats."""
        self._note_absence()
        self._store.servers.join(self.server)
        self.beat()
        super().start()

    def stop(self) -> None:
        """Leave, so that others take over without waiting."""
        super().stop()
        try:
            self._store.servers.leave(self.name, self._store.clock())
        except Exception as error:
            log.warning("could not say that this server ends: %s", outage(error) or error)

    def beat(self) -> None:
        """Write a heartbeat, and look at the others. Raises the database's error."""
        begun = self._steady()
        with self._lock:
            lost = begun >= self._held_until
            report = self._activity
        if lost:
            self._note_absence()
        beats = self._store.servers.beat(self.server, report, self._store.clock())
        with self._lock:
            if lost:
                self._term += 1
            self._held_until = begun + self.times.own_lease
            silent = self._silent(beats, begun)
        self._tell(next((server for server in beats if server.name == self.name), None))
        for server, waited in silent:
            self._cut_off(server, waited)
        if silent:
            for tell in self.on_gone:
                tell()

    def _note_absence(self) -> None:
        """If no server was there until now, note since when: pilots could call none."""
        self._store.absences.note(self._store.clock(), self.times.lease)

    def _silent(self, beats: Sequence[ServerBeat], now: float) -> list[tuple[ServerBeat, float]]:
        """Return the servers that are newly known to be gone, with the seconds of their silence."""
        if now - self._looked > 2 * self.times.beats:
            # This server has not looked since, so it does not know whether they were silent.
            for watched in self._watched.values():
                watched.since = now
        self._looked = now
        silent = []
        before, self._watched = self._watched, {}
        for server in beats:
            if server.name == self.name:
                continue
            last_watch = before.get(server.name)
            stands = last_watch is not None and last_watch.last.beat == server.beat
            self._watched[server.name] = watched = _Watched(
                server, last_watch.since if last_watch and stands else now
            )
            waited = now - watched.since
            has_left = server.gone is not None and last_watch is not None and last_watch.last.gone is None
            over = server.gone is None and (waited >= self.times.lease or self._is_gone(server))
            if over or has_left:
                silent.append((server, waited))
        return silent

    def _cut_off(self, server: ServerBeat, waited: float) -> None:
        """Record that a server is silent, and end its database sessions with their locks."""
        if server.gone is not None or not self._store.servers.found_silent(
            server, self._store.clock(), waited
        ):
            return
        with self._lock:
            self._watched[server.name].last = replace(server, gone=self._store.clock())
        if waited < self.times.lease:
            log.warning("server %s stopped without notice: others take over its work", server.name)
        else:
            log.warning(
                "server %s has been silent for %.1f s: others take over its work", server.name, waited
            )
        try:
            self._store.servers.cut_off(server.name)
        except Exception as error:
            log.warning("the sessions of server %s stay until they time out: %s", server.name, error)

    def _tell(self, before: ServerBeat | None) -> None:
        if before is not None and before.gone is not None:
            log.warning("this server was silent: others have taken over what it did")

    def _beats(self) -> None:
        while not self._stopping.wait(self.times.beats):
            try:
                self.beat()
            except Exception as error:
                log.warning("could not write a heartbeat: %s", outage(error) or repr(error))

    def _reports(self) -> None:
        while True:
            try:
                activity = self.report()
            except Exception as error:
                log.warning("could not tell what this server does: %s", outage(error) or repr(error))
            else:
                with self._lock:
                    self._activity = activity
            if self._stopping.wait(self.times.beats):
                return
