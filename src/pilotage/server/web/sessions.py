"""Sign-in: a pasted token or a one-time code opens a session. A cookie carries the session's token.

A session is a row among the store's tokens. So it survives restarts, holds at every server of a store, and
ends with the token that opened it. Identity providers open sessions too, see ``code_flow``.
"""

import hashlib
import hmac
import secrets
import threading
from collections.abc import Callable
from dataclasses import replace
from ipaddress import ip_address

from cachetools import TTLCache
from fastapi import Request, Response
from starlette.types import Scope

from pilotage.model.values.identity import Credential, Identity
from pilotage.server.api.administration import metrics
from pilotage.server.api.edge.access import LONGEST_TOKEN, hostname
from pilotage.server.api.edge.dependencies import PREFIX, is_of_api
from pilotage.server.api.edge.pages import BY_SESSION
from pilotage.store import LONGEST_BROWSER, session_token

SESSION_LIFE = 12 * 3600.0
"""Seconds after which a session ends."""

CODE_LIFE = 600.0
"""Seconds for which a one-time code opens a session."""

MOST_WRONG = 20
"""Most wrong tokens of one address, a minute apart at most, before the answer asks for a pause."""

REMEMBERED_ADDRESSES = 10_000
"""Most addresses with counted wrong tokens."""

AS_JSON = "/as-json"
"""Begins the paths that a session reads the API's documents at."""


class OneTimeCode:
    """A code that opens one session of the operator, from this machine, soon after it was made."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.code = secrets.token_urlsafe(24)
        self._clock = clock
        self._until = clock() + CODE_LIFE
        self._lock = threading.Lock()
        self._is_used = False

    def redeem(self, code: str) -> bool:
        """Return whether the code is right, fresh and unused. It is used from then on."""
        with self._lock:
            is_right = hmac.compare_digest(code.encode(), self.code.encode())
            if not is_right or self._is_used or self._clock() > self._until:
                return False
            self._is_used = True
            return True


class WrongTokens:
    """Counts wrong tokens by address. Right ones are never refused: 32 random bytes cannot be guessed."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._counts: TTLCache[str, int] = TTLCache(REMEMBERED_ADDRESSES, 60.0, clock)
        self._lock = threading.Lock()

    def count(self, address: str) -> int:
        """Count one more; return how many came without a minute's pause."""
        with self._lock:
            attempts = self._counts.get(address, 0) + 1
            # An entry that is written again lives for another minute.
            self._counts[address] = attempts
            return attempts


OPERATOR = Credential(role="operator", identity=Identity(name="operator"))
"""What a one-time code opens a session for."""


def session_of(credential: Credential, now: float, *, outlasts: bool) -> Credential:
    """Return the credential of a session, which lasts for a day's work.

    Unless it ``outlasts`` the token that opens it, it ends with that.
    """
    end = now + SESSION_LIFE
    is_longer = outlasts or credential.expires is None or credential.expires > end
    return replace(credential, expires=end if is_longer else credential.expires)


def cookie_name(host: str) -> str:
    """Return the cookie's name. Browsers share cookies among all ports of a host, so it names the port."""
    port = host.rpartition(":")[2]
    return f"pilotage_{port if port.isdecimal() else 'page'}"


def browser_of(request: Request) -> str:
    """Return the browser of a request, as it names itself. A session belongs to its browser."""
    name = request.headers.get("user-agent", "")[:LONGEST_BROWSER]
    return "".join(character for character in name if character.isprintable())


def token_of_session(request: Request) -> str:
    """Return the session's token; empty if the request has none."""
    cookie = request.cookies.get(cookie_name(request.headers.get("host", "")), "")
    return session_token(cookie, browser_of(request)) if 0 < len(cookie) <= LONGEST_TOKEN else ""


def set_cookie(request: Request, response: Response, token: str, seconds: float) -> None:
    """Let the browser carry a session's token; with an empty one, delete its cookie."""
    response.set_cookie(
        cookie_name(request.headers.get("host", "")),
        token,
        max_age=int(seconds),
        path="/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )


def form_token(session: str) -> str:
    """Return the token in each form of a session, so that no other site can send the form (CSRF)."""
    return hmac.digest(session.encode(), b"form", hashlib.sha256).hex()


def is_from_here(request: Request) -> bool:
    """Return whether one of these pages sent this request, by the browser's headers."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = request.headers.get("origin", "")
    return not origin or origin.partition("://")[2] == request.headers.get("host", "")


class HostCheck:
    """Knows the host names that browsers may use for the pages.

    Another site's name that points to our address (DNS rebinding) must not open them. Addresses cannot be
    rebound, so any is right.
    """

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names | {"localhost"}

    def allows(self, request: Request) -> bool:
        """Return whether the request's Host is one of these names, or an address."""
        name = hostname(request)
        try:
            ip_address(name)
        except ValueError:
            return name in self._names
        return True


def admitted(scope: Scope) -> Scope:
    """Return the scope of a request with its session's credentials: only pages look at cookies.

    Paths below ``AS_JSON`` become the API's, for reading alone.
    """
    path: str = scope["path"]
    if path == metrics.PATH or is_of_api(path):
        return scope
    token = token_of_session(Request(scope))
    headers = [(name, value) for name, value in scope["headers"] if name != b"authorization"]
    if token:
        headers.append((b"authorization", f"Bearer {token}".encode("latin-1", "replace")))
    new = {**scope, "headers": headers}
    if path.startswith(f"{AS_JSON}/") and scope["method"] in ("GET", "HEAD") and token:
        new |= {"path": PREFIX + path.removeprefix(AS_JSON), "raw_path": b"", BY_SESSION: True}
    return new
