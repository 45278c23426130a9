"""Pilots in HTCondor's queue. One transaction submits clusters, one query by name shows them."""

import threading
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import platformdirs
from cachetools import FIFOCache

from pilotage.adapters.computing.htcondor.client import CondorClient, NotAnswered, ProcessClient
from pilotage.adapters.computing.htcondor.job_descriptions import (
    NAME,
    NAMES,
    PLAIN,
    HTCondorOptions,
    describe,
    forget_old_files,
    provide,
    quoted,
)
from pilotage.adapters.computing.options import parse, similar
from pilotage.ports.computing import (
    Capacity,
    ElementState,
    Excess,
    PilotOrder,
    PilotSize,
    PilotStatus,
    Submitted,
    counts,
)

STATES: Mapping[int, ElementState] = {
    1: "waiting",
    2: "running",
    3: "ended",
    4: "ended",
    5: "stuck",
    6: "running",
    7: "running",
}
"""HTCondor's JobStatus: idle, running, removed, completed, held, transferring output, suspended."""

HELD, SPOOLING, POLICY = 5, 16, 26
"""The status of a held job, and two codes of reasons: it waits for its files; a policy of the site."""

REMOVED, END_DOUBT = 3, 600.0
"""The status of a job that HTCondor removes, and the s of silence after which its pilot has ended: its
machine may be cut off."""

EXCESSES: Mapping[int, Excess] = {34: "memory", 46: "walltime", 47: "walltime"}
"""Limits for which HTCondor holds a job, by the code of the reason: memory, and the allowed durations."""

PROJECTION = (
    *("ClusterId", "ProcId", NAME, "JobStatus", "HoldReason", "HoldReasonCode", "HoldReasonSubCode"),
    *("ExitCode", "ExitSignal", "ExitBySignal", "RemoveReason"),
)
MOST_REMOVED = 100_000


