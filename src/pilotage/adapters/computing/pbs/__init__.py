"""PBS Professional and OpenPBS: ``qsub``, ``qstat -F json`` with ended jobs, ``qdel``."""

import json
import math
import re
import signal
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pilotage.adapters.computing.batch import BatchElement, BatchJob, Profile, Request, SubmitOptions
from pilotage.adapters.computing.batch.profile import CommandFault, plain_name
from pilotage.adapters.computing.options import MaybeWord, Word
from pilotage.ports.computing import ElementState, Excess

STATES: Mapping[str, ElementState] = {
    **dict.fromkeys("QWTM", "waiting"),
    "H": "stuck",
    **dict.fromkeys("RESUB", "running"),
    **dict.fromkeys("FX", "ended"),
}

OWN_JOBS = """
select_own() { qselect -u "$(id -un)" ${destination:+-q "$destination"} "$@" 2>/dev/null; }
destination=$1; shift
jobs=$(select_own) || exec "$@"
ended=$(select_own -x -te.gt."$(date -d '1 hour ago' +%Y%m%d%H%M)") || ended=
printf '%s\n' "$jobs" "$ended" | grep . | sort -u | xargs -r -n 2000 "$@"
"""
"""A shell script that runs qstat for this account's live jobs, and for those that ended within an hour.

PBS may keep ended jobs for weeks, so the script neither asks for all of them nor names them in one command.
For other people's jobs qstat may print invalid JSON.
"""

EXCESSES: Mapping[int, Excess] = {-26: "memory", -27: "memory", -28: "walltime", -29: "walltime"}
"""Exit statuses of jobs that PBS killed for a limit: virtual memory, memory, processor time, walltime."""

NOT_STARTED = -23
"""The lowest exit status of jobs that PBS never started. Below it are those that PBS killed for a limit."""

PARTLY = ("Unknown Job Id", "illegally formed job identifier")
"""Messages about some of the jobs in the command."""

_COUNT = re.compile(r"(\w+):(\d{1,9})")
_NEEDED = ("Job_Name", "job_state", "queue", "comment", "Exit_status")
_VALUE = re.compile(r'(?<!\\)"(\w+)"\s*:\s*"?((?<=")(?:[^"\\]|\\.)*|-?\d+)')

