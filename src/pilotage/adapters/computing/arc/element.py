"""Pilots at an ARC computing element. One call creates, feeds, lists or ends many of them."""

import re
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from cachetools import FIFOCache

from pilotage.adapters.computing.agent_file import pilot_file
from pilotage.adapters.computing.arc.job_descriptions import PILOT, TOKEN, adl
from pilotage.adapters.computing.arc.resources import population, resources, slots
from pilotage.adapters.computing.arc.rest_calls import MOST_AT_ONCE, ArcJob, ArcJobs
from pilotage.adapters.computing.options import LocalPath, Word, batches, parse
from pilotage.adapters.computing.web_service import AnswerLost, Credentials, WebService
from pilotage.ports.computing import (
    Capacity,
    ElementState,
    Excess,
    PilotOrder,
    PilotSize,
    PilotStatus,
    Submitted,
)

STATES: Mapping[str, ElementState] = {
    **dict.fromkeys(("ACCEPTING", "ACCEPTED", "PREPARING", "PREPARED", "SUBMITTING"), "waiting"),
    "QUEUING": "waiting",
    # Administrators, or their plugins, hold it and let it go again.
    "HELD": "stuck",
    **dict.fromkeys(("RUNNING", "EXITINGLRMS", "OTHER", "EXECUTED", "FINISHING", "KILLING"), "running"),
    **dict.fromkeys(("FINISHED", "FAILED", "KILLED", "WIPED"), "ended"),
}
"""ARC's states. A job in any other state counts as unknown."""

EXCESSES: Sequence[tuple[str, Excess]] = (
    ("job killed: vmem", "memory"),
    ("job killed: mem", "memory"),
    ("job killed: wall", "walltime"),
    ("job killed: cput", "walltime"),
    ("job timeout", "walltime"),
)
"""Parts, in lower case, of the error of a job that the batch system behind ARC ended for a limit."""

UPLOADING = ("ACCEPTING", "ACCEPTED", "PREPARING")
"""States in which a job accepts its input files."""

