"""Slurm by its commands: ``sbatch`` with arrays, one ``squeue`` for all jobs, ``sacct`` if available."""

import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Annotated, ClassVar

from pydantic import Field

from pilotage.adapters.computing.batch import BatchElement, BatchJob, Profile, Request, SubmitOptions
from pilotage.adapters.computing.batch.profile import COUNTED, PRIVATE
from pilotage.adapters.computing.options import MaybeWord
from pilotage.model.values.durations import slurm_seconds
from pilotage.ports.computing import ElementState, Excess, PilotSize

_WAITING = "PENDING CONFIGURING REQUEUED REQUEUE_FED POWER_UP_NODE EXPEDITING"
_STUCK = "REQUEUE_HOLD SPECIAL_EXIT RESV_DEL_HOLD LAUNCH_FAILED RECONFIG_FAIL"
_RUNNING = "RUNNING COMPLETING RESIZING SIGNALING STAGE_OUT STOPPED SUSPENDED"
_ENDED = """
BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED REVOKED TIMEOUT
"""
STATES: Mapping[str, ElementState] = {
    **dict.fromkeys(_WAITING.split(), "waiting"),
    **dict.fromkeys(_STUCK.split(), "stuck"),
    **dict.fromkeys(_RUNNING.split(), "running"),
    **dict.fromkeys(_ENDED.split(), "ended"),
}
"""Slurm's states. Any other is unknown."""

END_DOUBT = 600.0
"""s of silence after which a pilot on a node that Slurm cannot reach has ended.

``--no-requeue`` lets Slurm start none again. A node that is cut off from Slurm alone reaches the server."""

EXCESSES: Mapping[str, Excess] = {"OUT_OF_MEMORY": "memory", "TIMEOUT": "walltime"}
"""States of jobs that Slurm ended for a limit."""

_HELD = re.compile(
    r"jobheld(user|admin)|jobholdmaxrequeue|reservationdeleted|resv(deleted|invalid)|.*requeued.*held.*|badconstraints|dependencyneversatisfied|invalid(account|qos)|"
    r"launchfailed.*|qosnotallowed|accountnotallowed|"
    r"partition(timelimit|nodelimit)|maxmemperlimit|(qos|assoc)max\w*perjob(limit)?|qosmin\w+"
)
"""Reasons, in lower case without blanks and ``_``, of a pending job that will not start by itself."""

_TOO_LARGE = (
    ("time", "lower pilot_walltime of the queue's computing element"),
    ("walldur", "lower pilot_walltime of the queue's computing element"),
    ("minutes", "lower pilot_walltime, or cores, of the queue's pilots"),
    ("cpu", "lower cores of the queue's pilots"),
    ("node", "lower cores or memory of the queue's pilots, or name another partition"),
    ("mem", "lower memory of the queue's pilots"),
    ("gres", "lower option gres"),
    ("badconstraints", "lower cores or memory of the queue's pilots, or correct option constraint"),
)
"""Remedies for limits of one job, by a part of the reason in the form of ``_HELD``."""

NODES = ("sinfo", "--noheader", "--exact", "--format=%P|%a|%l|%t|%D|%c|%m")
"""Groups of equal nodes: partition, availability, time limit, state, count, processors, memory in MB."""

GONE = ("down", "drain", "drng", "drained", "draining", "fail", "failg", "inval", "unk", "unknown")
"""States of nodes that accept nothing until administrators mend them."""

POPULATION = f"""
partition=$1
[ -n "$partition" ] || partition=$(sinfo --noheader --format=%P | sed -n 's/\\*$//p')
scontrol show config 2>/dev/null | grep -qi '^PrivateData *=.*jobs' && echo "{PRIVATE}"
states=$(squeue --noheader --array --partition="$partition" --format=%T) || exit 1
{COUNTED}
"""
"""A shell script that counts the jobs of a partition, or of the default one, by state."""

COLUMNS = (
    ("JobArrayID", 60),
    ("State", 20),
    ("exit_code", 12),
    ("Partition", 60),
    ("Reason", 60),
    ("Name", 300),
)
"""Columns of a listing with their widths: names and reasons may contain any separator."""

REMEDIES = (
    (
        "account/partition",
        "correct account or partition of the queue's options, or ask the site for an account there",
    ),
    ("invalid partition", "correct option partition: `sinfo` lists those there are"),
    ("invalid account", "correct option account: `sacctmgr show assoc user=$USER` lists the account's"),
    ("qos", "correct option qos, or wait where its limit is reached: `sacctmgr show qos` lists them"),
    ("invalid generic resource", "correct option gres: `sinfo -o %G` lists those there are"),
    ("invalid feature", "correct option constraint: `sinfo -o %f` lists those there are"),
    (
        "node configuration is not available",
        "no node has what the queue's pilots ask for: lower cores or memory",
    ),
    ("time limit", "lower pilot_walltime of the queue's computing element"),
    (
        "job violates accounting/qos policy",
        "wait, or lower max_pilots: the site limits how many jobs there may be",
    ),
    ("unable to contact slurm controller", "wait: Slurm is down; only its administrators can start it"),
    ("socket timed out", "wait: Slurm is too busy to answer"),
    (
        "invalid job array specification",
        "lower option array: the highest index of an array is MaxArraySize - 1 (`scontrol show config`); "
        "array: 1 where the cluster has no arrays",
    ),
    ("munge", "Slurm's authentication is broken on this host: its administrators can mend it"),
)
"""Who can mend what: pairs of a part of a message, in lower case, and the advice."""


