"""PBS Professional and OpenPBS: ``qsub``, ``qstat -F json`` with the history, ``qdel``."""

import json
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ConfigDict

from pilotage.computing.batch import BatchElement, BatchJob, Profile, Request, SubmitOptions
from pilotage.computing.batch.commands import Outcome
from pilotage.computing.batch.profile import CommandFault, plain_name, queue_names
from pilotage.computing.options import Word, parse
from pilotage.ports.computing import ElementState

_RESERVED = "-N -J -o -e -j -S -r -I -W -V -z -h -X -f"
RESERVED = tuple(_RESERVED.split())
"""Options of qsub that the adapter says itself, or that would change what it answers."""

STATES: Mapping[str, ElementState] = {
    **dict.fromkeys("QHWTM", "waiting"),
    **dict.fromkeys("RESUB", "running"),
    **dict.fromkeys("FX", "ended"),
}

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
    """The queue; empty: the default one."""
    account: Word | Literal[""] = ""
    """The account that pays."""
    resources: tuple[Word, ...] = ()
    """More resources of the chunk, each ``name=value``: ``ngpus=1``."""


class PbsProfile(Profile):
    """The commands of PBS and their answers."""

    kind = "pbs"
    index = "PBS_ARRAY_INDEX"
    remedies = REMEDIES

    def __init__(self, options: PbsOptions) -> None:
        self._options = options
        self.queues = queue_names(options.queue)

    def name(self, name: str) -> str:
        """Names begin with a letter, and have few others than letters and digits."""
        return plain_name(name)

    def log_ending(self, count: int) -> str:
        """``^array_index^`` is the index."""
        return ".log" if count == 1 else ".^array_index^.log"

    def submit(self, request: Request) -> tuple[str, ...]:
        """The arguments of qsub: one chunk of cores and memory on one node."""
        memory = [f"mem={math.ceil(request.memory)}mb"] if request.memory else []
        chunk = ":".join(["select=1", f"ncpus={request.cores}", *memory, *self._options.resources])
        command = ["qsub", "-N", request.name, "-j", "oe", "-o", request.log, "-S", "/bin/sh", "-r", "n"]
        command += ["-l", chunk, "-l", f"walltime={math.ceil(request.walltime)}"]
        command += ["-J", f"1-{request.count}"] if request.count > 1 else []
        for flag, value in (("-q", self._options.queue), ("-A", self._options.account)):
            command += [flag, value] if value else []
        return (*command, *self._options.extra)

    def submitted(self, stdout: str) -> str:
        """``12.server``, or ``12[].server`` for an array."""
        lines = stdout.split()
        if not lines or not re.fullmatch(r"\d+(\[\])?(\.[\w.-]+)?", lines[-1]):
            raise CommandFault(f"qsub answered {stdout[:200]!r}, which is no job's number")
        return lines[-1]

    def number(self, job: str) -> str:
        """An array's number has empty brackets."""
        return re.sub(r"\[\d*\]", "[]", job)

    def elements(self, number: str, count: int) -> list[str]:
        """``12[1].server``, ``12[2].server`` and so on."""
        return [number] if count == 1 else [number.replace("[]", f"[{at}]") for at in range(1, count + 1)]

    def listing(self, jobs: Collection[str]) -> tuple[str, ...]:
        """List these jobs, also those that ended; all jobs of every user where none is named."""
        return ("qstat", "-x", "-t", "-f", "-F", "json", *jobs)

    def is_listed(self, outcome: Outcome) -> bool:
        """Tell whether the command answered: one that does not know some jobs tells of the others."""
        return outcome.code == 0 or "Unknown Job Id" in outcome.stderr

    def listed(self, stdout: str) -> Mapping[str, BatchJob]:
        """One JSON document."""
        try:
            jobs = json.loads(stdout).get("Jobs", {}) if stdout.strip() else {}
            return {str(job): _job(words) for job, words in jobs.items()}
        except (ValueError, AttributeError, TypeError) as error:
            raise CommandFault(f"qstat answered no JSON that is understood: {error}") from error

    def cancel(self, jobs: Collection[str]) -> tuple[str, ...]:
        """Delete these jobs; those that are over are left alone."""
        return ("qdel", *jobs)


class Pbs(BatchElement):
    """The computing element kind ``pbs``; its options are those of :class:`PbsOptions`."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        parsed = parse("pbs", PbsOptions, options)
        super().__init__(PbsProfile(parsed), parsed)


def _job(words: Mapping[str, Any]) -> BatchJob:
    state, code = str(words.get("job_state", "")), words.get("Exit_status")
    found = STATES.get(state, "unknown")
    return BatchJob(
        name=str(words.get("Job_Name", "")),
        state=found,
        reason=" ".join(part for part in (state, str(words.get("comment", ""))) if part),
        exit_code=_exit_code(code) if found == "ended" and isinstance(code, int) else None,
        queue=str(words.get("queue", "")),
    )


def _exit_code(status: int) -> int | None:
    """Above 256 is a signal; below 0 PBS never started it."""
    if status < 0:
        return None
    return status if status < 256 else 256 - status
