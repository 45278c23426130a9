"""What the metrics say, in Prometheus's text format.

Counters and histograms are the store's. Each process adds its measurements. So any server answers for all
processes, also for those without an API (decision 49).
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from pilotage.flow.calls.places import circuit_breakers
from pilotage.flow.calls.work import pending_jobs
from pilotage.flow.runtime import Runtime
from pilotage.flow.steps import STEPS
from pilotage.model.records.federation import Federation
from pilotage.model.records.measurements import LAST_PASS, MEASURES, Measurement
from pilotage.model.rules.credential_ends import to_show
from pilotage.release import full_version
from pilotage.server.api.administration.known_series import known_series
from pilotage.store import MeasuredKey, NoFederation, share_uses

MOST_LABELS = 1000
"""Most values of one label. The smaller ones are added up as ``other``."""

OTHER = "other"

MOST_ENDS = 100
"""Most ends of each kind, the next ones."""

SILENT_AFTER = 5
"""How many times ``loops.heartbeat`` a running pilot may be silent before it counts as silent."""

PREFIX = "pilotage_"

Labels = tuple[str, ...]
Values = Mapping[Labels, float]


def exposition(runtime: Runtime, lacks: Mapping[pending_jobs.Lack, int]) -> bytes:
    """Return all metrics as of now. ``lacks`` are pending jobs by the reason why they wait."""
    registry = CollectorRegistry()
    registry.register(_StoreCollector(runtime, lacks))
    return generate_latest(registry)


class _StoreCollector(Collector):
    """Reads the store at each request."""

    def __init__(self, runtime: Runtime, lacks: Mapping[pending_jobs.Lack, int]) -> None:
        self._runtime = runtime
        self._lacks = lacks

    def describe(self) -> list[Metric]:
        """Name nothing: to register it must not ask the store."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        counts = self._runtime.store.metrics_queries.counts()
        lacks: Values = {(lack.rule, lack.mend): count for lack, count in self._lacks.items()}
        link = ("source", "destination", "direction", "state")
        yield _gauge("jobs", "Jobs by queue, share and state.", ("queue", "share", "state"), counts.jobs)
        yield _gauge("jobs_pending", "Jobs that no queue takes, by what is missing.", ("rule", "mend"), lacks)
        yield _gauge("pilots", "Pilots by queue and state.", ("queue", "state"), counts.pilots)
        yield _gauge("transfers", "Transfers by link and state.", link, counts.transfers)
        unsent: Values = {(): counts.unsent_notifications}
        yield _gauge("notifications_unsent", "Notifications not sent yet.", (), unsent)
        oldest: Values = {} if counts.oldest_unsent is None else {(): counts.oldest_unsent}
        text = "When the oldest notification was made that is not sent, in s since 1970 UTC."
        yield _gauge("notification_oldest_timestamp_seconds", text, (), oldest)
        text = "When a token, certificate or file of credentials ends, in s since 1970 UTC."
        yield _gauge("credential_end_timestamp_seconds", text, ("kind", "name"), self._ends())
        yield _gauge("database_size_bytes", "Bytes of the database.", (), {(): counts.database_size})
        federation = self._federation()
        if federation is not None:
            yield from self._of_federation(federation)
        servers = Counter[Labels]((str(server.state),) for server in self._runtime.store.servers.everything())
        # Alerts compare both numbers.
        by_state: Values = {("live",): 0, ("silent",): 0, **servers}
        yield _gauge("servers", "Starts of servers within a day, by state.", ("state",), by_state)
        yield from self._of_process()
        loops = [step.name for step in STEPS if step.has_loop]
        yield from _of_measurements(known_series(counts, federation, loops) | counts.measured)

    def _ends(self) -> Values:
        """Return the next ends of each kind: of tokens by their bearer."""
        ends: dict[Labels, float] = {}
        shown = Counter[str]()
        store = self._runtime.store
        for credential in to_show(store.credential_ends.all(), store.clock()):
            name = credential.holder if credential.kind == "token" else ""
            name = name or credential.name
            if shown[credential.kind] < MOST_ENDS and (credential.kind, name) not in ends:
                shown[credential.kind] += 1
                ends[credential.kind, name] = credential.end
        return ends

    def _federation(self) -> Federation | None:
        try:
            return self._runtime.store.federation()
        except NoFederation:
            return None

    def _of_federation(self, federation: Federation) -> Iterator[Metric]:
        uses = share_uses(self._runtime.store.queries.shares())
        tripped = circuit_breakers.tripped(self._runtime)
        used: Values = {(use.name, use.share.vo): use.used for use in uses}
        target: Values = {(use.name, use.share.vo): use.target for use in uses}
        statuses: Values = {(queue.name, queue.site, str(queue.status)): 1 for queue in federation.queues}
        labels = ("share", "vo")
        yield _gauge("share_used_ratio", "A share's part of the running jobs.", labels, used)
        yield _gauge("share_target_ratio", "A share's part of all targets.", labels, target)
        yield _gauge("queue_info", "1 for each queue, with its status.", ("queue", "site", "state"), statuses)
        period: Values = {(): federation.loops.period}
        yield _gauge("loop_period_seconds", "Longest pause of a loop that finds nothing to do.", (), period)
        now = self._runtime.clock()
        breakers = Counter[Labels]((str(breaker.kind), str(breaker.state(now))) for breaker in tripped)
        yield _gauge("circuit_breakers", "Tripped circuit breakers.", ("kind", "state"), breakers)
        yield from self._of_places(federation, now)

    def _of_places(self, federation: Federation, now: float) -> Iterator[Metric]:
        since = now - SILENT_AFTER * federation.loops.heartbeat
        silent: Values = {
            **{(queue.name,): 0 for queue in federation.queues},
            **self._runtime.store.metrics_queries.silent_pilots(since),
        }
        text = f"Running pilots that did not call for {SILENT_AFTER} times their pace, by queue."
        yield _gauge("pilots_silent", text, ("queue",), silent)
        ended = Counter[Labels]()
        for group in self._runtime.store.queries.ended_pilots():
            ended[(group.queue,)] += group.jobs
        text = "Jobs at pilots whose batch job has ended: they go on elsewhere once that is sure."
        yield _gauge("jobs_pilot_ended", text, ("queue",), dict.fromkeys(silent, 0) | ended)
        spaces = self._runtime.world("storage_spaces").free_spaces
        free: Values = {
            (name,): space.gigabytes * 1e9 for name, space in spaces.items() if space.gigabytes is not None
        }
        size: Values = {
            (name,): space.total * 1e9 for name, space in spaces.items() if space.total is not None
        }
        text = "Free bytes of a storage, measured or declared."
        yield _gauge("storage_free_bytes", text, ("storage",), free)
        yield _gauge("storage_size_bytes", "Size of a storage that reports it.", ("storage",), size)

    def _of_process(self) -> Iterator[Metric]:
        failing: Values = {(name,): 1 for name in self._runtime.set_aside.failing_loops}
        yield _gauge("loop_failing", "Loops of this server whose last pass failed.", ("loop",), failing)
        version: Values = {(full_version(),): 1}
        yield _gauge("build_info", "1, with this server's version.", ("version",), version)


