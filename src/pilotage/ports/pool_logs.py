"""Logs of submit pools, named after them. They include messages of adapters during submission (P11)."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_submitting: ContextVar[str | None] = ContextVar("submit_pool", default=None)


def pool_log(pool: str) -> logging.Logger:
    """Return the log of a submit pool."""
    return logging.getLogger(f"pilotage.submit_pools.{pool or 'none'}")


@contextmanager
def submitting(pool: str) -> Iterator[None]:
    """Let ``submission_log`` return a pool's log, in this thread, until the end of the block."""
    token = _submitting.set(pool)
    try:
        yield
    finally:
        _submitting.reset(token)


def submission_log(otherwise: logging.Logger) -> logging.Logger:
    """Return the log of the pool that this thread submits pilots for; ``otherwise`` if it does not."""
    pool = _submitting.get()
    return otherwise if pool is None else pool_log(pool)
