"""Predictions for waiting jobs: when each would end at its queue, and when at another (E2, E3)."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from pilotage.model.documents.world import QueueReport, World
from pilotage.model.records.federation import Queue
from pilotage.model.records.states import AT_A_PILOT, UNSTARTED_JOBS, JobState
from pilotage.model.records.work import Job, JobKind, Task
from pilotage.model.rules.likely_ends import expected_run
from pilotage.model.rules.sources import Sources, throughput_of

MEGABYTE = 1e6

_NOWHERE: frozenset[str] = frozenset()


# A tuple, because a pass makes hundreds: a frozen dataclass takes three times as long.
class Prediction(NamedTuple):
    """The expected end of a job at its own queue ("there"), and at the queue that might take it ("here").
    Times are in s.

    ``ahead`` counts the jobs of its share before it. ``staging`` are the MB of inputs that are missing there,
    ``arrival`` is the delay by them. ``read`` is the time to read inputs here; infinity without a known link.
    ``nothing_for`` is the time since a job of any share started there, if none of its share runs; it is the
    expected wait then.
    """

    ahead: int = 0
    wait: float = 0
    staging: float = 0
    arrival: float = 0
    run_there: float = 0
    run_here: float = 0
    read: float = 0
    nothing_for: float = 0

    @property
    def there(self) -> float:
        """Return the seconds until it would end at its own queue."""
        return self.wait + self.arrival + self.run_there

    @property
    def here(self) -> float:
        """Return the seconds until it would end here: its run, or reading its inputs if that is longer."""
        return max(self.run_here, self.read)

    @property
    def gain(self) -> float:
        """Return the seconds that it would end sooner here."""
        return self.there - self.here


@dataclass(slots=True)
class Predictions:
    """Predictions from a world for jobs at their own queues and at the queue that might take them."""

    world: World
    taker: Queue
    _queues: Mapping[str, Queue] = field(init=False)
    _reports: Mapping[str, QueueReport] = field(init=False)
    _tasks: Mapping[int, Task] = field(init=False)
    _megabytes: Mapping[str, float] = field(init=False)
    _sources: Sources = field(init=False)
    _holders: Mapping[str, frozenset[str]] = field(init=False)
    _waiting: Counter[tuple[str, str]] = field(init=False, default_factory=Counter)
    _running: Counter[tuple[str, str]] = field(init=False, default_factory=Counter)
    _reader_rates: defaultdict[str, float] = field(init=False)
    # Equal for all similar jobs, or files in the same places: compute each once.
    _runs: dict[tuple[int, JobKind, str, int, str], tuple[float, float]] = field(
        init=False, default_factory=dict
    )
    _read_at: dict[frozenset[str], str | None] = field(init=False, default_factory=dict)
    _rates: dict[tuple[frozenset[str], str], float | None] = field(init=False, default_factory=dict)
    _rates_here: dict[str, float | None] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        world = self.world
        self._queues = {queue.name: queue for queue in world.federation.queues}
        self._reports = {report.queue: report for report in world.queue_reports}
        self._tasks = {task.id: task for task in world.tasks}
        self._megabytes = {file.name: file.size / MEGABYTE for file in world.files}
        self._sources = Sources(world.federation, world.storage_breakers)
        holders: defaultdict[str, set[str]] = defaultdict(set)
        for replica in world.replicas:
            holders[replica.file].add(replica.storage)
        self._holders = {name: frozenset(storages) for name, storages in holders.items()}
        for count in world.job_counts:
            if count.state in UNSTARTED_JOBS:
                self._waiting[count.queue, count.share] += count.jobs
            elif count.state in AT_A_PILOT:
                self._running[count.queue, count.share] += count.jobs
        self._reader_rates = defaultdict(float)
        for borrowing in world.borrowings:
            for site, rate in borrowing.reads.items():
                if borrowing.site == self.taker.site:
                    self._reader_rates[site] += rate

    def of(self, job: Job, followers: int, reads: Mapping[str, float] | None) -> Prediction:
        """Return the prediction of a job with ``followers`` jobs behind it in its line.

        ``reads`` are the MB that it would read remotely by site; None if an input is not available here.
        """
        line = job.queue, job.share
        ahead = max(0, self._waiting[line] - 1 - followers)
        run_there, run_here = self._both_runs(job)
        staging, arrival = self._arrival(job) if job.inputs else (0.0, 0.0)
        if job.state is not JobState.ASSIGNED:
            # It waits for no delivery: it reads its inputs while it runs.
            arrival = max(0.0, arrival - run_there)
        nothing_for = self._nothing_for(job)
        return Prediction(
            ahead=ahead,
            wait=nothing_for or self._wait(job, ahead, run_there),
            staging=staging,
            arrival=arrival,
            run_there=run_there,
            run_here=run_here,
            read=inf if reads is None else sum(map(self._over, reads, reads.values())),
            nothing_for=nothing_for,
        )

    def needed(self, prediction: Prediction) -> float:
        """Return the least gain in s for borrowing a job: predictions err, and moving bytes has a cost."""
        constants = self.world.federation.binding
        return constants.least_gain + constants.run_part * prediction.run_here

    def reads(self, job: Job) -> dict[str, float] | None:
        """Return the MB that a job would read remotely by site; None if an input is not available
        anywhere."""
        if not job.inputs:
            return {}
        megabytes: defaultdict[str, float] = defaultdict(float)
        for name in dict.fromkeys(job.inputs):
            holders = self._holders.get(name, _NOWHERE)
            if self.taker.storage not in holders:
                if (site := self._site_of(holders)) is None:
                    return None
                megabytes[site] += self._megabytes[name]
        return dict(megabytes)

    def _site_of(self, holders: frozenset[str]) -> str | None:
        """Return the source site for a remote read of a missing file; None if there is none."""
        if holders not in self._read_at:
            source = self._sources.promises(holders, self.taker.storage)
            self._read_at[holders] = source.site if source else None
        return self._read_at[holders]

    def obstacle(self, job: Job, prediction: Prediction, reads: Mapping[str, float] | None) -> str:
        """Return why a job's inputs should not be read remotely here; empty if they may be (E3)."""
        if reads is None:
            return (
                "its pilots can read an input from nowhere, or from storages with open circuit breakers alone"
            )
        if not reads:
            return ""
        if job.attempt > 1:
            return "it was tried before, and would be read from afar"
        for site in sorted(reads):
            rate = self._rate(site)
            if rate is not None and self._reader_rates[site] >= rate > 0:
                return f"the readers of the link from {site} hold its {rate:g} MB/s already"
        unknown = prediction.read == inf
        durations = f"reading takes {prediction.read:.0f} s, and the job {prediction.run_here:.0f} s"
        slow = durations if prediction.read > prediction.run_here else ""
        return f"no rate is known of the link from {' or '.join(sorted(reads))}" if unknown else slow

    def _wait(self, job: Job, ahead: int, run: float) -> float:
        """Return the wait in s: the jobs ahead, divided by the running jobs of the share, times the mean run
        there."""
        report, slots = self._reports.get(job.queue), self._running[job.queue, job.share]
        return ahead / slots * (report.mean_run if report and report.mean_run else run) if slots else 0.0

    def _nothing_for(self, job: Job) -> float:
        """Return the seconds since anything started there, or of the job's own wait; 0 while its share
        runs."""
        if self._running[job.queue, job.share]:
            return 0.0
        report = self._reports.get(job.queue)
        started = report.last_start if report else None
        return self.world.time - min(job.since, self.world.time if started is None else started)

    def _both_runs(self, job: Job) -> tuple[float, float]:
        """Return a job's expected seconds at its own queue, and here; the same for all similar jobs."""
        key = job.task, job.kind, job.changes, job.events, job.queue
        seconds = self._runs.get(key)
        if seconds is None:
            seconds = self._run(job, self._queues.get(job.queue)), self._run(job, self.taker)
            self._runs[key] = seconds
        return seconds

    def _run(self, job: Job, queue: Queue | None) -> float:
        """Return a job's expected run at a queue in s; without a stated time, the mean run of payloads
        there."""
        if queue is None:
            return 0.0
        report = self._reports.get(job.queue)
        return expected_run(self._tasks[job.task], job, queue, report.mean_run if report else None)

    def _arrival(self, job: Job) -> tuple[float, float]:
        """Return the MB of a job's inputs missing at its own queue, and the s that their transfers take."""
        queue = self._queues.get(job.queue)
        if queue is None:
            return 0.0, 0.0
        megabytes, seconds = 0.0, 0.0
        for name in dict.fromkeys(job.inputs):
            holders = self._holders.get(name, _NOWHERE)
            if queue.storage not in holders:
                rate = self._staging_rate(holders, queue)
                megabytes += self._megabytes[name]
                seconds += self._megabytes[name] / rate if rate else 0.0
        return megabytes, seconds

    def _staging_rate(self, holders: frozenset[str], queue: Queue) -> float | None:
        """Return the MB/s of the link from a file's best source to a queue; None if unmeasured."""
        key = holders, queue.name
        if key not in self._rates:
            ranked = self._sources.ranked(holders, queue.storage)
            source = self._sources.storage(ranked[0]) if ranked else None
            link = self._sources.link(source.site, queue.site) if source else None
            self._rates[key] = throughput_of(link) if link else None
        return self._rates[key]

    def _over(self, site: str, megabytes: float) -> float:
        """Return the seconds to read this many MB at the free rate of the link from a site."""
        rate = self.free_rate(site)
        return megabytes / rate if rate > 0 else inf

    def free_rate(self, site: str) -> float:
        """Return the free MB/s on the link from a site; 0 if unmeasured."""
        rate = self._rate(site)
        return 0.0 if rate is None else rate - self._reader_rates[site]

    def _rate(self, site: str) -> float | None:
        """Return the MB/s of the link from a site; infinity within the same site, None if unmeasured."""
        if site not in self._rates_here:
            self._rates_here[site] = self._sources.rate(site, self.taker.site)
        return self._rates_here[site]
