"""Sign-in of browsers with an identity provider: OpenID Connect's code flow, with PKCE (RFC 7636).

The browser's cookie holds what an attempt needs until the provider sends the browser back, so that any server
of a store can finish it, and only this browser.
"""

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

from anyio import CapacityLimiter, to_thread
from cachetools import TTLCache
from fastapi import Request, Response
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse

from pilotage.identity_providers import OK, ask, deadline, discovered, endpoint, reason
from pilotage.server.web.pages import own_path
from pilotage.server.web.sessions import cookie_name

if TYPE_CHECKING:
    from pilotage.server.api.sign_in.issuer_files import Issuer

SIGN_IN = "/sign-in"
CALLBACK = f"{SIGN_IN}/callback"

ATTEMPT_LIFE = 600.0
"""Seconds in which a person must sign in at the provider."""

DISCOVERED_FOR = 3600.0
"""Seconds for which a discovery document serves."""

PROVIDERS_ASKED_AT_ONCE = 4
LONGEST_COOKIE = 3000
LONGEST_CODE = 4096
LONGEST_PATH = 1000

BEGIN_AGAIN = "this browser began no sign-in in the last ten minutes; begin it again"

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class SignInAttempt:
    """A sign-in that was begun. ``after`` is the path to go to when it succeeded."""

    issuer: str
    state: str
    verifier: str
    after: str

    @property
    def challenge(self) -> str:
        """What the provider compares the verifier with (S256)."""
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


class CodeFlow:
    """Sends browsers to providers, and takes them back. Only the event loop uses it."""

    def __init__(self, issuers: "Sequence[Issuer]", url: str) -> None:
        self._issuers = {issuer.name: issuer for issuer in issuers if issuer.page_client}
        self._callback = url.rstrip("/") + CALLBACK
        self._documents: TTLCache[str, Mapping[str, Any]] = TTLCache(len(self._issuers) + 1, DISCOVERED_FOR)
        self._limiter: CapacityLimiter | None = None

    @property
    def providers(self) -> Sequence[str]:
        """The names of the providers that people can sign in with."""
        return tuple(self._issuers)

    async def begin(self, request: Request) -> Response:
        """Send a browser to its provider. 404 for an unknown one, 503 if it is away."""
        issuer = self._issuers.get(str(request.path_params["provider"]))
        if issuer is None:
            raise HTTPException(404, "the server has no sign-in with this provider")
        after = own_path(request.query_params.get("next", "/"))
        after = after if len(after) <= LONGEST_PATH else "/"
        attempt = SignInAttempt(issuer.name, secrets.token_urlsafe(24), secrets.token_urlsafe(48), after)
        query = {
            "response_type": "code",
            "client_id": issuer.page_client,
            "redirect_uri": self._callback,
            "scope": issuer.scopes,
            "audience": issuer.audience[0],
            "state": attempt.state,
            "code_challenge": attempt.challenge,
            "code_challenge_method": "S256",
        }
        address = endpoint(await self._document(issuer), "authorization_endpoint")
        answer = RedirectResponse(f"{address}{'&' if '?' in address else '?'}{urlencode(query)}", 303)
        _set_cookie(request, answer, _encoded(attempt), ATTEMPT_LIFE)
        return answer

    async def finish(self, request: Request) -> tuple[SignInAttempt, str]:
        """Return the attempt that a provider answers, and the access token that its code buys.

        Raises HTTPException: 403 if it is not this browser's, or the provider refuses; 503 if it is away.
        """
        attempt, query = _attempt(request), request.query_params
        issuer = self._issuers.get(attempt.issuer) if attempt else None
        if attempt is None or issuer is None or not _are_equal(query.get("state", ""), attempt.state):
            raise HTTPException(403, BEGIN_AGAIN)
        if query.get("iss", issuer.issuer) != issuer.issuer:  # RFC 9207
            raise HTTPException(403, f"another provider than {issuer.name} answered; begin again")
        code = query.get("code", "")
        if not 0 < len(code) <= LONGEST_CODE:
            raise HTTPException(403, f"{issuer.name} did not sign you in: {reason(query)}")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._callback,
            "client_id": issuer.page_client,
            "code_verifier": attempt.verifier,
            **({"client_secret": issuer.page_secret} if issuer.page_secret else {}),
        }
        address = endpoint(await self._document(issuer), "token_endpoint")
        status, answer = await self._asked(lambda: ask(address, deadline(), form))
        token = answer.get("access_token")
        if status != OK or not isinstance(token, str):
            raise HTTPException(403, f"{issuer.name} did not sign you in: {reason(answer)}")
        return attempt, token

    async def _document(self, issuer: "Issuer") -> Mapping[str, Any]:
        document = self._documents.get(issuer.name)
        if document is None:
            document = await self._asked(lambda: discovered(issuer.issuer, deadline()))
            self._documents[issuer.name] = document
        return document

    async def _asked(self, ask_provider: Callable[[], _Value]) -> _Value:
        """Ask in a thread beside those of requests, which a provider that hangs must not hold."""
        if self._limiter is None:
            self._limiter = CapacityLimiter(PROVIDERS_ASKED_AT_ONCE)
        return await to_thread.run_sync(ask_provider, limiter=self._limiter)


def end_attempt(request: Request, answer: Response) -> None:
    """Let the browser forget its attempt: an answer counts once."""
    _set_cookie(request, answer, "", 0)


def _attempt(request: Request) -> SignInAttempt | None:
    """Return the attempt of a browser's cookie; None without one that can be read."""
    text = request.cookies.get(_cookie(request), "")
    if not 0 < len(text) <= LONGEST_COOKIE:
        return None
    try:
        attempt = SignInAttempt(**json.loads(base64.urlsafe_b64decode(text)))
    except (ValueError, TypeError, RecursionError):
        return None
    are_texts = all(isinstance(value, str) for value in asdict(attempt).values())
    return attempt if are_texts and own_path(attempt.after) == attempt.after else None


def _encoded(attempt: SignInAttempt) -> str:
    return base64.urlsafe_b64encode(json.dumps(asdict(attempt)).encode()).decode()


def _cookie(request: Request) -> str:
    return f"{cookie_name(request.headers.get('host', ''))}_sign_in"


def _set_cookie(request: Request, answer: Response, value: str, seconds: float) -> None:
    answer.set_cookie(
        _cookie(request),
        value,
        max_age=int(seconds),
        path=SIGN_IN,
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="lax",  # the provider's page leads back to us
    )


def _are_equal(text: str, other: str) -> bool:
    return hmac.compare_digest(text.encode(), other.encode())
