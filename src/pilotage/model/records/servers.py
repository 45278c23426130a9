"""Server processes that share a store: their names, states and activity."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pilotage.model.values.types import DESCRIBED

ServerState = Literal["live", "silent", "ended"]
"""Live: it sends heartbeats. Silent: its lease is over, so others took over. Ended: it left by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopPass:
    """The last pass of a loop: when it ended (s since 1970 UTC), its duration in s, and its error."""

    ended: float
    seconds: float
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerActivity:
    """A server's report with each heartbeat.

    ``passes`` are the last passes by loop. ``lacks`` names plugins, adapters and movers that it leaves to
    others, each with the reason.
    """

    passes: Mapping[str, LoopPass] = field(default_factory=dict)
    lacks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """A time when pilots had no server to call, or the pilots of one queue could reach none."""

    __pydantic_config__ = DESCRIBED

    began: float
    """When the last heartbeat of any server was, in s since 1970 UTC."""
    ended: float
    """When the next one came, in s since 1970 UTC."""
    queue: str = ""
    """The queue whose tunnel was closed then; empty: it concerns all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProcess:
    """One start of a server. ``name`` is random, and no other start ever has it.

    ``process`` is its name on its host, ``url`` the address of its API, if it has one, ``loops`` are the
    names of its loops. Times are in s since 1970 UTC: ``started``, ``seen`` at its last heartbeat, and
    ``gone`` when it ended or others found its lease over, in that case after ``silent_for`` s without a
    heartbeat.
    """

    name: str
    version: str
    host: str
    process: str
    url: str
    loops: tuple[str, ...]
    started: float
    seen: float
    gone: float | None = None
    silent_for: float | None = None
    report: ServerActivity = field(default_factory=ServerActivity)

    @property
    def state(self) -> ServerState:
        """Return whether it lives."""
        if self.gone is None:
            return "live"
        return "ended" if self.silent_for is None else "silent"