MOST_NAMES = 100_000
_JOB = re.compile(r"[A-Za-z0-9]{1,128}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArcOptions:
    """Options of an ARC service: its address, the credentials, and what pilots need at the site."""

    endpoint: Word
    """The service's URL: ``https://host:443/arex``. The scheme and the usual path may be left out."""
    certificate_file: LocalPath = ""
    """A certificate or a proxy. It includes the key, unless ``key_file`` names one."""
    key_file: LocalPath = ""
    """The certificate's key."""
    token_file: LocalPath = ""
    """A bearer token."""
    ca_path: LocalPath = ""
    """Trusted authorities: a file, or a folder with hashed names; empty: the system's."""
    queue: Word | None = None
    """The batch system's queue; none: ARC chooses one."""
    runtime_environments: tuple[Word, ...] = ()
    """The site's runtime environments to set up for pilots."""
    python: Word = "python3"
    """The Python of worker nodes, 3.9 or newer."""


class Arc:
    """The computing element kind ``arc``. ``ArcOptions`` has its options."""

    credential_options = ("certificate_file", "key_file", "token_file")
    end_doubt = 0.0

    def __init__(self, options: Mapping[str, Any]) -> None:
        parsed = self._options = parse("arc", ArcOptions, options)
        self._endpoint = _url(parsed.endpoint)
        credentials = Credentials(
            certificate_file=parsed.certificate_file,
            key_file=parsed.key_file,
            token_file=parsed.token_file,
            ca_path=parsed.ca_path,
        )
        self._jobs = ArcJobs(WebService(self._endpoint, credentials))
        self._lock = threading.Lock()
        self._names: FIFOCache[str, str] = FIFOCache(MOST_NAMES)

    def submit(self, orders: Sequence[PilotOrder]) -> Sequence[Submitted]:
        """Create a job for each order that has none yet. Upload the agent and its token to it.

        A job without these files never starts. So a job does no harm if the answer to its creation is lost.
        The adapter finds it by name when the order comes again, or ARC drops it after some minutes. Raises
        TimeoutError if the caller should send the orders again.
        """
        if not orders:
            return []
        # An order comes again if its answer was lost: then its job exists already.
        there = self._living({order.name for order in orders})
        new = [order for order in orders if order.name not in there]
        for batch in batches(new, MOST_AT_ONCE):
            there |= self._created(batch)
        return [self._provided(order, there[order.name]) for order in orders]

    def poll(self, references: Collection[str]) -> Mapping[str, PilotStatus]:
        """Return the states that ARC's information provider last saw, and why jobs ended."""
        jobs = {reference: job for reference in references if (job := self._job(reference))}
        states = self._jobs.states(jobs.values()) if jobs else {}
        ended = [job for job in jobs.values() if STATES.get(states.get(job, "")) == "ended"]
        records = self._jobs.activities(ended) if ended else {}
        return {
            reference: _status(
                states.get(jobs.get(reference, ""), ""), records.get(jobs.get(reference, ""), {})
            )
            for reference in references
        }

    def cancel(self, references: Collection[str]) -> None:
        """Ask ARC to kill the jobs. It does so in its next round."""
        if jobs := [job for reference in references if (job := self._job(reference))]:
            self._jobs.kill(jobs)

    def capacity(self) -> Capacity:
        """Return the slots of the batch system behind ARC, and everybody's jobs in the queue.

        Where ARC publishes no such counts, return this identity's current jobs.
        """
        service, queue = self._jobs.computing_service(), self._options.queue or ""
        scope = f"arc {self._endpoint} {queue}"
        if jobs := population(service, queue):
            running, waiting = jobs
            return Capacity(
                slots=slots(service), running=running, waiting=waiting, everybody=True, scope=scope
            )
        states: list[ElementState] = [STATES.get(state, "unknown") for state in self._jobs.live().values()]
        return Capacity.of(states, slots=slots(service), scope=scope)

    def resources(self, size: PilotSize) -> int | None:
        """Return how many such pilots the batch system behind ARC would run side by side (P8)."""
        return resources(self._jobs.computing_service(), self._options.queue or "", size)

    def _living(self, names: Collection[str]) -> dict[str, ArcJob]:
        """Return the jobs with these names that have not ended."""
        live = self._jobs.live()
        with self._lock:
            unknown = [job for job in live if job not in self._names]
        self._remember(self._jobs.names(unknown) if unknown else {})
        with self._lock:
            named = {self._names.get(job, ""): ArcJob(job, state) for job, state in live.items()}
        return {name: job for name, job in named.items() if name in names}

    def _created(self, orders: Sequence[PilotOrder]) -> dict[str, ArcJob]:
        names = [order.name for order in orders]
        described = adl(orders, self._options.queue or "", self._options.runtime_environments)
        try:
            entries = self._jobs.create(described, len(orders))
        except OSError as error:
            if not isinstance(error, AnswerLost):
                return {name: ArcJob("", "", str(error)) for name in names}
            jobs: dict[str, ArcJob] = {}
            with suppress(OSError):
                jobs = self._living(names)
            if len(jobs) < len(names):
                raise TimeoutError(str(error)) from error
            return jobs
        self._remember({job.id: name for name, job in zip(names, entries, strict=True) if job.id})
        return dict(zip(names, entries, strict=True))

    def _provided(self, order: PilotOrder, job: ArcJob) -> Submitted:
        """Upload what the job needs to start, its token last. Kill the job if the upload fails."""
        if job.error:
            return Submitted(error=f"{order.name}: {job.error}")
        try:
            if job.state in UPLOADING:
                self._jobs.upload(job.id, PILOT, pilot_file(order, self._options.python, TOKEN))
                self._jobs.upload(job.id, TOKEN, order.token.encode())
        except OSError as error:
            with suppress(OSError):
                self._jobs.kill([job.id])
            return Submitted(error=f"{order.name}: its files are not taken: {error}")
        return Submitted(reference=f"{self._endpoint}/{job.id}")

    def _remember(self, names: Mapping[str, str]) -> None:
        with self._lock:
            # Ask again for one without a name.
            self._names.update({job: name for job, name in names.items() if name})

    def _job(self, reference: str) -> str:
        """Return the job id in a reference of this service; empty if the reference is not ours."""
        place, _, job = reference.rpartition("/")
        return job if place == self._endpoint and _JOB.fullmatch(job) else ""


def _url(endpoint: str) -> str:
    """Return the full URL of a service. People may leave out the scheme and the usual path."""
    url = endpoint if "://" in endpoint else f"https://{endpoint}"
    return url.rstrip("/") if url.rstrip("/").count("/") > 2 else f"{url.rstrip('/')}/arex"


def _status(state: str, record: Mapping[str, Any]) -> PilotStatus:
    meaning = STATES.get(state, "unknown")
    if meaning == "unknown":
        explanation = f"ARC calls it {state}" if state else "ARC does not know it now"
        return PilotStatus(state="unknown", reason=explanation, missing=not state)
    if meaning != "ended":
        release = (
            ": it starts when the administrators of the service release it" if meaning == "stuck" else ""
        )
        return PilotStatus(state=meaning, reason=f"ARC: {state}{release}")
    code = str(record.get("ExitCode", ""))
    reason = "; ".join(_texts(record.get("Error"))) or f"ARC: {state}"
    words = reason.lower()
    return PilotStatus(
        state="ended",
        reason="".join(char if char.isprintable() else " " for char in reason[:1000]),
        exit_code=int(code) if code.isdecimal() and len(code) < 12 else None,
        excess=next((excess for part, excess in EXCESSES if part in words), ""),
    )


def _texts(value: object) -> Iterable[str]:
    return [value] if isinstance(value, str) else map(str, value) if isinstance(value, list) else []
