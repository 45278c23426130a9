"""The wire format between pilots and their server: every document that goes over HTTP, as a record.

Pilots check what they receive with :func:`~pilotage.agent.parsing.parse`; the server checks what pilots send
with its own stricter types, which its tests compare with these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

Pair = tuple[int, int]
"""A job's id and the number of its attempt."""
Point = tuple[float, float, float, float, float, float, float]
"""A moment of a payload: s since its start, s of CPU time so far, MB of memory then; kB so far: read from
disks, written to them, received from the network and sent to it."""
OPEN_SCHEMES = frozenset({"file", "local", "http", "https"})
"""Storages that pilots open by their URL, where no credentials are needed."""
LONGEST_LOG, LOG_HEAD = 65_536, 16_384
"""Bytes that are kept of a stream, and how many of them from its beginning where it was longer."""


@dataclass(frozen=True)
class Enrolment:
    """A pilot's first call. ``nonce`` is a secret of this agent: with it the call can be made again."""

    nonce: str


@dataclass(frozen=True)
class Enrolled:
    """The pilot's own token, which takes the place of the one that it came with."""

    token: str


@dataclass(frozen=True)
class Node:
    """The resources that a pilot found in its slot.

    ``cores``, ``memory`` (MB) and ``walltime`` (s left) are what it is confined to, 0 for not at all;
    ``machine_cores`` and ``machine_memory`` what the machine has. ``disk`` is free, in MB. ``gpus`` are the
    names by which drivers know them, ``routes`` IPv4 and IPv6 where these lead anywhere, ``containers`` the
    programs that run containers here. Payloads are ``limited_by`` ``cgroup v1`` or ``cgroup v2``, by its
    controllers ``limits``, and by ``watching`` as to all else.
    """

    cores: int = 0
    memory: float = 0
    walltime: float = 0
    disk: float = 0
    gpus: tuple[str, ...] = ()
    containers: tuple[str, ...] = ()
    routes: tuple[str, ...] = ()
    machine_cores: int = 0
    machine_memory: float = 0
    system: str = ""
    python: str = ""
    limited_by: str = ""
    limits: tuple[str, ...] = ()


@dataclass(frozen=True)
class Offer:
    """A request for jobs: free cores, memory in MB (0: no limit) and walltime in s; most jobs to take.

    ``containment`` names the way in which payloads are kept from everything that is not their own, ``node``
    the machine; ``containers`` tells whether they can run in one. ``gpus`` are free. What was ``found`` of
    the node is told once.
    """

    cores: int
    memory: float
    walltime: float
    max_jobs: int
    containment: str = ""
    node: str = ""
    gpus: int = 0
    containers: bool = False
    found: Optional[Node] = None


@dataclass(frozen=True)
class JobInput:
    """A file that a job reads, by name: bytes, and checksum (empty: unknown).

    ``path`` is where it lies below the storage's URL; empty: at its name. ``source`` names one of the work's
    sources where it is read from afar; empty: it is at the queue's own storage.
    """

    name: str
    size: int
    checksum: str = ""
    path: str = ""
    source: str = ""


@dataclass(frozen=True)
class Source:
    """A storage that files are read from: its URL and options.

    Where it ``asks``, it cannot be opened by these alone: the pilot asks the server for each file.
    """

    url: str
    options: Mapping[str, Any] = field(default_factory=dict)
    asks: bool = False


@dataclass(frozen=True)
class JobOrder:
    """One attempt to run; ``scratch`` is the folder for its outputs, below the storage's URL."""

    job: int
    attempt: int
    scratch: str
    inputs: tuple[JobInput, ...] = ()


@dataclass(frozen=True)
class Work:
    """Like jobs of one task. An empty command is a job that has succeeded already.

    ``memory`` is the MB that a job is expected to need. Limits on its payload, 0 for none: ``memory_limit``
    and ``workdir`` (what it adds to its directory) in MB, ``walltime`` in s. Where it is ``contained``, it
    sees its directory, the system, and the paths in ``readable`` and ``writable``. It runs in a container of
    the first of ``images`` that can be had, where there are any, and sees ``gpus`` GPUs. Some inputs are read
    from ``sources`` elsewhere, by name; ``asks`` says of the queue's own storage what it says of these.
    ``outputs`` are names, patterns, and folders that end in ``/``, of which the payload may leave out those
    in ``optional_outputs``. With ``strict_processes`` it fails where it leaves processes behind.
    A payload must stop after ``lease`` s without an answered report, and after
    ``first_lease`` s where none was answered since the job was given; 0: as the answer of the match says.
    """

    task: int
    command: tuple[str, ...]
    kind: str = "normal"
    environment: Mapping[str, str] = field(default_factory=dict)
    payload_files: bool = False
    cores: int = 1
    memory: float = 0
    memory_limit: float = 0
    walltime: float = 0
    workdir: float = 0
    outputs: tuple[str, ...] = ()
    optional_outputs: tuple[str, ...] = ()
    strict_processes: bool = False
    storage_url: str = ""
    storage_options: Mapping[str, Any] = field(default_factory=dict)
    asks: bool = False
    contained: bool = True
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    gpus: int = 0
    images: tuple[str, ...] = ()
    sources: Mapping[str, Source] = field(default_factory=dict)
    jobs: tuple[JobOrder, ...] = ()
    lease: float = 0.0
    first_lease: float = 0.0


