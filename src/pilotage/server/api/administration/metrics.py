"""Metrics for Prometheus: any server of a store answers for all of its processes."""

import hmac
import logging
import threading
import time
from collections.abc import Mapping

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from pilotage.flow.calls.work.pending_jobs import Lack, lacks
from pilotage.flow.runtime import Runtime
from pilotage.server.api.edge.access import FORWARDED, KnownTokens, bearer_of, is_loopback, sees_all

log = logging.getLogger(__name__)

PATH = "/metrics"
"""Where Prometheus reads. It has a separate token, and no session."""

KEPT_FOR = 5.0
"""Seconds for which an answer is given again, however many ask."""

EXPLAINED_FOR = 60.0
"""Seconds for which the reasons of pending jobs are reused: reading them reads their tasks' decisions."""

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The type of Prometheus's text format."""


class MetricsPage:
    """Answers Prometheus.

    A reader has the ``token``, unless it is empty, or an operator's. With ``loopback``, readers on this
    machine need none.
    """

    def __init__(self, runtime: Runtime, token: str, *, loopback: bool = False) -> None:
        self._token, self._loopback = token, loopback
        self._runtime = runtime
        self._lock = threading.Lock()
        self._answer, self._made = b"", float("-inf")
        self._lacks: Mapping[Lack, int] = {}
        self._explained = float("-inf")

    async def serve(self, request: Request) -> Response:
        """Answer with all metrics; 401 if the caller may not read them."""
        token = bearer_of(request.headers.get("authorization", "")) or ""
        if not await self._may_read(request, token):
            text = "an operator's token is needed, or that of PILOTAGE_METRICS_TOKEN\n"
            return PlainTextResponse(text, 401, {"WWW-Authenticate": "Bearer"})
        return Response(await run_in_threadpool(self._made_lately), media_type=CONTENT_TYPE)

    async def _may_read(self, request: Request, token: str) -> bool:
        if self._token and hmac.compare_digest(token.encode(), self._token.encode()):
            return True
        if self._loopback and is_loopback(request) and not any(name in request.headers for name in FORWARDED):
            return True
        tokens: KnownTokens = request.app.state.tokens
        credential = await tokens.find(token) if token else None
        if credential is None or not sees_all(credential):
            return False
        return credential.rights is None or "read" in credential.rights

    def _made_lately(self) -> bytes:
        # A server without readers is smaller without Prometheus's package.
        from pilotage.server.api.administration.metrics_collector import exposition

        with self._lock:
            now = time.monotonic()
            if now - self._explained > EXPLAINED_FOR:
                self._lacks, self._explained = lacks(self._runtime), now
            if now - self._made > KEPT_FOR:
                self._add_own()
                self._answer, self._made = exposition(self._runtime, self._lacks), now
            return self._answer

    def _add_own(self) -> None:
        """Add what this process measured, so that a reader of one process sees it immediately."""
        try:
            self._runtime.store.add_measurements()
        except Exception as error:
            # They are kept. A store that takes no write may still be read, and its readers should see that.
            log.warning("measurements are kept in memory: %s", error)