REMEDIES = (
    ("unknown queue", "correct option queue: `qstat -Q` lists those there are"),
    ("cannot connect to", "wait: PBS is down; only its administrators can start it"),
    ("invalid account", "correct option account, or ask the site for one"),
    ("exceeds queue", "lower what the queue's pilots ask for, or take another queue"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PbsOptions(SubmitOptions):
    """Options of PBS for a queue's pilots, besides cores, memory and walltime."""

    reserved = "-N -J -o -e -j -q -S -r -I -W -V -z -h -X -f -u"
    flags: ClassVar[Mapping[str, str]] = {"queue": "-q", "account": "-A"}

    queue: MaybeWord = ""
    """The queue; empty: PBS's default."""
    account: MaybeWord = ""
    """The account to charge."""
    resources: tuple[Word, ...] = ()
    """More resources of the chunk, each as ``name=value``: ``ngpus=1``."""


class PbsProfile(Profile[PbsOptions]):
    """PBS's commands and answers."""

    kind = "pbs"
    index = "PBS_ARRAY_INDEX"
    remedies = REMEDIES
    refusals = ("qsub: ",)
    program, answers = "qsub", (r"(\d+(?:\[\])?(?:\.[\w.-]+)?)",)
    array_log, canceller, partly = ".^array_index^.log", ("qdel",), PARTLY

    def name(self, name: str) -> str:
        """Return a name that begins with a letter and has almost only letters and digits."""
        return plain_name(name)

    def submit(self, request: Request) -> tuple[str, ...]:
        """Return the arguments of qsub: one chunk of cores and memory on one node."""
        memory = [f"mem={math.ceil(request.memory)}mb"] if request.memory else []
        chunk = ":".join(["select=1", f"ncpus={request.cores}", *memory, *self._options.resources])
        command = ["qsub", "-N", request.name, "-j", "oe", "-o", request.log, "-S", "/bin/sh", "-r", "n"]
        command += ["-l", chunk, "-l", f"walltime={math.ceil(request.walltime)}"]
        command += ["-J", f"1-{request.count}"] if request.count > 1 else []
        return (*command, *self._options.arguments())

    def same(self, job: str) -> str:
        """Return the number: each command shortens the server's name in its own way."""
        return job.partition(".")[0]

    def number(self, job: str) -> str:
        """Return the array's number, which has empty brackets."""
        return re.sub(r"\[\d*\]", "[]", job)

    def elements(self, number: str, count: int) -> list[str]:
        """Return ``12[1].server``, ``12[2].server`` and so on."""
        return [number] if count == 1 else [number.replace("[]", f"[{at}]") for at in range(1, count + 1)]

    def listing(self, jobs: Collection[str]) -> tuple[str, ...]:
        """Return the command that lists these jobs, ended ones too; without ``jobs``, all of the account."""
        command = ("qstat", "-x", "-t", "-f", "-F", "json")
        server = self._options.queue.partition("@")[2]
        script = ("sh", "-c", OWN_JOBS, "qstat", f"@{server}" if server else "")
        return (*command, *jobs) if jobs else (*script, *command)

    def listed(self, stdout: str) -> Mapping[str, BatchJob]:
        """Parse JSON documents, one after the other.

        PBS does not escape job values, so parse an invalid document record by record.
        """
        jobs: dict[str, Any] = {}
        try:
            for document in _documents(stdout):
                jobs |= document.get("Jobs", {})
            records = {str(job): words for job, words in jobs.items() if isinstance(words, dict)}
        except (ValueError, AttributeError, TypeError, RecursionError):
            records = jobs = dict(_records(stdout))
            if not records:
                raise _not_understood(stdout) from None
        if jobs and not records:
            raise _not_understood(stdout)
        return {job: _job(words) for job, words in records.items()}

    def population(self) -> tuple[str, ...]:
        """Return the command that prints PBS's queues with their jobs."""
        server = self._options.queue.partition("@")[2]
        return ("qstat", "-Q", "-f", "-F", "json", *([f"@{server}"] if server else ())) if self.queues else ()

    def populated(self, stdout: str) -> tuple[int, int] | None:
        """Add up the queues. A routing queue passes its jobs on to others, which count too."""
        try:
            queues: Mapping[str, Mapping[str, Any]] = json.loads(stdout, strict=False)["Queue"]
            to_visit, reached = [name for name in self.queues if name in queues], set[str]()
            while to_visit:
                if (name := to_visit.pop()) not in reached:
                    reached.add(name)
                    to_visit += [name for name in _destinations(queues[name]) if name in queues]
            counts = Counter[str]()
            for name in reached:
                counts.update(
                    {state: int(n) for state, n in _COUNT.findall(str(queues[name]["state_count"]))}
                )
        except (ValueError, LookupError, AttributeError, TypeError, RecursionError):
            return None
        running = sum(counts[state] for state in ("Running", "Exiting", "Begun"))
        return (running, counts.total() - running) if reached else None

    def may_hold(self, job: BatchJob) -> bool:  # noqa: ARG002
        """Return True: the queue may be a routing queue."""
        return True


class Pbs(BatchElement):
    """The computing element kind ``pbs``. ``PbsOptions`` has its options."""

    options, profile = PbsOptions, PbsProfile


def _destinations(queue: Mapping[str, Any]) -> list[str]:
    """Return the queues that get the jobs of a routing queue."""
    return [name.partition("@")[0] for name in str(queue.get("route_destinations", "")).split(",")]


def _not_understood(stdout: str) -> CommandFault:
    return CommandFault(f"qstat answered {stdout[:200]!r}, which is no JSON that is understood")


def _documents(text: str) -> Iterator[Mapping[str, Any]]:
    """Yield the JSON documents of a text. Raises ValueError."""
    decoder, text = json.JSONDecoder(strict=False), text.strip()
    while text:
        document, end = decoder.raw_decode(text)
        yield document
        text = text[end:].lstrip()


def _records(text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the job records in invalid JSON: whole if they are valid, else just the needed values."""
    begins = [*re.finditer(r'(?<!\\)"(\d+(?:\[\d*\])?(?:\.[\w.-]+)?)"\s*:\s*\{', text)]
    ends = [match.start() for match in begins[1:]]
    for match, end in zip(begins, [*ends, len(text)], strict=False):
        body = text[match.end() - 1 : end]
        try:
            words = json.JSONDecoder(strict=False).raw_decode(body)[0]
        except (ValueError, RecursionError):
            words = {name: value for name, value in reversed(_VALUE.findall(body)) if name in _NEEDED}
            if re.fullmatch(r"-?\d{1,9}", str(words.get("Exit_status", ""))):
                words["Exit_status"] = int(words["Exit_status"])
        if "job_state" in words:
            yield match[1], words


def _job(words: Mapping[str, Any]) -> BatchJob:
    state, status = str(words.get("job_state", "")), words.get("Exit_status")
    meaning = STATES.get(state, "unknown")
    hint = "held: it starts when its holder releases it (`qrls`)" if meaning == "stuck" else ""
    code = status if meaning == "ended" and isinstance(status, int) else None
    return BatchJob(
        name=str(words.get("Job_Name", "")),
        state=meaning,
        reason=" ".join(part for part in (state, hint, str(words.get("comment", ""))) if part),
        exit_code=_exit_code(code) if code is not None else None,
        queue=str(words.get("queue", "")),
        excess=EXCESSES.get(code or 0, ""),
    )


def _exit_code(status: int) -> int | None:
    """Above 256 is a signal. Below 0, PBS never started the job, or killed it for a limit."""
    if status < NOT_STARTED:
        return -signal.SIGKILL
    if status < 0:
        return None
    return status if status < 256 else 256 - status
