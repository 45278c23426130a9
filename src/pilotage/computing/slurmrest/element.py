"""The computing element of kind ``slurmrest``: each pilot is a job, known by its name."""

import json
import math
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Annotated, Any, Literal

from pydantic import Field

from pilotage.computing.agent_file import agent_options, with_python
from pilotage.computing.batch import BatchJob
from pilotage.computing.batch.element import PILOT_JOB
from pilotage.computing.batch.profile import queue_names
from pilotage.computing.batch.reference import Reference
from pilotage.computing.batch.script import EXITS
from pilotage.computing.options import LocalPath, Word, parse
from pilotage.computing.slurm import fitting
from pilotage.computing.web_service import AnswerLost
from pilotage.ports.computing import Capacity, PilotOrder, PilotSize, PilotStatus, Submitted

from .slurmrestd import SlurmCredentials, SlurmService

NodePath = Annotated[str, Field(pattern=r"^(/[^\x00-\x1f\x7f]*)?$", max_length=1000)]
"""An absolute path of worker nodes; empty: none."""

SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmRestOptions:
    """Options of Slurm's REST service: its place, who calls it, and the needs of pilots at the site."""

    endpoint: Word
    """The service's URL: ``https://host:6820``."""
    user: Word
    """The user whose token it is."""
    token_file: Annotated[LocalPath, Field(min_length=1)]
    """A token of Slurm's, as ``scontrol token`` makes it."""
    ca_path: LocalPath = ""
    """Authorities that are trusted, a file or a folder with hashed names; empty: the system's."""
    partition: Word | Literal[""] = ""
    """The partition, or several with commas; empty: Slurm's default."""
    account: Word | Literal[""] = ""
    """The account that pays."""
    qos: Word | Literal[""] = ""
    """The quality of service."""
    constraint: Word | Literal[""] = ""
    """Features that nodes must have."""
    gres: Word | Literal[""] = ""
    """Generic resources of each pilot, such as ``gpu:2``."""
    reservation: Word | Literal[""] = ""
    """The reservation to run in."""
    directory: NodePath = ""
    """The directory of the worker node in which pilots work; empty: the node's own for such files."""
    logs: NodePath = ""
    """A directory that all nodes have, for what pilots write before they reach the server; empty: nowhere."""
    python: Word = "python3"
    """The Python, 3.9 or newer, of worker nodes."""
    environment: Mapping[str, str | int | float] = field(default_factory=dict)
    """Variables that pilots are given."""