@dataclass(frozen=True)
class MatchAnswer:
    """Jobs for a pilot, and its times in s.

    ``lease`` and ``first_lease`` hold for work that says none itself: the shortest of all, for agents that
    know no others; a ``first_lease`` of 0 is the same. ``pilot_lease`` is that of a pilot without work, which
    ends after twice that without an answer; 0: ``lease``. Reports are due every ``heartbeat``; a pilot ends
    after ``idle`` without work.
    """

    lease: float
    heartbeat: float
    idle: float
    works: tuple[Work, ...] = ()
    first_lease: float = 0.0
    pilot_lease: float = 0.0


@dataclass(frozen=True)
class Output:
    """A file that an attempt left in its scratch folder, with its path there: bytes, checksum."""

    name: str
    size: int
    checksum: str


@dataclass(frozen=True)
class StorageFault:
    """A storage that failed an attempt, through no fault of the file, which it did not give or take.

    ``source`` names it where the file is read from afar; empty: it is the queue's own. An output is
    ``written``.
    """

    file: str
    source: str = ""
    written: bool = False


@dataclass(frozen=True)
class Report:
    """The state of one attempt: starting, running, done or failed; times in s, sizes in MB.

    ``error`` names the failure. ``max_rss`` and ``max_workdir`` are the most memory and the most that the
    payload added to its directory, ``disk_io`` its disk I/O in kB/s per core: of late where it runs, else the
    mean. ``lost_inputs`` are missing at the queue's storage, or differ there in size or checksum. Inputs were
    read from the storages ``read_from`` when it runs; ``storage_fault`` is what it failed by.
    """

    job: int
    attempt: int
    state: str
    error: str = ""
    exit_code: Optional[int] = None
    cpu_seconds: float = 0
    wall_seconds: float = 0
    max_rss: float = 0
    max_workdir: float = 0
    disk_io: Optional[float] = None
    outputs: tuple[Output, ...] = ()
    lost_inputs: tuple[str, ...] = ()
    read_from: tuple[str, ...] = ()
    storage_fault: Optional[StorageFault] = None


@dataclass(frozen=True)
class Log:
    """The kept part of a stream: ``stdout`` or ``stderr`` of an attempt, ``agent`` of a pilot itself.

    ``size`` is the bytes of the whole stream. Where it was longer than :data:`LONGEST_LOG`, its first
    ``head`` bytes are kept, and the last of it. ``data`` is base64 of all that is kept, compressed by zlib.
    """

    stream: str
    size: int
    head: int
    data: str


@dataclass(frozen=True)
class AttemptLogs:
    """The streams of an attempt, and the time line of its payload: points of growing time."""

    job: int
    attempt: int
    logs: tuple[Log, ...] = ()
    points: tuple[Point, ...] = ()


@dataclass(frozen=True)
class Reports:
    """A pilot's heartbeat: every attempt that it holds, and news of some of them, in order.

    ``logs`` are those of attempts that end, and of those that somebody reads now; ``own_log`` is the pilot's.
    """

    holding: tuple[Pair, ...] = ()
    reports: tuple[Report, ...] = ()
    logs: tuple[AttemptLogs, ...] = ()
    own_log: Optional[Log] = None


@dataclass(frozen=True)
class Stops:
    """Attempts that are not the pilot's any more: their payloads must end, their files go.

    Somebody reads the logs of the attempts in ``read`` now, and with ``read_own`` the pilot's own: they are
    to come along with the next reports, which are due soon.
    """

    stop: tuple[Pair, ...] = ()
    read: tuple[Pair, ...] = ()
    read_own: bool = False


@dataclass(frozen=True)
class FileRequest:
    """One file of an attempt that a pilot wants to read, or to write with its ``size`` in bytes.

    It is an input by its name, at a ``source`` of its work (empty: the queue's storage), or an output.
    """

    job: int
    attempt: int
    name: str
    source: str = ""
    size: Optional[int] = None


@dataclass(frozen=True)
class Access:
    """An address for one file, good for a short time; an empty one: the server itself hands the file on.

    ``headers`` go along with the request, ``authorities`` (PEM) are trusted in place of the node's.
    """

    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    authorities: str = ""


@dataclass(frozen=True)
class PayloadFiles:
    """Files of a task to write beside the inputs: text by name."""

    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Specification:
    """The whole of what a job's task asks for, as a document, for an agent that hands it on.

    ``instance`` is the name of the federation. ``grace`` is s from the end of the job's lease until it is
    given to others.
    """

    instance: str
    spec: Mapping[str, Any]
    grace: float


@dataclass(frozen=True)
class Reason:
    """A pilot's last words: the reason for its end, and its own log."""

    reason: str
    own_log: Optional[Log] = None
