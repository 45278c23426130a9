"""The computing element of kind ``slurmrest``: each pilot is a job, found by its name."""

import json
import math
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Annotated, Any

from pydantic import Field

from pilotage.adapters.computing.agent_file import agent_options, with_python
from pilotage.adapters.computing.batch import BatchJob
from pilotage.adapters.computing.batch.profile import Reference, queue_names, references_in
from pilotage.adapters.computing.batch.script import EXITS
from pilotage.adapters.computing.options import LocalPath, Word, parse
from pilotage.adapters.computing.slurm import END_DOUBT, SlurmChoices, fitting
from pilotage.adapters.computing.slurmrest.slurmrestd import SlurmCredentials, SlurmService
from pilotage.adapters.computing.web_service import AnswerLost
from pilotage.ports.computing import Capacity, PilotOrder, PilotSize, PilotStatus, Submitted

NodePath = Annotated[str, Field(pattern=r"^(/[^\x00-\x1f\x7f]*)?$", max_length=1000)]
"""An absolute path on worker nodes; empty means none."""

SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmRestOptions(SlurmChoices):
    """Options of Slurm's REST service: its address, the credentials, and what pilots need at the site."""

    endpoint: Word
    """The service's URL: ``https://host:6820``."""
    user: Word
    """The user who owns the token."""
    token_file: Annotated[LocalPath, Field(min_length=1)]
    """A Slurm token, made by ``scontrol token``."""
    ca_path: LocalPath = ""
    """Trusted authorities: a file, or a folder with hashed names; empty: the system's."""
    directory: NodePath = ""
    """The worker node's directory for pilots; empty: its own directory for temporary files."""
    logs: NodePath = ""
    """A directory on all nodes for what pilots write before they reach the server; empty: nowhere."""
    python: Word = "python3"
    """The Python of worker nodes, 3.9 or newer."""
    environment: Mapping[str, str | int | float] = field(default_factory=dict)
    """Environment variables of pilots."""


class SlurmRest:
    """The computing element kind ``slurmrest``. ``SlurmRestOptions`` has its options."""

    credential_options = ("user", "token_file")
    end_doubt = END_DOUBT

    def __init__(self, options: Mapping[str, Any]) -> None:
        parsed = self._options = parse("slurmrest", SlurmRestOptions, options)
        credentials = SlurmCredentials(user=parsed.user, token_file=parsed.token_file, ca_path=parsed.ca_path)
        self._service = SlurmService(parsed.endpoint, credentials)
        self._partitions = queue_names(parsed.partition)

    def submit(self, orders: Sequence[PilotOrder]) -> Sequence[Submitted]:
        """Submit a job for each order that has none yet.

        Raises TimeoutError if a submission got no answer. When the orders come again, names find the accepted
        jobs.
        """
        if not orders:
            return []
        # Orders come again after a lost answer: the accepted jobs exist under their names.
        there = {job.name: number for number, job in self._service.jobs(fresh=True).items()}
        return [self._submitted(order, there.get(order.name, "")) for order in orders]

    def poll(self, references: Collection[str]) -> Mapping[str, PilotStatus]:
        """Return the status of pilots from one listing. A job that Slurm does not list is unknown."""
        parsed = references_in(references)
        jobs = self._service.jobs() if parsed else {}
        return {text: _status(parsed.get(text), jobs) for text in references}

    def cancel(self, references: Collection[str]) -> None:
        """End the pilots that are listed under their names."""
        parsed = references_in(references).values()
        jobs = self._service.jobs(fresh=True) if parsed else {}
        for reference in parsed:
            job = jobs.get(reference.job)
            # Slurm may restart its numbering: the number alone may belong to another job.
            if job is not None and job.name == reference.name and job.state != "ended":
                self._service.cancel(reference.job)

    def capacity(self) -> Capacity:
        """Return the partitions' processors, and everybody's jobs there."""
        partitions = [
            entry
            for entry in self._service.listing("partitions")
            if (
                entry.get("name") in self._partitions
                if self._partitions
                else "default" in entry.get("flags", ())
            )
        ]
        names = {str(entry.get("name")) for entry in partitions}
        running, waiting = self._service.population(names)
        total = sum(int(entry.get("total_cpus") or 0) for entry in partitions)
        scope = f"slurmrest {self._service.url} {' '.join(sorted(names))}"
        return Capacity(slots=total, running=running, waiting=waiting, everybody=True, scope=scope)

    def resources(self, size: PilotSize) -> int | None:
        """Return how many such pilots the partitions' nodes would run side by side (P8)."""
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
            number = self._number(order.name)
            if not number:
                raise TimeoutError(str(error)) from error
        except OSError as error:
            return Submitted(error=str(error))
        return Submitted(reference=str(Reference(number, order.name, order.name)))

    def _number(self, name: str) -> str:
        """Look up a job's number after a submission without an answer; empty if Slurm does not list it."""
        with suppress(OSError):
            return self._service.number(name)
        return ""

    def _document(self, order: PilotOrder) -> bytes:
        """Return the job in the service's form. Slurm shows its script, with the token, only to its owner."""
        options = self._options
        # Slurm reads % as the start of a pattern.
        log = f"{options.logs}/{order.name}.log".replace("%", "%%") if options.logs else "/dev/null"
        job = {
            "name": order.name,
            "current_working_directory": "/",
            "environment": {"PATH": SEARCH_PATH} | {k: str(v) for k, v in options.environment.items()},
            "standard_input": "/dev/null",
            "standard_output": log,
            "no_requeue": True,
            "tasks": 1,
            "cpus_per_task": order.cores,
            "memory_per_node": math.ceil(order.memory),
            "time_limit": math.ceil(order.walltime / 60),
            "partition": options.partition,
            "account": options.account,
            "qos": options.qos,
            "constraints": options.constraint,
            "gres": options.gres,
            "reservation": options.reservation,
        }
        # Leave it out, so that Slurm's default applies.
        fields = {name: value for name, value in job.items() if value}
        return json.dumps({"job": fields, "script": _script(order, options)}).encode()


def _script(order: PilotOrder, options: SlurmRestOptions) -> str:
    arguments = {
        "name": order.name,
        "token": order.token,
        "url": order.server_url,
        "directory": options.directory,
        "options": agent_options(order),
    }
    program = (files(__package__) / "start.py").read_text(encoding="utf-8")
    return with_python(options.python, f"- <<'END'\n{program}\nmain({arguments!r})\nEND")


def _status(reference: Reference | None, jobs: Mapping[str, BatchJob]) -> PilotStatus:
    job = jobs.get(reference.job) if reference else None
    if reference is None or job is None or job.name != reference.name:
        return PilotStatus(state="unknown", reason="Slurm does not list it", missing=reference is not None)
    words = EXITS.get(job.exit_code or 0, "") if job.state == "ended" else ""
    return job.status(words)


def _node_line(partition: Mapping[str, Any], node: Mapping[str, Any]) -> str:
    """Return a line about a node in a partition, as ``sinfo`` prints it in the format of
    ``slurm.NODES``."""
    name = f"{partition.get('name')}{'*' if 'default' in partition.get('flags', ()) else ''}"
    minutes = partition.get("max_time_limit")
    limit = f"{minutes}:00" if isinstance(minutes, int) and minutes > 0 else "infinite"
    up = str(partition.get("state")).lower()
    drained = {"DRAIN", "DOWN", "FAIL"} & set(node.get("state_flags", ()))
    state = "drain" if drained else node.get("state")
    return "|".join(map(str, (name, up, limit, state, 1, node.get("cpus"), node.get("real_memory"))))
