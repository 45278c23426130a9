"""A schedd in memory behind the real client's classes, which judge descriptions and constraints.

No HTCondor daemon can be had as a package; what a real schedd does with a job is not seen here.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("CONDOR_CONFIG", "ONLY_ENV")

import classad2
import htcondor2

from pilotage.adapters.computing.htcondor.client import NotAnswered
from pilotage.adapters.computing.htcondor.client_calls import answer


@dataclass
class Queue:
    """Its jobs, and the slots of its pool, as their ads.

    ``lost`` answers are of calls that were made, ``down`` refuses them all.
    """

    ads: list[Any] = field(default_factory=list)
    clusters: list[Any] = field(default_factory=list)
    submissions: list[Mapping[str, str]] = field(default_factory=list)
    spooled: list[int] = field(default_factory=list)
    requests: list[Mapping[str, Any]] = field(default_factory=list)
    lost: bool = False
    down: bool = False
    spool_fails: bool = False
    slots: list[Any] = field(default_factory=list)

    def call(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """As the adapter's client, without a process for each call."""
        self.requests.append(request)
        told = answer(self._module(), request)
        if self.lost and request["call"] == "submit":
            raise NotAnswered("no answer", reached=True)
        if "error" in told:
            raise NotAnswered(told["error"], reached=told["reached"])
        return told

    def ad(self, name: str) -> Any:
        """The ad of a pilot's job."""
        return next(ad for ad in self.ads if ad["PilotagePilot"] == name)

    def _module(self) -> Any:
        def collector(pool: str | None) -> Any:
            if self.down:
                raise htcondor2.HTCondorException("Failed to connect")
            return SimpleNamespace(locate=lambda _, name: {"pool": pool, "name": name}, query=self._of_pool)

        return SimpleNamespace(
            Submit=htcondor2.Submit,
            QueryOpt=htcondor2.QueryOpt,
            JobAction=htcondor2.JobAction,
            DaemonType=htcondor2.DaemonType,
            AdType=htcondor2.AdType,
            Collector=collector,
            Schedd=lambda _: collector(None) and Schedd(self),
        )

    def _of_pool(self, kind: Any, constraint: str, projection: list[str]) -> list[Any]:
        """The ads of slots that a constraint holds for, less what is not asked for."""
        assert kind == htcondor2.AdType.Startd
        wanted = classad2.ExprTree(constraint)
        return [
            classad2.ClassAd({name: ad[name] for name in projection if name in ad})
            for ad in self.slots
            if wanted.eval(ad) is True
        ]


class Schedd:
    """The calls of ``htcondor2.Schedd`` that pilots need."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    def submit(self, description: Any, spool: bool, itemdata: Iterator[Mapping[str, str]]) -> Any:
        """Make the jobs, held where their files are to be sent; of ``max_idle`` jobs only as many."""
        said = dict(description)
        cluster = len(self._queue.clusters) + 1
        self._queue.submissions.append(said)
        items = list(itemdata)
        made = items[: int(said.get("max_idle", len(items)))]
        own = {"ClusterId": cluster, "JobMaterializeNextProcId": len(made)}
        if "My.PilotagePilots" in said:
            own["PilotagePilots"] = said["My.PilotagePilots"].strip('"')
        self._queue.clusters.append(classad2.ClassAd(own))
        for proc, item in enumerate(made):
            name = said["My.PilotagePilot"].strip('"').replace("$(pilot)", item["pilot"])
            state = {"JobStatus": 5, "HoldReasonCode": 16} if spool else {"JobStatus": 1}
            job = {"ClusterId": cluster, "ProcId": proc, "PilotagePilot": name, **state}
            self._queue.ads.append(classad2.ClassAd(job))
        return SimpleNamespace(cluster=lambda: cluster, first_proc=lambda: 0)

    def spool(self, result: Any) -> None:
        """Release the jobs of a submission, whose files have come."""
        if self._queue.spool_fails:
            raise htcondor2.HTCondorException("SPOOL is full")
        self._queue.spooled.append(result.cluster())
        for ad in self._queue.ads:
            if ad["ClusterId"] == result.cluster():
                ad["JobStatus"] = 1

    def query(self, constraint: str, projection: list[str], opts: Any) -> list[Any]:
        """The ads that a constraint holds for, as the ClassAd library judges it."""
        wanted = classad2.ExprTree(constraint)
        clusters = self._queue.clusters if opts == htcondor2.QueryOpt.IncludeClusterAd else []
        return [ad for ad in [*self._queue.ads, *clusters] if wanted.eval(ad) is True]

    def act(self, action: Any, spec: str, reason: str) -> None:
        """Remove jobs, which leave the queue."""
        assert action == htcondor2.JobAction.Remove
        constraint = f"ClusterId == {spec}" if spec.isdecimal() else spec
        gone = self.query(constraint, [], htcondor2.QueryOpt.Default)
        self._queue.ads = [ad for ad in self._queue.ads if not any(ad is one for one in gone)]
