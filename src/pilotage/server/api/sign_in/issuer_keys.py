"""The public keys of an issuer: fetched from where its discovery document says, kept, and renewed.

Fetches are bounded in bytes and seconds, run in a thread, one at a time for an issuer, and not more often
than every few seconds, whatever tokens arrive. While the issuer is away, the keys from before serve on.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol
from urllib.parse import urlsplit

from anyio import CapacityLimiter, to_thread

from pilotage.model.values.strict_json import read_json
from pilotage.server.api.sign_in.issuer_files import LOOPBACK

log = logging.getLogger(__name__)

DISCOVERY = "/.well-known/openid-configuration"

MOST_BYTES = 512 * 1024
"""Most bytes of a document of an issuer."""

MOST_SECONDS = 10.0
"""Seconds for both documents. An answer that drips ends with the first part after them."""

PART_SECONDS = 5.0
"""Seconds for each part of an answer."""

MOST_KEYS = 200

REFETCHED_AFTER = 10.0
"""Seconds between two fetches, also of a key that is new or of an issuer that is away."""

RENEWED_AFTER = 3600.0
"""Seconds after which keys are fetched again, so that a withdrawn one is soon refused."""

USED_FOR = 24 * 3600.0
"""Seconds for which keys serve without an answer of their issuer."""


class Unreachable(Exception):
    """The keys of an issuer cannot be fetched."""


class Fetch(Protocol):
    """Returns the JSON object at a URL until a time of ``time.monotonic``. Raises ``Unreachable``."""

    def __call__(self, url: str, until: float) -> Mapping[str, Any]: ...


def fetch_json(url: str, until: float) -> Mapping[str, Any]:
    """Fetch a JSON object. No redirect is followed: it could lead inside."""
    # Servers without issuers do not load it.
    import httpx

    body = bytearray()
    # A compressed answer could grow without end while it is read.
    plain = {"Accept-Encoding": "identity"}
    is_near = urlsplit(url).hostname in LOOPBACK
    try:
        with httpx.stream("GET", url, headers=plain, timeout=PART_SECONDS, trust_env=not is_near) as response:
            if response.status_code != httpx.codes.OK:
                raise Unreachable(f"{url} answered {response.status_code}")
            for part in response.iter_raw():
                body += part
                if len(body) > MOST_BYTES:
                    raise Unreachable(f"{url} has more than {MOST_BYTES} bytes")
                if time.monotonic() > until:
                    raise Unreachable(f"{url} took too long")
        document = read_json(body.decode())
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise Unreachable(f"{url}: {error or type(error).__name__}") from error
    except (ValueError, RecursionError) as error:
        raise Unreachable(f"{url} is no JSON: {error}") from error
    if not isinstance(document, dict):
        raise Unreachable(f"{url} is no JSON object")
    return document


def discovered(issuer: str, fetch: Fetch, until: float) -> Mapping[str, Any]:
    """Return an issuer's discovery document. Raises ``Unreachable`` if it is another issuer's."""
    document = fetch(issuer.rstrip("/") + DISCOVERY, until)
    if document.get("issuer") != issuer:
        raise Unreachable(f"the discovery document of {issuer} names another issuer")
    return document


def endpoint(document: Mapping[str, Any], name: str) -> str:
    """Return a URL of a discovery document. Raises ``Unreachable`` unless its answer can be trusted."""
    url = document.get(name)
    if not isinstance(url, str):
        raise Unreachable(f"the discovery document has no {name}")
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOOPBACK):
        raise Unreachable(f"the discovery document's {name} is no https URL")
    return url


def fetch_keys(issuer: str, fetch: Fetch = fetch_json) -> tuple[Mapping[str, Any], ...]:
    """Return the keys of an issuer that may verify signatures. Raises ``Unreachable``."""
    until = time.monotonic() + MOST_SECONDS
    keys = fetch(endpoint(discovered(issuer, fetch, until), "jwks_uri"), until).get("keys")
    if not isinstance(keys, list) or len(keys) > MOST_KEYS:
        raise Unreachable(f"the keys of {issuer} are no list of at most {MOST_KEYS}")
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

        Raises ``Unreachable`` if there are none because the issuer is away.
        """
        age = self._clock() - self._renewed
        if age > USED_FOR:
            await self._renew()
            if self._clock() - self._renewed > USED_FOR:
                raise Unreachable(self._reason)
        elif age > RENEWED_AFTER:
            self._begin()
        if not (fitting := self._choose(key_id, kind)):
            await self._renew()
            fitting = self._choose(key_id, kind)
        if not fitting and self._renewed < self._tried:
            raise Unreachable(self._reason)
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
        except Unreachable as error:
            self._reason = str(error)
            log.warning("the keys of %s cannot be fetched: %s", self._issuer, error)
        finally:
            self._fetching = None
