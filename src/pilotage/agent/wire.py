"""The wire format between pilots and their server: every document that goes over HTTP, as a record.

Pilots check messages with ``parse``. The server checks them with its own, stricter types; tests compare these
with the records here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

Pair = tuple[int, int]
"""A job's id and the number of its attempt."""
Point = tuple[float, float, float, float, float, float, float]
"""A moment of a payload: s since its start, s of CPU time so far, MB of memory at that moment; then kB so
far: read from disks, written to disks, received from the network, sent to it."""
OPEN_SCHEMES = frozenset({"file", "local", "http", "https"})
"""Schemes of storages that pilots open by URL alone, if no credentials are needed."""
HEARD = "Pilotage-Heard"
"""The header with the ``time`` of the newest answer that a pilot knows. Not a field, because servers of other
versions refuse unknown ones."""
ADDED = frozenset({"kind", "clock", "unfit"})
"""Fields that servers of version 0.1 refuse, and need not know."""
LONGEST_LOG, LOG_HEAD = 65_536, 16_384
"""Bytes of a stream that are kept, and how many of them from the beginning of a longer stream."""


@dataclass(frozen=True)
class Enrolment:
    """A pilot's first call. ``nonce`` is a secret of this agent: it lets the agent repeat the call."""

    nonce: str


@dataclass(frozen=True)
class Enrolled:
    """The pilot's own token, which replaces the one that started it."""

    token: str


@dataclass(frozen=True)
class Node:
    """The resources of a pilot's slot.

    ``cores``, ``memory`` (MB) and ``walltime`` (s left) are the slot's limits; 0 means none.
    ``machine_cores`` and ``machine_memory`` describe the machine. ``disk`` is free space in MB. ``gpus`` are
    the drivers' names of the GPUs. ``routes`` holds IPv4 and IPv6 if they lead anywhere. ``containers`` names
    the programs that run containers here. ``limited_by`` is ``cgroup v1`` or ``cgroup v2``: the controllers
    ``limits`` enforce limits, and the agent watches all others. It is ``watching`` if there are no control
    groups. ``clock`` is the node's time when it asked, in s since 1970; 0: unknown.
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
    clock: float = 0


@dataclass(frozen=True)
class Offer:
    """A request for jobs: free cores, memory in MB (0: no limit), walltime in s, and the most jobs to take.

    ``containment`` names the way payloads are contained, ``node`` the machine. ``containers`` is true if
    payloads can run in one. ``gpus`` is the number of free GPUs. ``found`` describes the node; it is sent
    once.
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
    """An input file of a job: name, bytes and checksum (empty: unknown).

    ``path`` is its path below the storage's URL; empty means its name. ``source`` names the work's source
    that it is read from remotely; empty means the queue's own storage.
    """

    name: str
    size: int
    checksum: str = ""
    path: str = ""
    source: str = ""


@dataclass(frozen=True)
class Source:
    """A storage that inputs are read from: its URL and options.

    If it ``asks``, these do not open it: the pilot asks the server for each file.
    """

    url: str
    options: Mapping[str, Any] = field(default_factory=dict)
    asks: bool = False


