"""Calls that arrive while a thread works: it works on them together afterwards."""

import asyncio
from collections.abc import Callable, Sequence
from contextvars import Context
from typing import Generic, TypeVar

from starlette.concurrency import run_in_threadpool

from pilotage.store import SERVES_A_CALLER

T = TypeVar("T")
R = TypeVar("R")


class Together(Generic[T, R]):
    """Answers calls by ``work``, in one thread. If ``work`` raises, each of its callers gets the error.

    Only the event loop uses it.
    """

    def __init__(self, work: Callable[[Sequence[T]], Sequence[R]]) -> None:
        self._work = work
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []
        self._worker: asyncio.Task[None] | None = None

    async def __call__(self, call: T) -> R:
        """Return the answer to a call."""
        answer: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((call, answer))
        if self._worker is None:
            # With a new context: the worker serves other requests too.
            self._worker = asyncio.create_task(self._run(), context=Context())
        return await answer

    async def _run(self) -> None:
        SERVES_A_CALLER.set(True)
        while taken := self._waiting:
            self._waiting = []
            try:
                answers = await run_in_threadpool(self._work, [call for call, _ in taken])
            except Exception as error:
                for _, future in taken:
                    if not future.done():
                        future.set_exception(error)
            else:
                for (_, future), answer in zip(taken, answers, strict=True):
                    # A client that has gone waits no more.
                    if not future.done():
                        future.set_result(answer)
        self._worker = None