@dataclass(frozen=True, kw_only=True)
class SlurmChoices:
    """Slurm's own options of pilots, which it gets as they are."""

    partition: MaybeWord = ""
    """The partition, or several with commas; empty: Slurm's default."""
    account: MaybeWord = ""
    """The account to charge."""
    qos: MaybeWord = ""
    """The quality of service."""
    constraint: MaybeWord = ""
    """Features that nodes must have."""
    gres: MaybeWord = ""
    """Generic resources of each pilot, such as ``gpu:2``."""
    reservation: MaybeWord = ""
    """The reservation to run in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmOptions(SlurmChoices, SubmitOptions):
    """Options of Slurm for a queue's pilots, besides cores, memory and walltime."""

    reserved = """
    --array -a --export --help -h --input -i --job-name -J --output -o --error -e --parsable --requeue
    --no-requeue --test-only --usage --version -V --wait -W --wrap --cpus-per-task -c --mem --ntasks -n
    --nodes -N --time -t --quiet -Q --verbose -v --clusters -M --partition -p
    """
    flags: ClassVar[Mapping[str, str]] = {field.name: f"--{field.name}" for field in fields(SlurmChoices)}

    array: Annotated[int, Field(ge=1, le=10_000)] = 200
    """Most pilots of one job array. Slurm's own limit, MaxArraySize, must be larger."""


class SlurmProfile(Profile[SlurmOptions]):
    """Slurm's commands and answers."""

    kind = "slurm"
    index = "SLURM_ARRAY_TASK_ID"
    queue_option = "partition"
    remedies = REMEDIES
    refusals = ("batch job submission failed",)
    states = STATES
    program = "sbatch"
    # The cluster's name follows if there are several, and some sites wrap sbatch.
    answers = (r"(\d+)(?:;[\w.-]+)?", r"Submitted batch job (\d+)(?: on cluster .*)?")
    element, array_log, canceller = "{}_{}", ".%a.log", ("scancel", "--quiet")

    def __init__(self, options: SlurmOptions) -> None:
        super().__init__(options)
        self.array_size = options.array

    def submit(self, request: Request) -> tuple[str, ...]:
        """Return the arguments of sbatch.

        They state every value that an administrator's default could change.
        """
        memory = [f"--mem={math.ceil(request.memory)}M"] if request.memory else []
        return (
            "sbatch",
            "--parsable",
            f"--job-name={request.name}",
            f"--output={_literal(request.log, request.count)}",
            "--input=/dev/null",
            "--no-requeue",
            "--nodes=1",
            "--ntasks=1",
            f"--cpus-per-task={request.cores}",
            *memory,
            # Slurm counts whole minutes.
            f"--time={math.ceil(request.walltime / 60)}",
            *([f"--array=1-{request.count}"] if request.count > 1 else []),
            *self._options.arguments(),
        )

    def listing(self, jobs: Collection[str]) -> tuple[str, ...]:  # noqa: ARG002 -- one listing for all
        """Return the command that lists all of the account's jobs, including recently ended ones."""
        columns = ",".join(f"{name}:{width}" for name, width in COLUMNS)
        return ("squeue", "--me", "--array", "--noheader", "--states=all", f"--Format={columns}")

    def listed(self, stdout: str) -> Mapping[str, BatchJob]:
        """Cut lines at the columns' widths. One record may represent all waiting jobs of an array."""
        jobs: dict[str, BatchJob] = {}
        for line in stdout.split("\n"):
            values, at = [], 0
            for _, width in COLUMNS:
                values.append(line[at : at + width].strip())
                at += width
            job, state, code, partition, reason, name = values
            if state:
                entry = job_of(state, "" if reason == "None" else reason, exit_code(code), partition, name)
                jobs |= dict.fromkeys(expanded(job), entry)
        return jobs

    def history(self, jobs: Collection[str]) -> tuple[tuple[str, ...], ...]:
        """Return a query of the accounting, and one of the file of completed jobs, which has no arrays."""
        columns = "--format=JobID,State,ExitCode,Partition,JobName"
        # Otherwise a long list of array indexes ends with dots.
        whole = ("env", "SLURM_BITSTR_LEN=0", "sacct", "--noheader", "--parsable2")
        accounting = (*whole, "--allocations", columns, f"--jobs={','.join(jobs)}")
        single = [job for job in jobs if "_" not in job]
        completed = (*whole, "--completion", f"--jobs={','.join(single)}")
        return (accounting, completed) if single else (accounting,)

    def remembered(self, stdout: str) -> Mapping[str, BatchJob]:
        """Parse rows of the accounting, or rows of the file of completed jobs, which have eight columns."""
        jobs: dict[str, BatchJob] = {}
        for line in stdout.split("\n"):
            values = line.split("|")
            if len(values) >= 5 and re.fullmatch(r"\d+:\d+", values[2]):
                job, state, code, partition = values[:4]
                entry = job_of(state, "", exit_code(code), partition, "|".join(values[4:]))
            elif len(values) == 8:
                job, _, name, partition, _, _, state, _ = values
                entry = job_of(state, "", None, partition, name)
            else:
                continue
            jobs |= dict.fromkeys(expanded(job), entry)
        return jobs

    def capacity(self) -> tuple[str, ...]:
        """Return the command that prints the partition's processors by state."""
        partition = [f"--partition={self._options.partition}"] if self._options.partition else []
        return ("sinfo", "--noheader", *partition, "--format=%P|%C")

    def population(self) -> tuple[str, ...]:
        """Return a shell that counts everybody's jobs of the partition by state."""
        return ("sh", "-c", POPULATION, "squeue", self._options.partition)

    def slots(self, stdout: str) -> int | None:
        """Return all processors but those out of order.

        Without a partition in the options, use the default one.
        """
        total = None
        for line in stdout.splitlines():
            partition, _, counts = line.strip().partition("|")
            numbers = counts.split("/")
            counted = len(numbers) == 4 and all(part.isdecimal() for part in numbers)
            if counted and (self._options.partition or partition.endswith("*")):
                total = (total or 0) + int(numbers[3]) - int(numbers[2])
        return total