def _of_measurements(measured: Mapping[MeasuredKey, float]) -> Iterator[Metric]:
    by_name: dict[str, dict[Labels, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for key, value in measured.items():
        by_name[key.name][key.labels][key.part] = value
    for name, measure in MEASURES.items():
        yield (_histogram if measure.bounds else _counter)(measure, by_name.get(name, {}))
    last = {labels: max(parts.values()) for labels, parts in by_name.get(LAST_PASS, {}).items()}
    text = "When the last pass of a loop ended, in s since 1970 UTC, in whatever process."
    yield _gauge("loop_last_pass_timestamp_seconds", text, ("loop",), last)


def _counter(measure: Measurement, series: Mapping[Labels, Mapping[str, float]]) -> Metric:
    family = CounterMetricFamily(f"{PREFIX}{measure.name}", measure.text, labels=measure.labels)
    for labels, parts in _bounded(measure.labels, series):
        family.add_metric(labels, parts.get("", 0))
    return family


def _histogram(measure: Measurement, series: Mapping[Labels, Mapping[str, float]]) -> Metric:
    family = HistogramMetricFamily(f"{PREFIX}{measure.name}", measure.text, labels=measure.labels)
    for labels, parts in _bounded(measure.labels, series):
        so_far, buckets = 0.0, []
        for bound in (*measure.bounds, math.inf):
            so_far += parts.get(repr(bound), 0)
            buckets.append(("+Inf" if math.isinf(bound) else repr(bound), so_far))
        family.add_metric(labels, buckets, parts.get("sum", 0))
    return family


def _gauge(name: str, text: str, labels: Sequence[str], values: Values) -> Metric:
    family = GaugeMetricFamily(f"{PREFIX}{name}", text, labels=labels)
    for key, parts in _bounded(labels, {key: {"": value} for key, value in values.items()}):
        family.add_metric(key, parts[""])
    return family


def _bounded(
    labels: Sequence[str], series: Mapping[Labels, Mapping[str, float]]
) -> list[tuple[Labels, dict[str, float]]]:
    """Return series with a bounded number of values for each label: the smallest ones are added up."""
    frequent = []
    for place in range(len(labels)):
        sums: dict[str, float] = defaultdict(float)
        for key, parts in series.items():
            sums[key[place]] += sum(parts.values())
        frequent.append({*sorted(sums, key=lambda value: (-sums[value], value))[:MOST_LABELS]})
    bounded: dict[Labels, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for key, parts in series.items():
        words = zip(key, frequent, strict=True)
        totals = bounded[tuple(word if word in allowed else OTHER for word, allowed in words)]
        for part, value in parts.items():
            totals[part] += value
    return sorted(bounded.items())
