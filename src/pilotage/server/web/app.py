"""All pages: their routes, static files, and the headers that keep browsers safe."""

from collections.abc import Mapping, Sequence
from functools import cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fastapi import Request, Response
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Route, Router
from starlette.types import Message, Receive, Scope, Send

from pilotage.flow.runtime import Runtime
from pilotage.server.api.edge.pages import Pages
from pilotage.server.web import (
    actions,
    deletion_actions,
    federation_actions,
    grant_actions,
    live,
    place_actions,
    selection_actions,
)
from pilotage.server.web.code_flow import SIGN_IN, CodeFlow
from pilotage.server.web.door import Door
from pilotage.server.web.pages import answered, caller_of, refuse, visit_of
from pilotage.server.web.sessions import HostCheck, OneTimeCode, admitted
from pilotage.server.web.views import ROUTES

if TYPE_CHECKING:
    from pilotage.server.api.sign_in.issuer_files import Issuer

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

STATIC = "/static/"
_KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


def make_pages(
    runtime: Runtime,
    urls: Sequence[str] = (),
    code: OneTimeCode | None = None,
    issuers: "Sequence[Issuer]" = (),
) -> Pages:
    """Return the pages of a server that browsers reach at these URLs. Providers lead to the first one."""
    names = frozenset(name for url in urls if (name := urlsplit(url).hostname))
    door = Door(runtime, code, CodeFlow(issuers, urls[0] if urls else ""))
    routes: list[BaseRoute] = [
        *door.routes,
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