class Slurm(BatchElement):
    """The computing element kind ``slurm``. ``SlurmOptions`` has its options."""

    end_doubt, options, profile = END_DOUBT, SlurmOptions, SlurmProfile

    def resources(self, size: PilotSize) -> int | None:
        """Return how many such pilots the partitions' nodes would run side by side (P8)."""
        return fitting(self._system().ask(NODES), self._profile.queues, size)


def fitting(listed: str, partitions: Collection[str], size: PilotSize) -> int:
    """Return how many pilots of a size the nodes listed by ``NODES`` hold, in these partitions or the
    default.

    A node counts only in the first of its partitions, because being in several makes it no larger.
    """
    pilots: dict[str, int] = {}
    for line in listed.splitlines():
        partition, *values = (value.strip() for value in line.split("|"))
        is_ours = partition.rstrip("*") in partitions if partitions else partition.endswith("*")
        if not is_ours or len(values) != 6:
            continue
        up, limit, state, *numbers = values
        if up != "up" or state.rstrip("*~#!%$@^-+") in GONE or not all(n.isdecimal() for n in numbers):
            continue
        count, cores, memory = map(int, numbers)
        if size.memory <= memory and size.walltime <= (slurm_seconds(limit) or math.inf):
            pilots[partition] = pilots.get(partition, 0) + count * (cores // size.cores)
    return max(pilots.values(), default=0)


def _literal(log: str, count: int) -> str:
    """Escape each ``%`` of a path for Slurm, except in the array's index at its end."""
    ending = ".%a.log" if count > 1 else ""
    return log.removesuffix(ending).replace("%", "%%") + ending


def expanded(job: str) -> Iterator[str]:
    """Yield the jobs of ``12``, ``12_3``, ``12_[3,5-7%2]`` or ``12_[1-9:4]``."""
    number, _, indexes = job.partition("_")
    if not indexes.startswith("["):
        yield job
        return
    for part in indexes.strip("[]").partition("%")[0].split(","):
        if match := re.fullmatch(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", part, re.ASCII):
            first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
            yield from (f"{number}_{at}" for at in range(first, min(last, first + 10_000) + 1, max(step, 1)))


def job_of(state: str, reason: str, code: int | None, partition: str, name: str) -> BatchJob:
    """Return a job from Slurm's words. In a state such as ``CANCELLED by 1000`` the first word decides.

    A state of a newer Slurm is unknown; its name becomes the reason.
    """
    word = (state.split() or [""])[0]
    if word.endswith("+"):
        # The state may be cut to the width of its column.
        word = next((name for name in STATES if name.startswith(word[:-1])), word)
    meaning = STATES.get(word, "unknown")
    text, letters = f"{state} ({reason})" if reason else state, re.sub(r"[\s_]", "", reason.lower())
    if meaning == "waiting" and _HELD.fullmatch(letters):
        meaning = "stuck"
        remedy = next((remedy for part, remedy in _TOO_LARGE if part in letters), "")
        text = f"{text}: {remedy}" if remedy else text
    return BatchJob(
        name=name,
        state=meaning,
        reason=text,
        exit_code=code if meaning == "ended" else None,
        queue=partition,
        excess=EXCESSES.get(word, ""),
        end_doubt=END_DOUBT if word == "NODE_FAIL" else 0,
    )


def exit_code(text: str) -> int | None:
    """Return the exit code of ``3:0``, ``0:9`` (negative for a signal), or a status of wait(2)."""
    if match := re.fullmatch(r"(\d+):(\d+)", text):
        code, number = int(match[1]), int(match[2])
        return -number if number else code
    if text.isdecimal():
        # The file of completed jobs holds the status of wait(2) instead.
        status = int(text)
        return -(status & 0x7F) if status & 0x7F else status >> 8
    return None
