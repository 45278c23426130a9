"""Grid Engine: ``qsub -terse`` with arrays, one ``qstat -xml`` for all jobs, ``qacct`` for ended ones."""

import html
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar

from pilotage.adapters.computing.batch import BatchElement, BatchJob, Profile, Request, SubmitOptions
from pilotage.adapters.computing.batch.profile import (
    COUNTED,
    CommandFault,
    exit_code,
    plain_name,
    with_account,
)
from pilotage.adapters.computing.options import MaybeWord, Word
from pilotage.ports.computing import ElementState, Excess

RAN = ("0", "12", "13", "14", "15", "16", "17", "24", "25", "30", "37", "100")
"""Values of ``failed`` for jobs that ran. With other values the job never started, and its exit status
means nothing."""

_TROUBLE = {
    "E": "in error: Grid Engine could not start it, and does not try again (`qmod -cj` once that is mended)",
    "h": "held: it starts when its holder releases it (`qrls`)",
}
"""The meaning of a letter in the state of a job that does not start by itself."""

POPULATION = f"""
listing=$(qstat -u '*' -g d -s prs -xml "$@") || exit 1
states=$(printf '%s\\n' "$listing" | grep -o '<state>[^<]*</state>' | sed 's/<[^>]*>//g')
{COUNTED}
"""
"""A shell script that counts the jobs of the queue in its arguments by state."""

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

    reserved = "-N -q -t -o -e -j -S -r -terse -V -b -sync -now -i -notify -@ -help -verify -w -clear"
    flags: ClassVar[Mapping[str, str]] = {"queue": "-q", "project": "-P"}

    queue: MaybeWord = ""
    """The queue, or several with commas; empty: any."""
    project: MaybeWord = ""
    """The project to charge."""
    parallel_environment: MaybeWord = ""
    """The parallel environment for pilots with several cores."""
    memory_resource: Word = "h_vmem"
    """The resource that limits memory per core."""
    resources: tuple[Word, ...] = ()
    """More resources, each as ``name=value``."""


class GridEngineProfile(Profile[GridEngineOptions]):
    """Grid Engine's commands and answers."""

    kind = "gridengine"
    index = "SGE_TASK_ID"
    remedies = REMEDIES
    refusals = ("unable to run job", "job was rejected")
    program, element, array_log, canceller = "qsub", "{}.{}", ".$TASK_ID.log", ("qdel",)
    # ``12.1-3:1`` is an array, and some sites wrap qsub.
    answers = (r"(\d+)(?:\.\d+-\d+:\d+)?", r"Your job(?:-array)? (\d+)[ .].* submitted")

    def __init__(self, options: GridEngineOptions) -> None:
        super().__init__(options)
        # With these options the operator wants held jobs to wait.
        self._holds = any(option.startswith(("-hold_jid", "-h")) for option in options.extra)

    def name(self, name: str) -> str:
        """Return a name that begins with a letter and has almost only letters and digits."""
        return plain_name(name)

    def submit(self, request: Request) -> tuple[str, ...]:
        """Return the arguments of qsub. Grid Engine warns a pilot half a minute before it kills it."""
        options = self._options
        resources = [f"h_rt={math.ceil(request.walltime)}", *options.resources]
        if request.memory:
            # h_vmem is per slot, so divide the job's memory by its cores.
            resources.append(f"{options.memory_resource}={math.ceil(request.memory / request.cores)}M")
        command = ["qsub", "-terse", "-N", request.name, "-j", "y", "-o", request.log, "-S", "/bin/sh"]
        command += ["-r", "n", "-notify", "-l", ",".join(resources)]
        command += ["-t", f"1-{request.count}"] if request.count > 1 else []
        if request.cores > 1:
            if not options.parallel_environment:
                raise CommandFault(
                    "pilots of several cores need option parallel_environment: `qconf -spl` lists them"
                )
            command += ["-pe", options.parallel_environment, str(request.cores)]
        return (*command, *options.arguments())

    def listing(self, jobs: Collection[str]) -> tuple[str, ...]:  # noqa: ARG002 -- one listing for all
        """Return the command that lists this user's live jobs, each job of an array by itself."""
        # Settings files may make qstat list everybody's jobs.
        return with_account("qstat", "-xml", "-g", "d", "-u")

    def listed(self, stdout: str) -> Mapping[str, BatchJob]:
        """Parse each record of a document by itself, so that a malformed one does not hide the others."""
        if not re.search(r"<job_info\b", stdout):
            raise CommandFault(f"qstat answered {stdout[:200]!r}, which is no XML of jobs")
        jobs = {}
        for record in re.findall(r"<job_list\b[^>]*>(.*?)</job_list>", stdout, re.DOTALL):
            words = _words(record)
            number, task, state = (words.get(tag, "") for tag in ("JB_job_number", "tasks", "state"))
            if not number.isdecimal():
                continue
            queue = words.get("queue_name", "").partition("@")[0]
            jobs[f"{number}.{task}" if task.isdecimal() else number] = BatchJob(
                name=words.get("JB_name", ""),
                state=_state(state, self._holds),
                reason=f"{state}: {trouble}" if (trouble := _TROUBLE.get(_letters(state))) else state,
                queue=queue,
                explained=False,
            )
        return jobs

    def reasons(self, jobs: Collection[str]) -> tuple[str, ...]:
        """Return the command that prints all that Grid Engine knows about these jobs."""
        return ("qstat", "-j", ",".join(jobs))

    def explained(self, stdout: str) -> Mapping[str, str]:
        """Return each job's errors, else its scheduling messages.

        Lines that begin with blanks continue the previous one.
        """
        reasons = {}
        for block in re.split(r"^=+$", stdout, flags=re.MULTILINE):
            number = re.search(r"^job_number: +(\d+)", block, re.MULTILINE)
            errors = re.findall(r"^error reason +\d+: +(.+)$", block, re.MULTILINE)
            hints = re.search(r"^scheduling info: +(.+(?:\n +.+)*)", block, re.MULTILINE)
            lines = errors[:1] or (hints[1].split("\n")[:3] if hints else [])
            if number and lines:
                reasons[number[1]] = "; ".join(" ".join(line.split()) for line in lines)
        return reasons

    def history(self, jobs: Collection[str]) -> tuple[tuple[str, ...], ...]:
        """Return a shell that queries the accounting for each number. Unknown jobs have no output."""
        numbers = sorted({self.number(job) for job in jobs})
        return (("sh", "-c", 'for job; do qacct -j "$job" 2>/dev/null; done; true', "qacct", *numbers),)

    def remembered(self, stdout: str) -> Mapping[str, BatchJob]:
        """Parse blocks with a name and a value per line."""
        jobs = {}
        for block in re.split(r"^=+$", stdout, flags=re.MULTILINE):
            words = dict(re.findall(r"^(\w+) +(.*?) *$", block, flags=re.MULTILINE))
            number, task = words.get("jobnumber", ""), words.get("taskid", "undefined")
            if not number.isdecimal():
                continue
            failed, code = (" ".join(words.get(name, "0").split()) for name in ("failed", "exit_status"))
            cause = re.match(r"\d*", failed)[0]  # type: ignore[index]
            reason = "" if cause == "0" else f"failed {failed}"
            excess = _excess(words, cause, self._options.memory_resource)
            jobs[f"{number}.{task}" if task.isdecimal() else number] = BatchJob(
                name=words.get("jobname", ""),
                state="ended",
                reason=(reason or f"exit status {code}") + (f" ({excess})" if excess else ""),
                # A signal's name may follow.
                exit_code=exit_code(code.partition(" ")[0]) if cause in RAN else None,
                queue=words.get("qname", ""),
                excess=excess,
            )
        return jobs

    def capacity(self) -> tuple[str, ...]:
        """Return the command that prints the slots of the cluster's queues."""
        return ("qstat", "-g", "c", *self._of_queue())

    def population(self) -> tuple[str, ...]:
        """Return a shell that counts everybody's jobs of the queue by state.

        A job that waits may be for several queues.
        """
        return ("sh", "-c", POPULATION, "qstat", *self._of_queue())

    def _of_queue(self) -> tuple[str, ...]:
        return ("-q", self._options.queue) if self._options.queue else ()

    def state(self, word: str) -> ElementState:
        """See ``Profile``."""
        return _state(word, self._holds)

    def slots(self, stdout: str) -> int | None:
        """Return the column TOTAL minus the slots that are out of order."""
        total = None
        # The first two lines are a header and a ruler.
        for line in stdout.splitlines()[2:]:
            values = line.split()
            if len(values) >= 8 and values[5].isdecimal() and values[-1].isdecimal():
                total = (total or 0) + int(values[5]) - int(values[-1])
        return total


