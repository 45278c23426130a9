"""LSF: ``bsub``, ``bjobs`` (which lists recently ended jobs too), ``bkill``."""

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar

from pilotage.adapters.computing.batch import BatchElement, BatchJob, Profile, Request, SubmitOptions
from pilotage.adapters.computing.batch.profile import COUNTED, exit_code
from pilotage.adapters.computing.options import MaybeWord
from pilotage.ports.computing import ElementState, Excess

STATES: Mapping[str, ElementState] = {
    **dict.fromkeys(("PEND", "PROV", "WAIT"), "waiting"),
    # Its owner or an administrator suspended it while it waited.
    "PSUSP": "stuck",
    **dict.fromkeys(("RUN", "USUSP", "SSUSP"), "running"),
    **dict.fromkeys(("DONE", "EXIT"), "ended"),
}
EXCESSES: Mapping[str, Excess] = {
    "TERM_MEMLIMIT": "memory",
    "TERM_SWAP": "memory",
    "TERM_RUNLIMIT": "walltime",
    "TERM_CPULIMIT": "walltime",
}
"""First words of the exit reason of jobs that LSF killed for a limit."""

COLUMNS = "jobid jobindex stat exit_code queue job_name pend_reason exit_reason delimiter='|'"
POPULATION = f"""
states=
for queue; do
  jobs=$(bjobs -u all -q "$queue" -noheader -o stat 2>&1) || case $jobs in
    *"No unfinished job found"*|*"No job found"*|*"No matching job found"*) jobs= ;;
    *) printf '%s\\n' "$jobs" >&2; exit 1 ;;
  esac
  states="$states
$jobs"
done
{COUNTED}
"""
"""A shell script that counts the jobs of the queues that it gets, by state."""

NOTHING = ("No job found", "No unfinished job found", "No matching job found")
"""Messages that are answers, though the command exits with an error."""

REMEDIES = (
    ("no such queue", "correct option queue: `bqueues` lists those there are"),
    ("user cannot use the queue", "ask the site for the right to use the queue"),
    ("project", "correct option project"),
    ("lsf is down", "wait: LSF is down; only its administrators can start it"),
    ("batch daemon not responding", "wait: LSF is down; only its administrators can start it"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LsfOptions(SubmitOptions):
    """Options of LSF for a queue's pilots, besides cores, memory and walltime."""

    reserved = "-J -q -o -e -oo -eo -I -Is -Ip -K -i -is -Zs -h -V -L -r -pack -jsdl -json -yaml"
    flags: ClassVar[Mapping[str, str]] = {"queue": "-q", "project": "-P", "gpu": "-gpu"}

    queue: MaybeWord = ""
    """The queue; empty: LSF's default."""
    project: MaybeWord = ""
    """The project to charge."""
    gpu: MaybeWord = ""
    """GPUs of each pilot in the form of bsub's ``-gpu``: ``num=1``."""


class LsfProfile(Profile[LsfOptions]):
    """LSF's commands and answers."""

    kind = "lsf"
    index = "LSB_JOBINDEX"
    remedies = REMEDIES
    refusals = ("job not submitted",)
    states = STATES
    program, answers = "bsub", (r"Job <(\d+)> is submitted.*",)
    element, array_log, canceller, partly = "{}[{}]", ".%I.log", ("bkill",), NOTHING

    def name(self, name: str) -> str:
        """Return the name without brackets and slashes, which have a meaning."""
        return re.sub(r"[^A-Za-z0-9_.+-]", "_", name)

    def submit(self, request: Request) -> tuple[str, ...]:
        """Return the arguments of bsub: all cores on one node, memory for the whole job."""
        name = request.name if request.count == 1 else f"{request.name}[1-{request.count}]"
        command = ["bsub", "-J", name, "-o", request.log, "-rn", "-n", str(request.cores)]
        command += ["-W", str(math.ceil(request.walltime / 60)), "-R", "span[hosts=1]"]
        if request.memory:
            memory = f"{math.ceil(request.memory)}MB"
            # -M limits, rusage reserves: without both, LSF would choose a host by cores alone.
            command += ["-M", memory, "-R", f"rusage[mem={memory}/job]"]
        return (*command, *self._options.arguments())

    def listing(self, jobs: Collection[str]) -> tuple[str, ...]:  # noqa: ARG002 -- one listing for all
        """Return the command that lists all of this user's jobs, including recently ended ones."""
        return ("bjobs", "-a", "-noheader", "-o", COLUMNS)

    def listed(self, stdout: str) -> Mapping[str, BatchJob]:
        """Parse one line per job. A job of an array has its index in the name."""
        jobs = {}
        for line in stdout.split("\n"):
            # A pending reason may have any signs, and a job that waits has no exit reason.
            values = [value.strip() for value in line.split("|")]
            if len(values) < 8 or not values[0].isdecimal():
                continue
            number, index, state, code, queue, name, *pending, exit_reason = values
            reasons = (" ".join(pending), exit_reason)
            reason = " ".join(words for words in reasons if words not in ("", "-"))
            is_one = index.isdecimal() and int(index) > 0
            jobs[f"{number}[{index}]" if is_one else number] = BatchJob(
                name=re.sub(r"\[.*\]$", "", name),
                state=STATES.get(state, "unknown"),
                reason=f"{state}: {reason}" if reason else state,
                exit_code=0 if state == "DONE" else exit_code(code) if state == "EXIT" else None,
                queue=queue,
                excess=EXCESSES.get(exit_reason.partition(":")[0], ""),
            )
        return jobs

    def population(self) -> tuple[str, ...]:
        """Return a shell that counts everybody's unfinished jobs of the queues by state."""
        return ("sh", "-c", POPULATION, "bjobs", *sorted(self.queues)) if self.queues else ()


class Lsf(BatchElement):
    """The computing element kind ``lsf``. ``LsfOptions`` has its options."""

    options, profile = LsfOptions, LsfProfile