class HTCondor:
    """The computing element kind ``htcondor``. ``HTCondorOptions`` has its options.

    A reference is ``CLUSTER.PROC#NAME``, with the pilot's name. ``client`` makes the calls.
    """

    credential_options = ("config_file", "token_file")
    end_doubt = END_DOUBT

    def __init__(self, options: Mapping[str, Any], client: CondorClient | None = None) -> None:
        parsed = self._options = parse("htcondor", HTCondorOptions, options)
        default = platformdirs.user_state_path("pilotage") / "htcondor"
        self._place = Path(parsed.directory or default).absolute()
        self._client = client or ProcessClient(parsed.config_file, parsed.token_file, parsed.ca_path)
        self._lock = threading.Lock()
        self._removed: FIFOCache[str, None] = FIFOCache(MOST_REMOVED)

    def submit(self, orders: Sequence[PilotOrder]) -> Sequence[Submitted]:
        """Submit the pilots that are not in the queue yet. Similar orders form one cluster."""
        if not orders:
            return []
        answers = {
            order.name: Submitted(error=f"{order.name!r} is no name for an attribute")
            for order in orders
            if not PLAIN.fullmatch(order.name)
        }
        good = [order for order in orders if order.name not in answers]
        answers |= {name: Submitted(reference=at) for name, at in self._there(good).items()}
        forget_old_files(self._place)
        for group in similar([order for order in good if order.name not in answers], len(orders)):
            answers |= self._cluster(group)
        return [answers[order.name] for order in orders]

    def poll(self, references: Collection[str]) -> Mapping[str, PilotStatus]:
        """Return states from one query, or two if the schedd materialises jobs late."""
        names = {name for reference in references if (name := _name(reference))}
        ads = {_reference(ad): ad for ad in self._query(names)} if names else {}
        missing = names - {str(ad[NAME]) for ad in ads.values()}
        unmade = self._unmade(missing) if missing and self._options.max_idle else {}
        with self._lock:
            removed = {reference for reference in references if reference in self._removed}
        return {
            reference: _status(ads[reference], self._options.policies)
            if reference in ads
            else PilotStatus(state="ended", reason="removed")
            if reference in removed
            else PilotStatus(state="waiting", reason="not materialised yet")
            if unmade.get(_name(reference)) == reference
            else PilotStatus(state="unknown", reason="it is not in the queue", missing=True)
            for reference in references
        }

    def cancel(self, references: Collection[str]) -> None:
        """Remove the jobs. A job that is materialised later finds its token void, and ends."""
        jobs = {reference: name for reference in references if (name := _name(reference))}
        if not jobs:
            return
        parts = []
        for reference, name in jobs.items():
            cluster, _, proc = reference.partition("#")[0].partition(".")
            # Match the name too: a reinstalled schedd gives the same numbers to other people's jobs.
            parts.append(f"(ClusterId == {cluster} && ProcId == {proc} && {NAME} == {quoted(name)})")
        # Record only jobs that were in the queue as removed. Others stay unknown.
        listed = {_reference(ad) for ad in self._query(set(jobs.values()))}
        self._call("remove", constraint=" || ".join(parts))
        with self._lock:
            self._removed.update(dict.fromkeys(listed & jobs.keys()))

    def capacity(self) -> Capacity:
        """Return everybody's running and waiting jobs of this schedd. It does not publish its slots."""
        constraint, projection = "JobStatus =!= 3 && JobStatus =!= 4", ("JobStatus",)
        ads = self._call("query", constraint=constraint, projection=projection, clusters=False)["ads"]
        running, waiting = counts(STATES.get(ad.get("JobStatus", 0), "unknown") for ad in ads)
        scope = f"htcondor {self._options.collector} {self._options.schedd}"
        return Capacity(running=running, waiting=waiting, everybody=True, scope=scope)

    def resources(self, size: PilotSize) -> int | None:
        """Return how many such pilots the pool's slots would run side by side (P8).

        Return None if the collector knows no slots. An HTCondor-CE's never does, wherever it sends its jobs.
        """
        sizes = [
            (cores, memory)
            for cores, memory in self._call("slots")["slots"]
            if isinstance(cores, int) and isinstance(memory, int)
        ]
        if not sizes:
            return None
        return sum(cores // size.cores for cores, memory in sizes if size.memory <= memory)

    def _cluster(self, orders: Sequence[PilotOrder]) -> dict[str, Submitted]:
        names = [order.name for order in orders]
        try:
            description = describe(orders[0], self._options, self._place, names)
            items = [provide(order, self._place) for order in orders]
            spool = bool(self._options.collector)
            numbers = self._call("submit", description=description, items=items, spool=spool)
        except OSError as error:
            references = {}
            if isinstance(error, NotAnswered) and error.reached:
                try:
                    references = self._there(orders)
                except OSError:
                    raise TimeoutError(f"pilots may or may not be submitted: {error}") from error
                if error.in_doubt and len(references) < len(names):
                    raise TimeoutError(str(error)) from error
            return {
                name: Submitted(reference=references[name])
                if name in references
                else Submitted(error=f"{name}: {error}")
                for name in names
            }
        cluster, first = int(numbers["cluster"]), int(numbers["first"])
        return {name: Submitted(reference=f"{cluster}.{first + at}#{name}") for at, name in enumerate(names)}

    def _there(self, orders: Sequence[PilotOrder]) -> dict[str, str]:
        """Return references by name of pilots already in the queue.

        Remove jobs that wait for their files in vain.
        """
        names = {order.name for order in orders}
        if not names:
            return {}
        references, vain = {}, []
        for ad in self._query(names):
            status = _status(ad, {})
            if ad.get("JobStatus") == HELD and ad.get("HoldReasonCode") == SPOOLING:
                vain.append(_reference(ad))
            elif status.state != "ended":
                references[str(ad[NAME])] = _reference(ad)
        self.cancel(vain)
        if self._options.max_idle:
            references |= self._unmade(names - references.keys())
        return references

    def _query(self, names: Collection[str]) -> list[dict[str, Any]]:
        """Return the jobs of these names. Skip ads that lack an attribute of our jobs."""
        listed = ", ".join(quoted(name) for name in sorted(names))
        constraint = f"member({NAME}, {{{listed}}})"
        ads = self._call("query", constraint=constraint, projection=PROJECTION, clusters=False)["ads"]
        return [
            ad
            for ad in ads
            if ad.get(NAME) in names
            and isinstance(ad.get("ClusterId"), int)
            and isinstance(ad.get("ProcId"), int)
        ]

    def _unmade(self, names: Collection[str]) -> dict[str, str]:
        """Return references by name of jobs that the schedd has yet to make, from the clusters' own ads."""
        projection = ("ClusterId", NAMES, "JobMaterializeNextProcId")
        ads = self._call("query", constraint=f"{NAMES} =!= undefined", projection=projection, clusters=True)
        references = {}
        for ad in ads["ads"]:
            following = ad.get("JobMaterializeNextProcId")
            if isinstance(following, int):
                for proc, name in enumerate(str(ad.get(NAMES, "")).split()):
                    if proc >= following and name in names:
                        references[name] = f"{ad['ClusterId']}.{proc}#{name}"
        return references

    def _call(self, call: str, **request: Any) -> dict[str, Any]:
        address = {"collector": self._options.collector, "schedd": self._options.schedd}
        return self._client.call({"call": call, **address, **request})


def _name(reference: str) -> str:
    """Return the pilot's name in a reference; empty if the reference is not ours."""
    job, _, name = reference.partition("#")
    cluster, _, proc = job.partition(".")
    good = all(part.isdecimal() and part.isascii() and len(part) < 10 for part in (cluster, proc))
    return name if good and PLAIN.fullmatch(name) else ""


def _reference(ad: Mapping[str, Any]) -> str:
    return f"{ad['ClusterId']}.{ad['ProcId']}#{ad[NAME]}"


def _status(ad: Mapping[str, Any], policies: Mapping[str, Excess]) -> PilotStatus:
    state = STATES.get(ad.get("JobStatus", 0), "unknown")
    if state == "ended":
        signal = ad.get("ExitSignal") if ad.get("ExitBySignal") is True else None
        code = -signal if isinstance(signal, int) else ad.get("ExitCode")
        return PilotStatus(
            state="ended",
            reason=_line(ad.get("RemoveReason")),
            exit_code=code if isinstance(code, int) else None,
            excess=_policy(str(ad.get("RemoveReason") or ""), None, policies),
            end_doubt=END_DOUBT if ad.get("JobStatus") == REMOVED else 0,
        )
    if state == "stuck":
        # HTCondor holds a job while its files arrive.
        code, reason = ad.get("HoldReasonCode"), _line(ad.get("HoldReason"))
        waits, subcode = code == SPOOLING, ad.get("HoldReasonSubCode")
        return PilotStatus(
            state="waiting" if waits else "stuck",
            reason=f"held: {reason}",
            excess=_policy(reason, subcode, policies) if code == POLICY else EXCESSES.get(code or 0, ""),
        )
    return PilotStatus(state=state)


def _policy(reason: str, subcode: object, policies: Mapping[str, Excess]) -> Excess:
    """Return the limit behind a site's own policy, by its subcode or a part of its reason; empty if unknown.

    A site words such a policy freely, so only the words that the operator names count.
    """
    matches = (
        excess
        for words, excess in policies.items()
        if words == str(subcode) or words.lower() in reason.lower()
    )
    return next(matches, "")


def _line(value: object) -> str:
    return " ".join(str(value or "").split())[:500]
