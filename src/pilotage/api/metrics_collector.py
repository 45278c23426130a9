"""What the metrics say, in Prometheus's text format."""

from collections import Counter
from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from pilotage.flow.calls import circuit_breakers
from pilotage.flow.runtime import Runtime
from pilotage.store import NoFederation

MOST_LABELS = 1000
"""Most values of one label. The smaller ones are added up as ``other``."""

OTHER = "other"


def exposition(runtime: Runtime) -> bytes:
    """Return all metrics as of now."""
    registry = CollectorRegistry()
    registry.register(_StoreCollector(runtime))
    return generate_latest(registry)


class _StoreCollector(Collector):
    """Reads the store when it is asked."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def describe(self) -> list[Metric]:
        """Name nothing: to register it must not ask the store."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        found = self._runtime.store.metrics_queries.counts()
        yield _gauge("jobs", "Jobs by queue, share and state.", ("queue", "share", "state"), found.jobs)
        yield _gauge("pilots", "Pilots by queue and state.", ("queue", "state"), found.pilots)
        yield _gauge(
            "transfers",
            "Transfers by link and state.",
            ("source", "destination", "direction", "state"),
            found.transfers,
        )
        yield _gauge("circuit_breakers", "Tripped circuit breakers.", ("kind", "state"), self._breakers())
        failing: dict[tuple[str, ...], int] = {(name,): 1 for name in self._runtime.set_aside.failing_loops}
        yield _gauge("loop_failing", "Loops of this server whose last pass failed.", ("loop",), failing)
        yield GaugeMetricFamily(
            "pilotage_notifications_unsent", "Notifications not sent yet.", found.unsent_notifications
        )
        yield GaugeMetricFamily("pilotage_database_size_bytes", "Bytes of the database.", found.database_size)

    def _breakers(self) -> Mapping[tuple[str, ...], int]:
        try:
            tripped = circuit_breakers.tripped(self._runtime)
        except NoFederation:
            return {}
        now = self._runtime.clock()
        return Counter((str(one.kind), str(one.state(now))) for one in tripped)


def _gauge(
    name: str, text: str, labels: tuple[str, ...], values: Mapping[tuple[str, ...], int]
) -> GaugeMetricFamily:
    """Return a metric whose labels have few values: of each label, the smallest ones are added up."""
    kept = []
    for place in range(len(labels)):
        sums = Counter[str]()
        for key, many in values.items():
            sums[key[place]] += many
        kept.append({value for value, _ in sums.most_common(MOST_LABELS)})
    bounded = Counter[tuple[str, ...]]()
    for key, many in values.items():
        words = zip(key, kept, strict=True)
        bounded[tuple(word if word in known else OTHER for word, known in words)] += many
    family = GaugeMetricFamily(f"pilotage_{name}", text, labels=labels)
    for key in sorted(bounded):
        family.add_metric(key, bounded[key])
    return family
