"""The credentials for storages that a batch system gave to the pilot: a token or an X.509 proxy."""

from __future__ import annotations

import os
import ssl
from collections.abc import Sequence
from pathlib import Path

from .files.web import Web

AUTHORITIES = "/etc/grid-security/certificates"
"""The folder of the authorities that grid sites trust; X509_CERT_DIR names another."""
LONGEST = 64 << 10
"""Most bytes of a token."""


def are_there() -> bool:
    """Return whether the environment names a token or a proxy.

    Only the environment counts: any user may have put a file with a common name into /tmp.
    """
    return any(os.environ.get(name) for name in ("BEARER_TOKEN", "BEARER_TOKEN_FILE", "X509_USER_PROXY"))


def web(redirects_to: Sequence[str] | None = None) -> Web:
    """Return a client with the node's current token and proxy.

    Each call reads them, because they are renewed. Raises OSError.
    """
    context = ssl.create_default_context()
    authorities = os.environ.get("X509_CERT_DIR", AUTHORITIES)
    if Path(authorities).is_dir():
        context.load_verify_locations(capath=authorities)
    if proxy := os.environ.get("X509_USER_PROXY"):
        try:
            context.load_cert_chain(proxy)
        except OSError as error:
            raise OSError(f"the proxy of the node, {proxy}: {error.strerror or error}") from error
    token = _token()
    return Web({"Authorization": f"Bearer {token}"} if token else {}, None, "", context, redirects_to)


def _token() -> str:
    """Return the token found by WLCG's bearer token discovery; empty if there is none."""
    if token := os.environ.get("BEARER_TOKEN", "").strip():
        return _checked(token, "BEARER_TOKEN")
    name = os.environ.get("BEARER_TOKEN_FILE", "")
    if not name:
        return ""
    try:
        with Path(name).open(encoding="ascii") as file:
            return _checked(file.read(LONGEST + 1).strip(), name)
    except (OSError, UnicodeDecodeError) as error:
        raise OSError(f"the token of the node, {name}: {error.__class__.__name__}") from error


def _checked(token: str, place: str) -> str:
    if not token or len(token) > LONGEST or not token.isascii() or not token.isprintable() or " " in token:
        # Python's own error for such a header would print the token.
        raise OSError(f"the token of the node, {place}: not one word of at most {LONGEST} bytes")
    return token
