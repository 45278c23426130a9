"""The public keys of an issuer: fetched from where its discovery document says, kept, and renewed.

Fetches are bounded in bytes and seconds, run in a thread, one at a time for an issuer, and not more often
than every few seconds, whatever tokens arrive. While the issuer is away, the keys from before serve on.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from anyio import CapacityLimiter, to_thread

from pilotage.identity_providers import ProviderAway, ask, deadline, discovered, endpoint

log = logging.getLogger(__name__)

MOST_KEYS = 200

REFETCHED_AFTER = 10.0
"""Seconds between two fetches, also of a key that is new or of an issuer that is away."""

RENEWED_AFTER = 3600.0
"""Seconds after which keys are fetched again, so that a withdrawn one is soon refused."""

USED_FOR = 24 * 3600.0
"""Seconds for which keys serve without an answer of their issuer."""


def fetch_keys(issuer: str) -> tuple[Mapping[str, Any], ...]:
    """Return the keys of an issuer that may verify signatures. Raises ``ProviderAway``."""
    until = deadline()
    _, document = ask(endpoint(discovered(issuer, until), "jwks_uri"), until)
    keys = document.get("keys")
    if not isinstance(keys, list) or len(keys) > MOST_KEYS:
        raise ProviderAway(f"the keys of {issuer} are no list of at most {MOST_KEYS}")
    return tuple(key for key in keys if isinstance(key, dict) and key.get("use", "sig") == "sig")


class IssuerKeys:
    """The keys of one issuer. Only the event loop uses it. ``clock`` counts seconds."""

    def __init__(
        self,
        issuer: str,
        fetch: Callable[[str], tuple[Mapping[str, Any], ...]] = fetch_keys,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuer, self._fetch, self._clock = issuer, fetch, clock
        self._keys: tuple[Mapping[str, Any], ...] = ()
        self._renewed = self._tried = float("-inf")
        self._reason = "not asked yet"
        self._fetching: asyncio.Task[None] | None = None

    async def fitting(self, key_id: str | None, kind: str) -> tuple[Mapping[str, Any], ...]:
        """Return the keys of a kind (``RSA``, ``EC``) and id; without an id, all of the kind.

        Raises ``ProviderAway`` if there are none because the issuer is away.
        """
        age = self._clock() - self._renewed
        if age > USED_FOR:
            await self._renew()
            if self._clock() - self._renewed > USED_FOR:
                raise ProviderAway(self._reason)
        elif age > RENEWED_AFTER:
            self._begin()
        if not (fitting := self._choose(key_id, kind)):
            await self._renew()
            fitting = self._choose(key_id, kind)
        if not fitting and self._renewed < self._tried:
            raise ProviderAway(self._reason)
        return fitting

    def _choose(self, key_id: str | None, kind: str) -> tuple[Mapping[str, Any], ...]:
        of_kind = (key for key in self._keys if key.get("kty") == kind)
        return tuple(key for key in of_kind if key_id is None or key.get("kid") == key_id)

    async def _renew(self) -> None:
        """Wait for new keys, unless they were fetched a moment ago."""
        if task := self._begin():
            # One request that ends must not end the fetch of the others.
            await asyncio.shield(task)

    def _begin(self) -> "asyncio.Task[None] | None":
        if self._fetching is None and self._clock() - self._tried >= REFETCHED_AFTER:
            self._tried = self._clock()
            self._fetching = asyncio.create_task(self._fetch_all())
        return self._fetching

    async def _fetch_all(self) -> None:
        try:
            # Beside the threads of requests, which issuers that hang must not hold.
            limiter = CapacityLimiter(1)
            self._keys = await to_thread.run_sync(self._fetch, self._issuer, limiter=limiter)
            self._renewed = self._tried
        except ProviderAway as error:
            self._reason = str(error)
            log.warning("the keys of %s cannot be fetched: %s", self._issuer, error)
        finally:
            self._fetching = None
