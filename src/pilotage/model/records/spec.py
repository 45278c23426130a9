"""Specifications that users submit: tasks, their inputs and their merge jobs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Literal

from pydantic import Field

from pilotage.model.records.inputs import Input, TaskOutputs, TaskReference
from pilotage.model.records.notifications import MOST_RECEIVERS, Notify
from pilotage.model.records.retries import AS_USUAL, Retries
from pilotage.model.records.secrets import MOST_OF_TASK, GivenSecret
from pilotage.model.records.spec_parts import MOST_MOUNTS, MergeSpec, OutputDestinations
from pilotage.model.values.parameter_bounds import MOST_ROWS
from pilotage.model.values.parameters import Parameters, row_count
from pilotage.model.values.types import (
    CLOSED,
    DESCRIBED,
    FINITE,
    Cores,
    LabelName,
    LabelText,
    Megabytes,
    MountFolder,
    MountPoint,
    Name,
    NonNegative,
    OutputDataset,
    OutputName,
    OutputPattern,
    Seconds,
    Whole,
    Word,
)

DEFAULT_SHARE = "default"
"""The global share of tasks that name none."""

JobKind = Literal["normal", "scout", "merge"]
Binding = Literal["early", "elastic", "late"]
"""How firmly a job is bound to its preferred queue: it stays there; a pilot that would end it sooner may
borrow it; or any candidate's pilot takes it (E1)."""
ModuleName = Annotated[str, Field(max_length=200, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+/:-]*$")]
"""The name of an environment module, as in ``gcc/13.2``."""

MOST_JOBS = MOST_ROWS
"""Most jobs of one task."""

MOST_PREDECESSORS = 100
"""Most tasks that one task comes after."""

SCOUTS = 10
"""Scouts of a task that gives no number."""

PLACE_FIELDS = frozenset(
    {"queues", "architecture", "sw_project", "sw_version", "nightlies", "only_tags", "min_events"}
    | {"processing_type", "working_group"}
)
"""Fields that only brokerages read, the production and the matchmaking brokerage alike."""

PRODUCTION_FIELDS = frozenset(
    {"binding", "t1_weight", "max_cores", "work_disk", "out_disk", "io_intensity", "disk_io"}
    | {"direct_access_only", "copy_inputs", "ip_connectivity", "event_service"}
)
"""Fields that only the production brokerage reads."""

SITE_FIELDS = frozenset({"stations", "site_requirements", "site_rank"})
"""Fields that only the matchmaking brokerage reads (M3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """A task as a user submits it."""

    __pydantic_config__ = CLOSED

    name: Name
    """Its name for people, which need not be unique."""
    labels: Annotated[Mapping[LabelName, LabelText], Field(max_length=20)] = field(default_factory=dict)
    """Its owner's words for finding it, such as ``{campaign: a}``; Pilotage does nothing else with them."""
    share: Name = DEFAULT_SHARE
    """The global share that it belongs to."""
    priority: Annotated[Whole, Field(ge=1, le=100_000)] = 500
    """Higher ones go first. From 800 on it is bound to the nucleus (B8), from 1000 on urgent (B27)."""
    transfer_priority: Annotated[Whole, Field(ge=1, le=100)] = 50
    """Priority of its transfers within their share, 1 to 100 (D2)."""
    transfer_sub_share: Name | Literal[""] = ""
    """Sub-share of its transfers instead of ``download`` and ``upload``. It must have a base priority
    (D6)."""
    nucleus: str = ""
    """The site that gathers the outputs; empty: they stay where they are made."""
    t1_weight: Literal[-1, 0] = 0
    """-1 keeps normal jobs at the nucleus (B25)."""
    brokerage: str = ""
    """The brokerage plugin; empty: the one of the submitter's VO."""
    queues: Annotated[tuple[Name, ...], Field(max_length=2000)] = ()
    """Queues that it is restricted to (B2); none: all."""
    binding: Binding | Literal[""] = ""
    """``early``: jobs stay at the chosen queue. ``elastic``: a pilot of another candidate may borrow a job
    that would end sooner there. ``late``: any candidate's pilot takes them. Empty: the federation's choice
    for the VO (E1)."""

    stations: Annotated[tuple[Name, ...], Field(max_length=100)] = ()
    """A site must have one of these stations, for the matchmaking brokerage; none: any site (M3)."""
    site_requirements: Annotated[str, Field(max_length=4000)] = ""
    """ClassAd expression that a site must meet, such as ``TARGET.MaxMemory >= 4000``, for the matchmaking
    brokerage (M3, M4)."""
    site_rank: Annotated[str, Field(max_length=4000)] = ""
    """ClassAd expression. Sites with its highest value are drawn; none: all are equal (M3, M4)."""

    command: tuple[str, ...] = ()
    """The program and its arguments; none: the payload is empty and succeeds immediately."""
    stdin: str = ""
    """What the payload reads from standard input: the name of a payload file or of an input that every job
    has, ``{input}`` for the one input of each job, or a text, which has a line break. Empty: nothing."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables for the payload."""
    secrets: Annotated[tuple[GivenSecret, ...], Field(max_length=MOST_OF_TASK)] = ()
    """Secrets of the owner for the payload, by name: ``[TOKEN]`` is the variable ``TOKEN``. ``{name: token,
    as: API_TOKEN}`` gives the variable another name, ``{name: token, file: token.txt}`` makes a file
    instead. ``pilotage secrets set NAME`` keeps one."""
    payload_files: Mapping[OutputName, str] = field(default_factory=dict)
    """Text files to put into the payload's directory, by name."""
    mounts: Annotated[Mapping[MountPoint, MountFolder], Field(max_length=MOST_MOUNTS)] = field(
        default_factory=dict
    )
    """Folders of the job's directory that its payload also sees at absolute paths, such as ``{/data: data}``.
    They are empty before the payload starts. Nothing is written at these paths of the node."""
    parameters: Parameters = ()
    """One job a row: a list of rows, ``- {sample: a, k: 21}``, a grid, ``sample: [a, b]`` with
    ``k: [21, 31]``, or for ``pilotage submit`` a CSV file. ``{sample}`` stands for the row's value in
    ``command``, ``environment`` and ``outputs``, where other braces are doubled then. With inputs, every row
    is run on each group of ``files_per_job`` of them."""
    inputs: tuple[Input, ...] = ()
    """Files to read, patterns of them, datasets, or outputs of tasks, ``{task: align, match: "*.bam"}``."""
    after: Annotated[tuple[TaskReference, ...], Field(max_length=MOST_PREDECESSORS)] = ()
    """Tasks that must end before this one starts, besides those whose outputs it reads: names in its
    workflow, or numbers or names of tasks of yours."""
    on: Literal["success", "end"] = "success"
    """When it starts: after these tasks finished, or however they ended."""
    outputs: tuple[OutputPattern, ...] = ()
    """Files that each job leaves in its directory: names, patterns such as ``results/*.root``, and
    folders, such as ``plots/``. A pattern or folder must give at least one file. ``{index}`` stands for the
    job's place in the task, here and in ``command`` and ``environment``; so do ``{seed}`` and
    ``{first_event}`` for these."""
    optional_outputs: tuple[OutputPattern, ...] = ()
    """Those of ``outputs``, in the same spelling, that a job may leave out."""
    destinations: OutputDestinations = field(default_factory=dict)
    """Places for some of ``outputs``, in the same spelling, of a task of one job: ``{out.txt: {storage:
    lab-disk, path: results/out.txt}}``. A file that is there is replaced. The storage's ``delivery_folders``
    must allow it. Others go to the nucleus, or stay at their queue's storage."""
    strict_processes: bool = False
    """Whether a job fails if its command ends while processes that it started still run. They are killed in
    any case. Without this, the outputs are kept, and standard error has a warning."""
    merge: MergeSpec | None = None
    """The jobs that merge many outputs into one."""
    output_dataset: OutputDataset = ""
    """Dataset that gathers the outputs, or their merged form. A name in the owner's own scope gets its
    next version when the task has finished. ``CATALOGUE~SCOPE:NAME`` names a dataset of an external
    catalogue, which is closed then. Empty: none."""
    files_per_job: Annotated[Whole, Field(ge=1, le=2**31 - 1)] = 1
    """Input files that one job reads."""
    jobs: Annotated[Whole, Field(ge=1, le=MOST_JOBS)] = 1
    """Number of jobs of a task without inputs."""
    events_per_job: Annotated[Whole, Field(ge=1, le=2**31 - 1)] = 1
    """Events that one job processes."""
    seed: Annotated[Whole, Field(ge=0, le=2_000_000_000)] | None = None
    """``PILOTAGE_SEED`` of the first job; each next one's is higher by 1. None: seeds that other tasks do not
    have."""
    max_attempts: Annotated[Whole, Field(ge=1, le=100)] = 3
    """Attempts of a job before it fails for good. Failures that are their place's fault do not count (F2).
    With 1, no payload begins a second time."""
    retries: Retries = AS_USUAL
    """Factors for the limits of the next attempt."""
    scouts: Annotated[Whole, Field(ge=0, le=1000)] = SCOUTS
    """Jobs that run first, to measure what the others need; 0: none. There are none either without a
    command, or if the task has at most twice as many jobs."""

    notify: Annotated[tuple[Notify, ...], Field(max_length=MOST_RECEIVERS)] = ()
    """Who gets a message when it ends, when its first job fails for good, and when it is held; none: the
    receivers in the owner's settings."""

    cores: Cores = 1
    """Cores of a job; 0: those of the queue."""
    max_cores: Cores = 0
    """Most cores of a queue; 0: no limit (B13)."""
    gpus: Cores = 0
    """GPUs of a job, which sees only these. If 0, ``&`` in ``architecture`` requests one. A queue whose
    slots have fewer refuses the job (B14)."""
    ram: Megabytes = 0
    """MB, per core unless ``ram_unit`` is MB (B15)."""
    ram_unit: Literal["MBPerCore", "MB"] = "MBPerCore"
    """The unit of ``ram``: per core, or per job."""
    base_ram: Megabytes = 0
    """Further MB, independent of the cores (B15)."""
    cpu_time: NonNegative = 0
    """HS23 s per event (B21)."""
    cpu_efficiency: Annotated[float, Field(ge=0.001, le=1), FINITE] = 0.9
    """Fraction of the time that the processor is used (B21)."""
    base_time: Seconds = 0
    """s in addition to the time for events (B21)."""
    walltime: Seconds = 0
    """s, used directly if ``cpu_time`` is 0 (B21)."""
    work_disk: Megabytes = 0
    """MB of the work directory in addition to inputs and outputs (B17)."""
    out_disk: Megabytes = 0
    """MB of output per event (B17)."""
    io_intensity: NonNegative = 0
    """kB/s of I/O, which limits the moving of input (B11)."""
    disk_io: NonNegative = 0
    """kB/s of disk I/O (B12)."""
    direct_access_only: bool = False
    """Whether inputs can only be read from the storage, without a copy (B16)."""
    copy_inputs: bool = False
    """Whether inputs are copied even if the queue can read them from the storage (B17)."""
    ip_connectivity: LabelText = ""
    """``full``, ``http`` or ``none``, followed by ``#IPv4`` or ``#IPv6`` if it must be one (B22)."""
    architecture: LabelText = ""
    """``platform@base#arch-vendor-instr&vendor-model``, every part optional (B14)."""
    sw_project: LabelText = ""
    """Project of the release that it uses (B14)."""
    sw_version: LabelText = ""
    """Version of the release that it uses (B14)."""
    nightlies: bool = False
    """Whether the release is a nightly build (B14)."""
    container_name: Word = ""
    """Container image to run in: a path, or a name from a queue's tags or a registry (B14)."""
    only_tags: bool = False
    """Whether the image must be among a queue's tags (B14)."""
    conda: Word = ""
    """Folder of a conda environment on the nodes, whose programs come first in the search path."""
    modules: Annotated[tuple[ModuleName, ...], Field(max_length=50)] = ()
    """Environment modules that are loaded before the command, in this order."""
    event_service: bool = False
    """Whether it is event service, which only some queues accept (B23)."""
    min_events: Annotated[Whole, Field(ge=0, le=2**31 - 1)] = 0
    """Fewest events of a job if their number varies up to ``events_per_job``; 0: it does not vary."""
    processing_type: LabelText = ""
    """Kind of processing, for fair-share policies (B10)."""
    working_group: LabelText = ""
    """Working group, for fair-share policies (B10)."""
    workflow: LabelText = ""
    """Kind of work. It selects the heartbeat time-out of its jobs (T)."""
    private_pilots: bool = False
    """Whether only pilots of the owner run it (P7)."""
    force_generic: bool = False
    """Whether all pilots submitted for it are generic (P7)."""
    submit_pools: Annotated[tuple[Name, ...], Field(max_length=20)] = ()
    """Submit pools for its pilots; none: the default ones (P5)."""

    @property
    def is_resolved(self) -> bool:
        """Return whether no input is still to be made by another task."""
        return not any(isinstance(item, TaskOutputs) for item in self.inputs)

    def for_job(self, kind: JobKind) -> "TaskSpec":
        """Return the same, with a merge job's requests if the job is one."""
        if kind != "merge" or self.merge is None:
            return self
        merge = self.merge
        return replace(
            self,
            command=merge.command,
            outputs=merge.outputs,
            optional_outputs=(),
            stdin="",
            cores=1,
            gpus=0,
            architecture=self.architecture.partition("&")[0],
            ram=self.ram if merge.ram is None else merge.ram,
            walltime=self.walltime if merge.walltime is None else merge.walltime,
            cpu_time=self.cpu_time if merge.walltime is None else 0,
            event_service=False,
            min_events=0,
        )

    @property
    def gpus_used(self) -> int:
        """Return the GPUs that a job gets."""
        return self.gpus or int("&" in self.architecture)

    @property
    def planned_jobs(self) -> int:
        """Return the number of jobs that it is split into, without merge jobs."""
        if not self.parameters:
            return self.groups_of_inputs if self.inputs else self.jobs
        return row_count(self.parameters) * max(1, self.groups_of_inputs)

    @property
    def groups_of_inputs(self) -> int:
        """Return the number of groups of ``files_per_job`` inputs; 0 without inputs."""
        return -(-len(self.inputs) // self.files_per_job)

    @property
    def least_events(self) -> int:
        """Return the smallest number of events of a job."""
        return self.min_events or self.events_per_job

    @property
    def memory(self) -> float:
        """Return the MB that a job may use on all its cores together."""
        return self.fixed_memory + self.memory_per_core * max(1, self.cores)

    @property
    def fixed_memory(self) -> float:
        """Return the MB that a job may use independent of its cores: all of them if ``ram`` is per job."""
        return self.ram if self.ram_unit == "MB" else self.base_ram

    @property
    def memory_per_core(self) -> float:
        """Return the MB that a job may use per core."""
        return 0.0 if self.ram_unit == "MB" else self.ram

    @property
    def ram_units(self) -> int:
        """Return the factor on ``ram``: the cores, or 1 if it is per job."""
        return 1 if self.ram_unit == "MB" else max(1, self.cores)


RELEASE = tuple(field.name for field in fields(TaskSpec) if field.name.startswith("sw_"))
"""The fields of the release that a task uses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerJobs:
    """Live jobs of an owner, as quotas count them (T)."""

    __pydantic_config__ = DESCRIBED

    owner: str
    """The owner."""
    vo: str
    """The VO."""
    group: str
    """The group in it."""
    live: int
    """Jobs that count: neither throttled, nor waiting for a merge."""
    throttled: int = 0
    """Jobs beyond a quota."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveWork:
    """Unfinished tasks, and all of their jobs and input files."""

    __pydantic_config__ = DESCRIBED

    tasks: int = 0
    """Tasks."""
    jobs: int = 0
    """Their jobs, including future ones."""
    files: int = 0
    """Their input files, counted per task."""

    @classmethod
    def of(cls, spec: TaskSpec) -> "LiveWork":
        """Return the work of one task."""
        return cls(tasks=1, jobs=spec.planned_jobs, files=len(spec.inputs))

    @classmethod
    def total(cls, parts: Iterable["LiveWork"]) -> "LiveWork":
        """Return the sum of the parts."""
        all_ = tuple(parts)
        return cls(
            tasks=sum(part.tasks for part in all_),
            jobs=sum(part.jobs for part in all_),
            files=sum(part.files for part in all_),
        )

    def is_within(self, limit: "LiveWork") -> bool:
        """Return whether no part of it exceeds the limit."""
        return self.tasks <= limit.tasks and self.jobs <= limit.jobs and self.files <= limit.files

    def with_task(self, spec: TaskSpec) -> "LiveWork":
        """Return the same with one more task."""
        return self.total((self, self.of(spec)))

    def without_task(self, spec: TaskSpec) -> "LiveWork":
        """Return the same with one task less."""
        return replace(
            self,
            tasks=self.tasks - 1,
            jobs=self.jobs - spec.planned_jobs,
            files=self.files - len(spec.inputs),
        )
