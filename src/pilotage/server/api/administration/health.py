"""Whether the server lives, and whether it can do its work: for systemd, Kubernetes and load balancers.

These answers need no token, and none of the threads that other requests share. They only name faults.
"""

import asyncio
import threading
import time
from concurrent.futures import Future

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from pilotage.flow.loops.isolation import error_line
from pilotage.flow.runtime import Runtime
from pilotage.release import full_version
from pilotage.server.api.edge.answers import answer
from pilotage.server.api.edge.dependencies import PREFIX
from pilotage.store import OUTAGE

router = APIRouter(prefix=f"{PREFIX}/health", tags=["health"])

LIMIT = 3.0
"""Seconds within which the store must take a small write."""

BELIEVED_FOR = 2.0
"""Seconds for which the store's answer is reused, so that frequent callers cost little."""


class Health(BaseModel):
    """A sign of life, and the server that gives it. ``time`` is its clock, in s since 1970 UTC."""

    status: str
    version: str
    time: float


class Ready(BaseModel):
    """Whether the server works: ``ok`` or ``unavailable``, the fault, and the loops that failed last."""

    status: str
    version: str
    problems: list[str]
    failing_loops: dict[str, str]


class Readiness:
    """Checks whether the store accepts a write: in a separate thread, one check at a time."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = threading.Lock()
        self._asked: Future[str] = Future()
        self._asked.set_result("")
        self._since = float("-inf")

    async def problem(self) -> str:
        """Return the store's fault; empty if it accepted a write within the limit."""
        attempt = self._ask()
        try:
            return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(attempt)), LIMIT)
        except TimeoutError:
            holder = self._runtime.store.held_by()
            return f"the store has not taken a write for {time.monotonic() - self._since:.0f} s" + (
                f": its file is held by {holder}" if holder else ""
            )

    def _ask(self) -> "Future[str]":
        with self._lock:
            if self._asked.done() and time.monotonic() - self._since > BELIEVED_FOR:
                self._asked, self._since = Future(), time.monotonic()
                # A thread that hangs with the store must not keep the process alive, and there is only one.
                thread = threading.Thread(
                    target=self._look, args=(self._asked,), name="readiness", daemon=True
                )
                thread.start()
            return self._asked

    def _look(self, attempt: "Future[str]") -> None:
        try:
            self._runtime.store.try_to_write()
        except Exception as error:
            attempt.set_result(
                f"the store takes no write: {error_line(getattr(error, 'orig', None) or error)}"
            )
        else:
            attempt.set_result("")


@router.get("", response_model=Health)
@router.get("/live", response_model=Health)
async def get_live() -> Health:
    """Report that the server lives; open to everybody."""
    return Health(status="ok", version=full_version(), time=time.time())


@router.get("/ready", responses={200: {"model": Ready}, 503: {"model": Ready}}, response_class=Response)
async def get_ready(request: Request) -> Response:
    """Report whether the server can do its work, and the fault if not (503); open to everybody."""
    readiness: Readiness = request.app.state.readiness
    failing = dict(request.app.state.runtime.set_aside.failing_loops)
    # A database that is full may still take the small write.
    outages = sorted({fault for fault in failing.values() if fault.startswith(OUTAGE)})
    problem = await readiness.problem() or "; ".join(outages)
    report = Ready(
        status="unavailable" if problem else "ok",
        version=full_version(),
        problems=[problem] if problem else [],
        failing_loops=failing,
    )
    return answer(report, 503 if problem else 200)
