"""Metrics for Prometheus: any server of a store answers the same, but for its own loops."""

import hmac
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from pilotage.flow.calls import circuit_breakers
from pilotage.flow.runtime import Runtime
from pilotage.store import NoFederation

from .access import KnownTokens, bearer_of

PATH = "/metrics"
"""Where Prometheus reads. It has a token of its own, and no session."""

KEPT_FOR = 5.0
"""Seconds for which an answer is given again, however many ask."""

MOST_LABELS = 1000
"""Most values of one label. The smaller ones are added up as ``other``."""

OTHER = "other"


class MetricsPage:
    """Answers Prometheus. A reader has the ``token``, unless it is empty, or an operator's."""

    def __init__(self, runtime: Runtime, token: str) -> None:
        self._token = token
        self._registry = CollectorRegistry()
        self._registry.register(_StoreCollector(runtime))
        self._lock = threading.Lock()
        self._answer, self._made = b"", float("-inf")

    async def serve(self, request: Request) -> Response:
        """Answer with all metrics; 401 for whoever may not read them."""
        token = bearer_of(request.headers.get("authorization", "")) or ""
        if not await self._may_read(request, token):
            told = "an operator's token is needed, or that of PILOTAGE_METRICS_TOKEN\n"
            return PlainTextResponse(told, 401, {"WWW-Authenticate": "Bearer"})
        return Response(await run_in_threadpool(self._made_lately), media_type=CONTENT_TYPE_LATEST)

    async def _may_read(self, request: Request, token: str) -> bool:
        if self._token and hmac.compare_digest(token.encode(), self._token.encode()):
            return True
        tokens: KnownTokens = request.app.state.tokens
        credential = await tokens.find(token) if token else None
        return credential is not None and credential.role == "operator"

    def _made_lately(self) -> bytes:
        with self._lock:
            if time.monotonic() - self._made > KEPT_FOR:
                self._answer = generate_latest(self._registry)
                self._made = time.monotonic()
            return self._answer


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