@dataclass(frozen=True)
class JobOrder:
    """One attempt to run. ``scratch`` is the folder for its outputs, below the storage's URL.

    ``environment`` holds variables of this job alone, beside its work's. ``stdin`` is the path in its
    directory of the file that it reads from standard input; empty: none.
    """

    job: int
    attempt: int
    scratch: str
    inputs: tuple[JobInput, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    stdin: str = ""


@dataclass(frozen=True)
class Secret:
    """A secret of the task's owner for its payloads: in a ``variable``, in a ``file`` of the folder
    ``PILOTAGE_SECRETS``, or both; empty: not there."""

    value: str = field(repr=False)
    variable: str = ""
    file: str = ""


@dataclass(frozen=True)
class Work:
    """Similar jobs of one task. A job with an empty command has already succeeded.

    ``memory`` is the memory that a job is expected to need, in MB. Limits of its payload, 0 for none:
    ``memory_limit`` and ``workdir`` (data added to its directory) in MB, ``walltime`` in s. A ``contained``
    payload sees its directory, the system, and the paths in ``readable`` and ``writable``. If there are
    ``images``, it runs in a container of the first that is available. It sees ``gpus`` GPUs. ``sources``
    names remote storages of some inputs. ``asks`` applies to the queue's own storage, as in ``Source``.
    ``outputs`` are names, patterns, and folders that end in ``/``. The payload may leave out those in
    ``optional_outputs``. With ``strict_processes`` it fails if it leaves processes behind. ``mounts`` are
    folders of its directory by the absolute paths where it sees them too. ``stdin`` is the
    text on its standard input, unless its order names a file. A payload must
    stop after ``lease`` s without an answered report, or after ``first_lease`` s if the server has answered
    none since the match. 0 means the value in the match's answer.
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
    mounts: Mapping[str, str] = field(default_factory=dict)
    stdin: str = ""
    storage_url: str = ""
    storage_options: Mapping[str, Any] = field(default_factory=dict)
    asks: bool = False
    contained: bool = True
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    gpus: int = 0
    images: tuple[str, ...] = ()
    sources: Mapping[str, Source] = field(default_factory=dict)
    secrets: tuple[Secret, ...] = ()
    jobs: tuple[JobOrder, ...] = ()
    lease: float = 0.0
    first_lease: float = 0.0


@dataclass(frozen=True)
class MatchAnswer:
    """Jobs for a pilot, and the pilot's times in s.

    ``lease`` and ``first_lease`` are for older agents and for work without its own: the shortest of all. A
    ``first_lease`` of 0 means ``lease``. ``pilot_lease`` is the lease of a pilot without work, which ends
    after twice that time without an answer; 0 means ``lease``. Reports are due every ``heartbeat``; a pilot
    ends after ``idle`` without work. ``time`` is the server's, in s since 1970; 0: unknown.
    """

    lease: float
    heartbeat: float
    idle: float
    works: tuple[Work, ...] = ()
    first_lease: float = 0.0
    pilot_lease: float = 0.0
    time: float = 0.0


@dataclass(frozen=True)
class Output:
    """A file that an attempt left in its scratch folder: its path there, bytes and checksum."""

    name: str
    size: int
    checksum: str


@dataclass(frozen=True)
class StorageFault:
    """A storage that failed to give or take a file of an attempt. The file is not the cause.

    ``source`` names a remote storage; empty means the queue's own. ``written`` is true for an output.
    """

    file: str
    source: str = ""
    written: bool = False


@dataclass(frozen=True)
class Report:
    """The state of one attempt: starting, running, done or failed. Times are in s, sizes in MB.

    ``error`` names the failure. ``max_rss`` is the most memory, ``max_workdir`` the most data added to its
    directory. ``disk_io`` is its disk I/O in kB/s per core: the recent rate while it runs, later the mean.
    ``lost_inputs`` are missing at the queue's storage, or have another size or checksum there. ``read_from``
    names the storages that a running attempt read its inputs from. ``storage_fault`` is the storage that
    failed it. ``kind`` is how it failed, of the server's kinds of failures.
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
    kind: str = "payload"


@dataclass(frozen=True)
class Log:
    """The kept part of a stream: ``stdout`` or ``stderr`` of an attempt, or ``agent`` for the pilot's own
    log.

    ``size`` is the size of the whole stream in bytes. Of a stream longer than ``LONGEST_LOG``, its first
    ``head`` bytes and its end are kept. ``data`` is the kept part, compressed with zlib and encoded in
    base64.
    """

    stream: str
    size: int
    head: int
    data: str


@dataclass(frozen=True)
class AttemptLogs:
    """The streams of an attempt, and the time line of its payload in order of time."""

    job: int
    attempt: int
    logs: tuple[Log, ...] = ()
    points: tuple[Point, ...] = ()


@dataclass(frozen=True)
class Reports:
    """A pilot's heartbeat: every attempt that it holds, and news of some of them, in order.

    ``logs`` come from attempts that end, or that a person reads. ``own_log`` is the pilot's.
    """

    holding: tuple[Pair, ...] = ()
    reports: tuple[Report, ...] = ()
    logs: tuple[AttemptLogs, ...] = ()
    own_log: Optional[Log] = None


@dataclass(frozen=True)
class Stops:
    """Attempts that the pilot has lost: it must end their payloads and delete their files.

    A person is reading the logs of the attempts in ``read``, or with ``read_own`` the pilot's own log. The
    pilot sends these with its next reports, which are due soon. From now on it reports every ``heartbeat`` s;
    0: as before. ``time`` is the server's, in s since 1970; 0: unknown.
    """

    stop: tuple[Pair, ...] = ()
    read: tuple[Pair, ...] = ()
    read_own: bool = False
    heartbeat: float = 0.0
    time: float = 0.0


@dataclass(frozen=True)
class FileRequest:
    """One file of an attempt that a pilot wants to read, or to write with ``size`` bytes.

    An input has its name and a ``source`` of its work (empty: the queue's storage). Otherwise the
    file is an output.
    """

    job: int
    attempt: int
    name: str
    source: str = ""
    size: Optional[int] = None


@dataclass(frozen=True)
class Access:
    """An address for one file, valid for a short time. If it is empty, the server itself hands on the file.

    The request needs ``headers``. ``authorities`` (PEM) replace the node's.
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
    """The full description of a job's task, for an agent that forwards it.

    ``instance`` is the name of the federation. ``grace`` is the time in s between the end of the job's lease
    and its job to another pilot.
    """

    instance: str
    spec: Mapping[str, Any]
    grace: float


@dataclass(frozen=True)
class Reason:
    """A pilot's last message: why it ends, and its own log.

    ``unfit`` is true if no job can run on its machine as it is.
    """

    reason: str
    own_log: Optional[Log] = None
    unfit: bool = False
