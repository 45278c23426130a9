"""PBS Professional and OpenPBS: ``qsub``, ``qstat -F json`` with ended jobs, ``qdel``."""

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ConfigDict

from pilotage.computing.batch import BatchElement, BatchJob, Profile, Request, SubmitOptions
from pilotage.computing.batch.commands import Outcome
from pilotage.computing.batch.profile import CommandFault, only_number, plain_name, queue_names
from pilotage.computing.options import Word, parse
from pilotage.ports.computing import ElementState

_RESERVED = "-N -J -o -e -j -S -r -I -W -V -z -h -X -f"
RESERVED = tuple(_RESERVED.split())
"""Options of qsub that the adapter sets itself, or that would change its output."""

STATES: Mapping[str, ElementState] = {
    **dict.fromkeys("QWTM", "waiting"),
    "H": "stuck",
    **dict.fromkeys("RESUB", "running"),
    **dict.fromkeys("FX", "ended"),
}

OWN = (
    'if jobs=$(qselect -x -u "$(id -un)" 2>/dev/null); then [ -z "$jobs" ] || exec "$0" "$@" $jobs; '
    'else exec "$0" "$@"; fi'
)
"""A shell script that runs qstat for the account's own jobs only: for others it may print invalid JSON."""

PARTLY = ("Unknown Job Id", "illegally formed job identifier")
"""Messages about some of the jobs in the command."""

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

    __pydantic_config__ = ConfigDict(extra="forbid")
    reserved = RESERVED

    queue: Word | Literal[""] = ""
    """The queue; empty: PBS's default."""
    account: Word | Literal[""] = ""
    """The account to charge."""
    resources: tuple[Word, ...] = ()
    """More resources of the chunk, each as ``name=value``: ``ngpus=1``."""


class PbsProfile(Profile):
    """PBS's commands and answers."""

    kind = "pbs"
    index = "PBS_ARRAY_INDEX"
    remedies = REMEDIES

    def __init__(self, options: PbsOptions) -> None:
        self._options = options
        self.queues = queue_names(options.queue)

    def name(self, name: str) -> str:
        """Return a name that begins with a letter and has almost only letters and digits."""
        return plain_name(name)

    def log_ending(self, count: int) -> str:
        """``^array_index^`` is the index."""
        return ".log" if count == 1 else ".^array_index^.log"

    def submit(self, request: Request) -> tuple[str, ...]:
        """Return the arguments of qsub: one chunk of cores and memory on one node."""
        memory = [f"mem={math.ceil(request.memory)}mb"] if request.memory else []
        chunk = ":".join(["select=1", f"ncpus={request.cores}", *memory, *self._options.resources])
        command = ["qsub", "-N", request.name, "-j", "oe", "-o", request.log, "-S", "/bin/sh", "-r", "n"]
        command += ["-l", chunk, "-l", f"walltime={math.ceil(request.walltime)}"]
        command += ["-J", f"1-{request.count}"] if request.count > 1 else []
        for flag, value in (("-q", self._options.queue), ("-A", self._options.account)):
            command += [flag, value] if value else []
        return (*command, *self._options.extra)

    def submitted(self, stdout: str) -> str:
        """Parse ``12.server``, or ``12[].server`` for an array."""
        number = only_number(stdout, r"(\d+(?:\[\])?(?:\.[\w.-]+)?)")
        if not number:
            raise CommandFault(f"qsub answered {stdout[:200]!r}, which is no job's number")
        return number

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
        """List these jobs, including ended ones; without jobs, list all jobs of the account."""
        command = ("qstat", "-x", "-t", "-f", "-F", "json")
        return (*command, *jobs) if jobs else ("sh", "-c", OWN, *command)

    def is_listed(self, outcome: Outcome) -> bool:
        """Return whether the command answered. If it does not know some jobs, it still lists the others."""
        return outcome.code == 0 or (
            outcome.code is not None and any(words in outcome.stderr for words in PARTLY)
        )

    def listed(self, stdout: str) -> Mapping[str, BatchJob]:
        """Parse one JSON document.

        PBS does not escape job values, so parse an invalid document record by record.
        """
        if not stdout.strip():
            return {}
        try:
            jobs = json.loads(stdout, strict=False).get("Jobs", {})
            known: dict[str, Mapping[str, Any]] = {
                str(job): words for job, words in jobs.items() if isinstance(words, dict)
            }
            understood = len(known) > 0 or not jobs
        except (ValueError, AttributeError, TypeError, RecursionError):
            known = dict(_records(stdout))
            understood = bool(known)
        if not understood:
            raise CommandFault(f"qstat answered {stdout[:200]!r}, which is no JSON that is understood")
        return {job: _job(words) for job, words in known.items()}

    def cancel(self, jobs: Collection[str]) -> tuple[str, ...]:
        """Delete these jobs. Jobs that have ended are left alone."""
        return ("qdel", *jobs)


class Pbs(BatchElement):
    """The computing element kind ``pbs``. Its options are those of :class:`PbsOptions`."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        parsed = parse("pbs", PbsOptions, options)
        super().__init__(PbsProfile(parsed), parsed)


def _records(text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the job records in invalid JSON: whole if they are valid, else just the needed values."""
    begins = [*re.finditer(r'(?<!\\)"(\d+(?:\[\d*\])?(?:\.[\w.-]+)?)"\s*:\s*\{', text)]
    ends = [found.start() for found in begins[1:]]
    for found, end in zip(begins, [*ends, len(text)], strict=False):
        body = text[found.end() - 1 : end]
        try:
            words = json.JSONDecoder(strict=False).raw_decode(body)[0]
        except (ValueError, RecursionError):
            words = {name: value for name, value in reversed(_VALUE.findall(body)) if name in _NEEDED}
            if re.fullmatch(r"-?\d{1,9}", str(words.get("Exit_status", ""))):
                words["Exit_status"] = int(words["Exit_status"])
        if "job_state" in words:
            yield found[1], words


def _job(words: Mapping[str, Any]) -> BatchJob:
    state, code = str(words.get("job_state", "")), words.get("Exit_status")
    found = STATES.get(state, "unknown")
    held = "held: it starts when its holder releases it (`qrls`)" if found == "stuck" else ""
    return BatchJob(
        name=str(words.get("Job_Name", "")),
        state=found,
        reason=" ".join(part for part in (state, held, str(words.get("comment", ""))) if part),
        exit_code=_exit_code(code) if found == "ended" and isinstance(code, int) else None,
        queue=str(words.get("queue", "")),
    )


def _exit_code(status: int) -> int | None:
    """Above 256 is a signal. Below 0, PBS never started the job."""
    if status < 0:
        return None
    return status if status < 256 else 256 - status
