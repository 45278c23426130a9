"""Requests to identity providers: bounded in bytes and seconds, by https, and never redirected.

Servers fetch keys so, and commands sign in. It needs the base installation only.
"""

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from pilotage.model.values.strict_json import read_json

DISCOVERY = "/.well-known/openid-configuration"
LOOPBACK = ("localhost", "127.0.0.1", "::1")

MOST_BYTES = 512 * 1024
"""Most bytes of an answer."""

MOST_SECONDS = 10.0
"""Seconds for a few requests that belong together. An answer that drips ends with the first part
after them."""

PART_SECONDS = 5.0
"""Seconds for each part of an answer."""

OK = 200


class ProviderAway(Exception):
    """An identity provider gives no answer, or none that can be used. It shows no token or code."""


def deadline() -> float:
    """Return until when requests that begin now may take, as ``time.monotonic`` counts."""
    return time.monotonic() + MOST_SECONDS


def ask(url: str, until: float, form: Mapping[str, str] | None = None) -> tuple[int, Mapping[str, Any]]:
    """Return the status and the JSON object at a URL, to which a ``form`` is sent.

    Raises ``ProviderAway``.
    """
    # Servers without issuers, and commands that do not sign in, do not load it.
    import httpx

    body = bytearray()
    is_near = urlsplit(url).hostname in LOOPBACK
    try:
        with httpx.stream(
            "GET" if form is None else "POST",
            url,
            data=form,
            # A compressed answer could grow without end while it is read.
            headers={"Accept": "application/json", "Accept-Encoding": "identity"},
            timeout=PART_SECONDS,
            trust_env=not is_near,
        ) as response:
            for part in response.iter_raw():
                body += part
                if len(body) > MOST_BYTES:
                    raise ProviderAway(f"{url} has more than {MOST_BYTES} bytes")
                if time.monotonic() > until:
                    raise ProviderAway(f"{url} took too long")
        if response.status_code != OK and form is None:
            raise ProviderAway(f"{url} answered {response.status_code}")
        # An answer to a form may be empty.
        document = read_json(body.decode()) if body or form is None else {}
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise ProviderAway(f"{url}: {error or type(error).__name__}") from error
    except (ValueError, RecursionError) as error:
        raise ProviderAway(f"{url} answered {response.status_code} with what is no JSON") from error
    if not isinstance(document, dict):
        raise ProviderAway(f"{url} is no JSON object")
    return response.status_code, document


def discovered(issuer: str, until: float) -> Mapping[str, Any]:
    """Return an issuer's discovery document. Raises ``ProviderAway``, also if it is another issuer's."""
    _, document = ask(issuer.rstrip("/") + DISCOVERY, until)
    if document.get("issuer") != issuer:
        raise ProviderAway(f"the discovery document of {issuer} names another issuer")
    return document


def endpoint(document: Mapping[str, Any], name: str) -> str:
    """Return a URL of a discovery document. Raises ``ProviderAway`` unless what it answers can be trusted."""
    url = document.get(name)
    if not isinstance(url, str):
        raise ProviderAway(f"the discovery document has no {name}")
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOOPBACK):
        raise ProviderAway(f"the discovery document's {name} is no https URL")
    return url


def reason(answer: Mapping[str, Any]) -> str:
    """Return a provider's words, safe to show: they may come from anybody."""
    words = answer.get("error_description") or answer.get("error") or "it gives no reason"
    return "".join(character for character in str(words) if character.isprintable())[:200]
