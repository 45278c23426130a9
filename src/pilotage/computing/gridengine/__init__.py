"""Grid Engine: ``qsub -terse`` with arrays, one ``qstat -xml`` for all, ``qacct`` for the past."""

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ConfigDict

from pilotage.computing.batch import BatchElement, BatchJob, Profile, Request, SubmitOptions
from pilotage.computing.batch.profile import CommandFault, plain_name, queue_names
from pilotage.computing.options import Word, parse
from pilotage.ports.computing import ElementState

_RESERVED = "-N -t -o -e -j -S -r -terse -V -b -sync -now -i -notify -@ -help -verify -w"
RESERVED = tuple(_RESERVED.split())
"""Options of qsub that the adapter says itself, or that would change what it answers."""

REMEDIES = (
    ("unknown queue", "correct option queue: `qconf -sql` lists those there are"),
    ("parallel environment", "correct option parallel_environment: `qconf -spl` lists those there are"),
    ("project", "correct option project: `qconf -sprjl` lists those there are"),
    ("unable to contact qmaster", "wait: Grid Engine is down; only its administrators can start it"),
    ("commlib error", "wait: Grid Engine is down; only its administrators can start it"),
    ("no access to project", "ask the site for the right to use the project"),
    ("environment variable", "set SGE_ROOT where the commands run"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GridEngineOptions(SubmitOptions):
    """Options of Grid Engine for a queue's pilots, besides cores, memory and walltime."""

    __pydantic_config__ = ConfigDict(extra="forbid")
    reserved = RESERVED

    queue: Word | Literal[""] = ""
    """The queue, or several with commas; empty: any."""
    project: Word | Literal[""] = ""
    """The project that pays."""
    parallel_environment: Word | Literal[""] = ""
    """The parallel environment of pilots with several cores."""
    memory_resource: Word = "h_vmem"
    """The resource that limits memory, for each core."""
    resources: tuple[Word, ...] = ()
    """More resources, each ``name=value``."""


class GridEngineProfile(Profile):
    """Grid Engine's commands and their answers."""

    kind = "gridengine"
    index = "SGE_TASK_ID"
    remedies = REMEDIES

    def __init__(self, options: GridEngineOptions) -> None:
        self._options = options
        self.queues = queue_names(options.queue)

    def name(self, name: str) -> str:
        """Names begin with a letter, and have few others than letters and digits."""
        return plain_name(name)

    def log_ending(self, count: int) -> str:
        """``$TASK_ID`` is the index."""
        return ".log" if count == 1 else ".$TASK_ID.log"

    def submit(self, request: Request) -> tuple[str, ...]:
        """The arguments of qsub. A pilot is told half a minute before it is killed."""
        options = self._options
        asked = [f"h_rt={math.ceil(request.walltime)}", *options.resources]
        if request.memory:
            # h_vmem is for each slot: the job's memory is shared out over its cores.
            asked.append(f"{options.memory_resource}={math.ceil(request.memory / request.cores)}M")
        command = [
            "qsub",
            "-terse",
            "-N",
            request.name,
            "-j",
            "y",
            "-o",
            request.log,
            "-S",
            "/bin/sh",
            "-r",
            "n",
        ]
        command += ["-notify", "-l", ",".join(asked)]
        if request.count > 1:
            command += ["-t", f"1-{request.count}"]
        if request.cores > 1:
            if not options.parallel_environment:
                raise CommandFault(
                    "pilots of several cores need option parallel_environment: `qconf -spl` lists them"
                )
            command += ["-pe", options.parallel_environment, str(request.cores)]
        for flag, value in (("-q", options.queue), ("-P", options.project)):
            command += [flag, value] if value else []
        return (*command, *options.extra)

    def submitted(self, stdout: str) -> str:
        """``12``, or ``12.1-3:1`` for an array."""
        lines = stdout.split()
        number = lines[-1].partition(".")[0] if lines else ""
        if not number.isdecimal():
            raise CommandFault(f"qsub answered {stdout[:200]!r}, which is no job's number")
        return number

    def number(self, job: str) -> str:
        """An array's number stands before the index."""
        return job.partition(".")[0]

    def elements(self, number: str, count: int) -> list[str]:
        """``12.1``, ``12.2`` and so on."""
        return [number] if count == 1 else [f"{number}.{at}" for at in range(1, count + 1)]

    def listing(self, jobs: Collection[str]) -> tuple[str, ...]:  # noqa: ARG002 -- one listing for all
        """All of this user that wait or run, each job of an array by itself."""
        return ("qstat", "-xml", "-g", "d")

    def listed(self, stdout: str) -> Mapping[str, BatchJob]:
        """A document with an element for each job."""
        # Entities of a document could expand to any size.
        if "<!DOCTYPE" in stdout:
            raise CommandFault("qstat answered a document with declarations of its own")
        try:
            root = ET.fromstring(stdout)
        except ET.ParseError as error:
            raise CommandFault(f"qstat answered no XML: {error}") from error
        found = {}
        for entry in root.iter("job_list"):
            words = {child.tag: (child.text or "").strip() for child in entry}
            number, task, state = (
                words.get("JB_job_number", ""),
                words.get("tasks", ""),
                words.get("state", ""),
            )
            job = f"{number}.{task}" if task.isdecimal() else number
            queue = words.get("queue_name", "").partition("@")[0]
            found[job] = BatchJob(
                name=words.get("JB_name", ""), state=_state(state), reason=state, queue=queue
            )
        return found

    def history(self, jobs: Collection[str]) -> tuple[tuple[str, ...], ...]:
        """The accounting, of each number in turn; it is silent about those it does not know."""
        numbers = sorted({self.number(job) for job in jobs})
        return (("sh", "-c", 'for job; do qacct -j "$job" 2>/dev/null; done; true', "qacct", *numbers),)

    def remembered(self, stdout: str) -> Mapping[str, BatchJob]:
        """Blocks of a name and a value a line."""
        found = {}
        for block in re.split(r"^=+$", stdout, flags=re.MULTILINE):
            words = dict(re.findall(r"^(\w+) +(.*?) *$", block, flags=re.MULTILINE))
            number, task = words.get("jobnumber", ""), words.get("taskid", "undefined")
            if not number.isdecimal():
                continue
            failed, code = words.get("failed", "0"), words.get("exit_status", "")
            reason = "" if failed.strip() == "0" else f"failed {failed}"
            found[f"{number}.{task}" if task.isdecimal() else number] = BatchJob(
                name=words.get("jobname", ""),
                state="ended",
                reason=reason or f"exit status {code}",
                exit_code=_exit_code(code),
                queue=words.get("qname", ""),
            )
        return found

    def cancel(self, jobs: Collection[str]) -> tuple[str, ...]:
        """Jobs of arrays are named with their index."""
        return ("qdel", *jobs)

    def capacity(self) -> tuple[str, ...]:
        """Slots of the cluster's queues."""
        return ("qstat", "-g", "c", *(("-q", self._options.queue) if self._options.queue else ()))

    def slots(self, stdout: str) -> int | None:
        """The column TOTAL, less slots that are out of order."""
        total = None
        # The first two lines are a header and a ruler.
        for line in stdout.splitlines()[2:]:
            values = line.split()
            if len(values) >= 8 and values[5].isdecimal() and values[-1].isdecimal():
                total = (total or 0) + int(values[5]) - int(values[-1])
        return total


class GridEngine(BatchElement):
    """The computing element kind ``gridengine``; its options are those of :class:`GridEngineOptions`."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        parsed = parse("gridengine", GridEngineOptions, options)
        super().__init__(GridEngineProfile(parsed), parsed)


def _state(letters: str) -> ElementState:
    """A running job may be suspended, or on its way out; all others wait."""
    if "r" in letters or "t" in letters or letters.strip("d") in ("s", "S", "T"):
        return "running"
    return "waiting" if "q" in letters or "h" in letters else "unknown"


def _exit_code(text: str) -> int | None:
    """Above 128 is a signal."""
    if not text.isdecimal():
        return None
    return int(text) if int(text) <= 128 else 128 - int(text)
