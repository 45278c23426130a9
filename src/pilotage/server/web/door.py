"""The way in and out of the pages: sign-in by a token, a provider or a one-time link, and sign-out."""

from collections.abc import Sequence
from functools import partial
from typing import cast

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse
from starlette.routing import Route

from pilotage.flow.runtime import Runtime
from pilotage.identity_providers import ProviderAway
from pilotage.model.values.identity import PERSON_ROLES, RIGHTS, Credential
from pilotage.server.api.edge.access import LONGEST_TOKEN, KnownTokens, TokenRefused, is_loopback
from pilotage.server.api.edge.audit_trail import note_refusal
from pilotage.server.web import rendering
from pilotage.server.web.code_flow import CALLBACK, SIGN_IN, CodeFlow, end_attempt
from pilotage.server.web.pages import answered, own_path, read_form, refuse
from pilotage.server.web.sessions import (
    MOST_WRONG,
    OPERATOR,
    OneTimeCode,
    WrongTokens,
    browser_of,
    form_token,
    is_from_here,
    session_of,
    set_cookie,
    token_of_session,
)

NO_TOKEN = "no person has this token, or it has expired; an operator makes one with pilotage token"


class Door:
    """Opens and ends sessions."""

    def __init__(self, runtime: Runtime, code: OneTimeCode | None, code_flow: CodeFlow) -> None:
        self._runtime = runtime
        self._wrong = WrongTokens(runtime.clock)
        self._code, self._code_flow = code, code_flow

    @property
    def routes(self) -> Sequence[Route]:
        """The routes of sign-in and sign-out."""
        routes = (
            ("GET", SIGN_IN, self.show),
            ("POST", SIGN_IN, self.sign_in),
            ("GET", f"{SIGN_IN}/with/{{provider}}", self.begin),
            ("GET", CALLBACK, self.finish),
            ("POST", "/sign-out", self.sign_out),
            ("GET", "/open", self.open),
        )
        return [
            Route(path, partial(answered, function), methods=[method]) for method, path, function in routes
        ]

    async def show(self, request: Request) -> Response:
        """Show the ways to sign in."""
        return self._page(request.query_params.get("next", "/"))

    async def sign_in(self, request: Request) -> Response:
        """Open a session with a token."""
        form = await read_form(request)
        after = own_path(form.get("next", "/"))
        if not is_from_here(request):
            return self._page(after, "this form came from another site", 403)
        token = form.get("token", "").strip()
        credential = await _tokens(request).find(token) if 0 < len(token) <= LONGEST_TOKEN else None
        if credential is None or credential.role not in PERSON_ROLES:
            return self._refused(request, after)
        answer = RedirectResponse(after, 303)
        try:
            await self._open(request, answer, credential, "a token", token)
        except LookupError:  # it was revoked a moment ago, or is a session's
            return self._refused(request, after)
        return answer

    def _refused(self, request: Request, after: str) -> Response:
        """Refuse a wrong token. Right ones still open sessions, even from the same address."""
        note_refusal(request, NO_TOKEN)
        if self._wrong.count(request.client.host if request.client else "") <= MOST_WRONG:
            return self._page(after, NO_TOKEN, 403)
        reason = f"more than {MOST_WRONG} wrong tokens came from your address within a minute; wait a minute"
        return self._page(after, reason, 429)

    async def begin(self, request: Request) -> Response:
        """Send the browser to an identity provider."""
        try:
            return await self._code_flow.begin(request)
        except ProviderAway as away:
            return self._page(request.query_params.get("next", "/"), f"the provider is away: {away}", 503)

    async def finish(self, request: Request) -> Response:
        """Open a session for a person that an identity provider sends back."""
        try:
            attempt, token = await self._code_flow.finish(request)
            credential = _with_all_rights(await _tokens(request).examine(token))
            # The page of another site leads here, so the browser would leave out the new cookie if we
            # redirected it. It sends the cookie when our own page leads on.
            answer: Response = HTMLResponse(rendering.signed_in(attempt.after))
            await self._open(request, answer, credential, attempt.issuer)
        except ProviderAway as away:
            answer = self._page("/", f"the provider is away: {away}", 503)
        except HTTPException as refused:
            note_refusal(request, str(refused.detail))
            answer = self._page("/", str(refused.detail), refused.status_code)
        end_attempt(request, answer)
        return answer

    async def open(self, request: Request) -> Response:
        """Open a session with the one-time code of the server's terminal."""
        code = request.query_params.get("code", "")
        if self._code is None or not is_loopback(request):
            return self._page("/", "a one-time link works on the server's own machine alone", 403)
        if not self._code.redeem(code):
            reason = "the one-time link was used, or is older than ten minutes; paste your token instead"
            note_refusal(request, reason)
            return self._page("/", reason, 403)
        answer = RedirectResponse("/", 303)
        await self._open(request, answer, OPERATOR, "the server's link")
        return answer

    async def sign_out(self, request: Request) -> Response:
        """End the session."""
        token = token_of_session(request)
        form = await read_form(request)
        if not is_from_here(request) or form.get("form_token") != form_token(token):
            return refuse(request, 403, "this form is not of your session")
        if token:
            await run_in_threadpool(self._runtime.store.sessions.end, token)
            _tokens(request).forget(token)
        answer = RedirectResponse(SIGN_IN, 303)
        set_cookie(request, answer, "", 0)
        return answer

    async def _open(
        self, request: Request, answer: Response, credential: Credential, opened_by: str, parent: str = ""
    ) -> None:
        """Open a session, and let the answer carry its cookie. Raises LookupError for a revoked parent."""
        now = self._runtime.clock()
        # A provider's token lasts for minutes, and the session for a day's work.
        session = session_of(credential, now, outlasts=not parent)
        cookie = await run_in_threadpool(
            self._runtime.store.sessions.open, session, browser_of(request), opened_by, parent
        )
        set_cookie(request, answer, cookie, (session.expires or 0) - now)

    def _page(self, after: str, fault: str = "", status: int = 200) -> Response:
        page = rendering.sign_in(own_path(after), fault, self._code_flow.providers)
        return HTMLResponse(page, status)


def _with_all_rights(credential: Credential | None) -> Credential:
    """Return the credential of a new session. Raises ``TokenRefused`` for a limited one: pages do it all."""
    if credential is None or credential.role not in PERSON_ROLES:
        raise TokenRefused(403, "the server accepts no token of this provider")
    if credential.rights is not None and credential.rights != frozenset(RIGHTS):
        raise TokenRefused(403, "pages need a token with all four rights, and the provider gave fewer")
    return credential


def _tokens(request: Request) -> KnownTokens:
    return cast(KnownTokens, request.app.state.tokens)