class SlurmRest:
    """The computing element kind ``slurmrest``. Its options are those of :class:`SlurmRestOptions`."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        given = self._options = parse("slurmrest", SlurmRestOptions, options)
        credentials = SlurmCredentials(user=given.user, token_file=given.token_file, ca_path=given.ca_path)
        self._service = SlurmService(given.endpoint, credentials)
        self._partitions = queue_names(given.partition)

    def submit(self, orders: Sequence[PilotOrder]) -> Sequence[Submitted]:
        """Submit a job for each order that has none yet.

        Raises TimeoutError where a submission was not answered: when the orders come again, those that were
        taken are found by their names.
        """
        if not orders:
            return []
        # Orders come again after an answer was lost: what was taken then is there under its name.
        there = {job.name: number for number, job in self._service.jobs(fresh=True).items()}
        return [self._submitted(order, there.get(order.name, "")) for order in orders]

    def poll(self, references: Collection[str]) -> Mapping[str, PilotStatus]:
        """Tell the status of pilots by one listing; what Slurm does not list any more is unknown."""
        known = {text: found for text in references if (found := Reference.parse(text))}
        jobs = self._service.jobs() if known else {}
        return {text: _status(known.get(text), jobs) for text in references}

    def cancel(self, references: Collection[str]) -> None:
        """End those pilots that are listed under their names."""
        known = [found for text in references if (found := Reference.parse(text))]
        jobs = self._service.jobs(fresh=True) if known else {}
        for found in known:
            job = jobs.get(found.job)
            # Slurm counts its jobs anew one day: the number alone may be another's.
            if job is not None and job.name == found.name and job.state != "ended":
                self._service.cancel(found.job)

    def capacity(self) -> Capacity:
        """Processors of the partitions, and the user's pilots there, whichever server submitted them."""
        wanted = self._partitions
        partitions = [
            entry
            for entry in self._service.listing("partitions")
            if (entry.get("name") in wanted if wanted else "default" in entry.get("flags", ()))
        ]
        names = {entry.get("name") for entry in partitions}
        states = [
            job.state
            for job in self._service.jobs().values()
            if PILOT_JOB.search(job.name) and not names.isdisjoint(job.queue.split(","))
        ]
        return Capacity(
            slots=sum(int(entry.get("total_cpus") or 0) for entry in partitions),
            running=states.count("running"),
            waiting=states.count("waiting"),
        )

    def resources(self, size: PilotSize) -> int | None:
        """Count such pilots that the nodes of the partitions would run at once (P8)."""
        partitions = {entry.get("name"): entry for entry in self._service.listing("partitions")}
        lines = [
            _node_line(partitions[name], node)
            for node in self._service.listing("nodes")
            for name in node.get("partitions", ())
            if name in partitions
        ]
        return fitting("\n".join(lines), self._partitions, size)

    def _submitted(self, order: PilotOrder, number: str) -> Submitted:
        try:
            number = number or self._service.submit(self._document(order))
        except AnswerLost as error:
            number = self._found(order.name)
            if not number:
                raise TimeoutError(str(error)) from error
        except OSError as error:
            return Submitted(error=str(error))
        return Submitted(reference=str(Reference(number, order.name, order.name)))

    def _found(self, name: str) -> str:
        """The number of a job whose submission was not answered; empty where it cannot be seen."""
        with suppress(OSError):
            return self._service.number(name)
        return ""

    def _document(self, order: PilotOrder) -> bytes:
        """The job as the service takes it. Its script, with the token, is shown to its owner alone."""
        given = self._options
        # Slurm reads % as the begin of a pattern of its own.
        log = f"{given.logs}/{order.name}.log".replace("%", "%%") if given.logs else "/dev/null"
        job = {
            "name": order.name,
            "current_working_directory": "/",
            "environment": {"PATH": SEARCH_PATH} | {k: str(v) for k, v in given.environment.items()},
            "standard_input": "/dev/null",
            "standard_output": log,
            "no_requeue": True,
            "tasks": 1,
            "cpus_per_task": order.cores,
            "memory_per_node": math.ceil(order.memory),
            "time_limit": math.ceil(order.walltime / 60),
            "partition": given.partition,
            "account": given.account,
            "qos": given.qos,
            "constraints": given.constraint,
            "gres": given.gres,
            "reservation": given.reservation,
        }
        # Left out, so that Slurm's own default holds.
        asked = {name: value for name, value in job.items() if value}
        return json.dumps({"job": asked, "script": _script(order, given)}).encode()


def _script(order: PilotOrder, given: SlurmRestOptions) -> str:
    told = {
        "name": order.name,
        "token": order.token,
        "url": order.server_url,
        "directory": given.directory,
        "options": agent_options(order),
    }
    program = (files(__package__) / "start.py").read_text(encoding="utf-8")
    return with_python(given.python, f"- <<'END'\n{program}\nmain({told!r})\nEND")


def _status(reference: Reference | None, jobs: Mapping[str, BatchJob]) -> PilotStatus:
    job = jobs.get(reference.job) if reference else None
    if reference is None or job is None or job.name != reference.name:
        return PilotStatus(state="unknown", reason="Slurm does not list it")
    words = EXITS.get(job.exit_code or 0, "") if job.state == "ended" else ""
    reason = "; ".join(part for part in (job.reason, words) if part)
    return PilotStatus(state=job.state, reason=reason, exit_code=job.exit_code)


def _node_line(partition: Mapping[str, Any], node: Mapping[str, Any]) -> str:
    """A node in a partition, as ``sinfo`` tells of it in the format of :data:`slurm.NODES`."""
    name = f"{partition.get('name')}{'*' if 'default' in partition.get('flags', ()) else ''}"
    minutes = partition.get("max_time_limit")
    limit = f"{minutes}:00" if isinstance(minutes, int) and minutes > 0 else "infinite"
    up = str(partition.get("state")).lower()
    drained = {"DRAIN", "DOWN", "FAIL"} & set(node.get("state_flags", ()))
    state = "drain" if drained else node.get("state")
    return "|".join(map(str, (name, up, limit, state, 1, node.get("cpus"), node.get("real_memory"))))