class GridEngine(BatchElement):
    """The computing element kind ``gridengine``. ``GridEngineOptions`` has its options."""

    options, profile = GridEngineOptions, GridEngineProfile


def _words(record: str) -> dict[str, str]:
    """Return the values of a record by their tags. They may contain any characters."""
    return {
        tag: html.unescape(value).strip()
        for tag, value in re.findall(r"<(\w+)[^>]*>([^<]*?)</\1>", record, re.DOTALL)
    }


def _letters(state: str) -> str:
    return "E" if "E" in state else "h" if "h" in state and "q" in state else ""


def _state(letters: str, holds: bool) -> ElementState:
    """Held or in error is stuck. A running job may be suspended or about to end. All others wait."""
    if _letters(letters) == "E" or (_letters(letters) == "h" and not holds):
        return "stuck"
    if "q" not in letters and set(letters) & set("rtRsSTPN"):
        return "running"
    return "waiting" if "q" in letters or "h" in letters else "unknown"


def _excess(words: Mapping[str, str], failed: str, memory_resource: str) -> Excess:
    """Return the limit that a killed job exceeded, from its request and its use in the accounting.

    Grid Engine records no reason: a killed job that used all of its request exceeded it.
    """
    code = words.get("exit_status", "").partition(" ")[0]
    if failed not in ("37", "100") and not (code.isdecimal() and int(code) > 128):
        return ""
    request = dict(re.findall(r"(\w+)=([\d.]+[KMGTkmgt]?)", words.get("category", "")))
    walltime, memory = _size(request.get("h_rt", "")), _size(request.get(memory_resource, ""))
    if walltime and _size(words.get("ru_wallclock", "")) >= walltime:
        return "walltime"
    slots = max(1.0, _size(words.get("slots", "")))
    if memory and _size(words.get("maxvmem", "")) >= memory * slots:
        return "memory"
    return "walltime" if failed == "37" else ""


def _size(text: str) -> float:
    """Return the number at the beginning of a text, times its unit; 0 without one."""
    match = re.match(r"(\d+(?:\.\d+)?)([KMGT]?)", text.upper())
    return float(match[1]) * 1024 ** " KMGT".index(match[2] or " ") if match else 0.0
