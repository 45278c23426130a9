"""All pages: their routes, static files, and the headers that keep browsers safe."""

from collections.abc import Iterable, Mapping
from functools import cache, partial
from importlib.resources import files
from typing import cast
from urllib.parse import urlsplit

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse
from starlette.routing import BaseRoute, Route, Router
from starlette.types import Message, Receive, Scope, Send

from pilotage.flow.runtime import Runtime
from pilotage.server.api.edge.access import LONGEST_TOKEN, KnownTokens, is_loopback
from pilotage.server.api.edge.pages import Pages
from pilotage.server.web import (
    actions,
    deletion_actions,
    federation_actions,
    grant_actions,
    live,
    place_actions,
    rendering,
    selection_actions,
)
from pilotage.server.web.pages import answered, caller_of, own_path, read_form, refuse, visit_of
from pilotage.server.web.sessions import (
    MOST_WRONG,
    SESSION_LIFE,
    HostCheck,
    OneTimeCode,
    WrongTokens,
    admitted,
    form_token,
    is_from_here,
    operator_session,
    session_of,
    session_token,
    set_cookie,
)
from pilotage.server.web.views import ROUTES

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every page. No script or style is inline, and nothing comes from another host."""

_HEADERS = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]

SIGN_IN = "/sign-in"
NO_TOKEN = "no person has this token, or it has expired; an operator makes one with pilotage token"
STATIC = "/static/"
_KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


def make_pages(runtime: Runtime, urls: Iterable[str] = (), code: OneTimeCode | None = None) -> Pages:
    """Return the pages of a server that browsers reach at these URLs."""
    names = frozenset(name for url in urls if (name := urlsplit(url).hostname))
    door = _Door(runtime, code)
    routes: list[BaseRoute] = [
        Route(SIGN_IN, partial(answered, door.show), methods=["GET"]),
        Route(SIGN_IN, partial(answered, door.sign_in), methods=["POST"]),
        Route("/sign-out", partial(answered, door.sign_out), methods=["POST"]),
        Route("/open", partial(answered, door.open), methods=["GET"]),
        Route(f"{STATIC}{{name}}", partial(answered, _static), methods=["GET"]),
        *live.ROUTES,
        *ROUTES,
        *actions.ROUTES,
        *deletion_actions.ROUTES,
        *grant_actions.ROUTES,
        *selection_actions.ROUTES,
        *place_actions.ROUTES,
        *federation_actions.ROUTES,
    ]
    router = Router(routes, default=_nothing)
    return Pages(
        serve=partial(_guarded, router, HostCheck(names)),
        admit=admitted,
        refuse=_refusal,
        safe=_safe,
        open_bodies={SIGN_IN: 4096},
        large_bodies=frozenset((federation_actions.LOAD,)),
        at_once=STATIC,
    )


def _safe(send: Send) -> Send:
    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [*message["headers"]]
            names = {name.lower() for name, _ in headers}
            message = {
                **message,
                "headers": headers + [header for header in _HEADERS if header[0] not in names],
            }
        await send(message)

    return with_headers


async def _guarded(router: Router, hosts: HostCheck, scope: Scope, receive: Receive, send: Send) -> None:
    request = Request(scope, receive)
    if not hosts.allows(request):
        reason = "this server does not know the name that you asked for; set PILOTAGE_URL to its address"
        await _refusal(request, 421, reason)(scope, receive, send)
        return
    await router(scope, receive, _safe(send))


def _refusal(request: Request, status: int, detail: str) -> Response:
    answer = refuse(request, status, detail)
    answer.headers.update(HEADERS)
    return answer


async def _nothing(scope: Scope, receive: Receive, send: Send) -> None:
    await (await answered(_no_page, Request(scope, receive)))(scope, receive, send)


async def _no_page(request: Request) -> Response:
    if caller := await caller_of(request):
        visit_of(request, caller)
    return refuse(request, 404, "there is no such page")


class _Door:
    """Opens and ends sessions."""

    def __init__(self, runtime: Runtime, code: OneTimeCode | None) -> None:
        self._wrong = WrongTokens(runtime.clock)
        self._code = code

    async def show(self, request: Request) -> Response:
        """Show the form for a token."""
        return _sign_in_page(request.query_params.get("next", "/"))

    async def sign_in(self, request: Request) -> Response:
        """Open a session with a token."""
        form = await read_form(request)
        after = own_path(form.get("next", "/"))
        if not is_from_here(request):
            return _sign_in_page(after, "this form came from another site", 403)
        token = form.get("token", "").strip()
        tokens = _tokens(request)
        credential = await tokens.find(token) if 0 < len(token) <= LONGEST_TOKEN else None
        if credential is None or credential.role not in ("user", "operator"):
            return self._refused(request, after)
        runtime: Runtime = request.app.state.runtime
        session = session_of(credential, runtime.clock())
        try:
            cookie = await run_in_threadpool(runtime.store.tokens.open_session, session, token)
        except LookupError:  # it was revoked a moment ago
            return self._refused(request, after)
        return _opened(request, cookie, after, (session.expires or 0) - runtime.clock())

    def _refused(self, request: Request, after: str) -> Response:
        """Refuse a wrong token. Right ones still open sessions, even from the same address."""
        if self._wrong.count(request.client.host if request.client else "") <= MOST_WRONG:
            return _sign_in_page(after, NO_TOKEN, 403)
        reason = f"more than {MOST_WRONG} wrong tokens came from your address within a minute; wait a minute"
        return _sign_in_page(after, reason, 429)

    async def open(self, request: Request) -> Response:
        """Open a session with the one-time code of the server's terminal."""
        code = request.query_params.get("code", "")
        if self._code is None or not is_loopback(request):
            return _sign_in_page("/", "a one-time link works on the server's own machine alone", 403)
        if not self._code.redeem(code):
            reason = "the one-time link was used, or is older than ten minutes; paste your token instead"
            return _sign_in_page("/", reason, 403)
        runtime: Runtime = request.app.state.runtime
        session = operator_session(runtime.clock())
        cookie = await run_in_threadpool(runtime.store.tokens.open_session, session)
        return _opened(request, cookie, "/", SESSION_LIFE)

    async def sign_out(self, request: Request) -> Response:
        """End the session."""
        token = session_token(request)
        form = await read_form(request)
        if not is_from_here(request) or form.get("form_token") != form_token(token):
            return refuse(request, 403, "this form is not of your session")
        runtime: Runtime = request.app.state.runtime
        if token:
            await run_in_threadpool(runtime.store.tokens.end, token)
            _tokens(request).forget(token)
        answer = RedirectResponse(SIGN_IN, 303)
        set_cookie(request, answer, "", 0)
        return answer


def _opened(request: Request, token: str, after: str, seconds: float) -> Response:
    answer = RedirectResponse(after, 303)
    set_cookie(request, answer, token, seconds)
    return answer


def _sign_in_page(after: str, fault: str = "", status: int = 200) -> Response:
    return HTMLResponse(rendering.sign_in(own_path(after), fault), status)


def _tokens(request: Request) -> KnownTokens:
    return cast(KnownTokens, request.app.state.tokens)


@cache
def _static_files() -> Mapping[str, tuple[bytes, str]]:
    folder = files("pilotage.server.web") / "static"
    return {
        file.name: (file.read_bytes(), _KINDS[f".{file.name.rpartition('.')[2]}"])
        for file in folder.iterdir()
        if f".{file.name.rpartition('.')[2]}" in _KINDS
    }


async def _static(request: Request) -> Response:
    file = _static_files().get(request.path_params["name"])
    if file is None:
        raise HTTPException(404, "there is no such file")
    # Addresses name the file's content (rendering.asset), so a browser may keep it.
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(file[0], media_type=file[1], headers=headers)
