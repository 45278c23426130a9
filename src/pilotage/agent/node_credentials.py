"""The credentials that a batch system gave the pilot for storages: a token, or an X.509 proxy."""

from __future__ import annotations

import os
import ssl
from collections.abc import Sequence
from pathlib import Path

from .web import Web

AUTHORITIES = "/etc/grid-security/certificates"
"""The folder of the authorities that grid sites trust; X509_CERT_DIR names another."""
LONGEST = 64 << 10
"""Bytes of a token; what is longer is none."""


def are_there() -> bool:
    """Tell whether the environment names a token or a proxy.

    Only the environment is looked at: a file of a common name below /tmp may be anybody's.
    """
    return any(os.environ.get(name) for name in ("BEARER_TOKEN", "BEARER_TOKEN_FILE", "X509_USER_PROXY"))


def web(redirects_to: Sequence[str] | None = None) -> Web:
    """Requests with the node's token and proxy, read anew as they are renewed. Raises OSError."""
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
    """The token by the rules of WLCG's bearer token discovery; empty where there is none."""
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
        # Python's own refusal of such a header would print it.
        raise OSError(f"the token of the node, {place}: not one word of at most {LONGEST} bytes")
    return token
