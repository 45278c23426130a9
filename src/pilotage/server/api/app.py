"""The application: every route under ``/api/v1``, and the answers to errors of steps."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from importlib.metadata import version
from typing import Any, cast

from fastapi import FastAPI, Request, Response
from fastapi.exception_handlers import http_exception_handler
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.applications import Starlette
from starlette.datastructures import State
from starlette.exceptions import HTTPException
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from pilotage.flow.calls.administration.federation_changes import WorkInTheWay
from pilotage.flow.errors import LeaseTooShort
from pilotage.flow.runtime import Runtime
from pilotage.model.values.identity import Credential, UnfitName
from pilotage.server.api.administration import (
    audit,
    callers,
    health,
    metrics,
    past,
    people,
    quotas,
    servers,
    sign_in_offers,
    tokens,
)
from pilotage.server.api.data import (
    comparisons,
    datasets,
    files,
    output_archives,
    storages,
    transfers,
    uploads,
)
from pilotage.server.api.descriptions import describe
from pilotage.server.api.documents import NO_JSON
from pilotage.server.api.edge.access import KnownTokens, SignedTokenCheck
from pilotage.server.api.edge.answers import answer, describe_answers, misread
from pilotage.server.api.edge.audit_trail import AuditTrail, note_refusal
from pilotage.server.api.edge.dependencies import PREFIX, is_of_api
from pilotage.server.api.edge.faults import REFUSALS, Faults, refusal
from pilotage.server.api.edge.guard import Guard
from pilotage.server.api.edge.pages import BY_SESSION, Pages
from pilotage.server.api.edge.plain_routes import PlainRoute
from pilotage.server.api.edge.requests import RequestLog, RouteNote
from pilotage.server.api.edge.together import Together
from pilotage.server.api.openapi import OpenApi
from pilotage.server.api.places import (
    breakers,
    federation,
    pilot_agent,
    pilot_files,
    pilots,
    queues,
    restrictions,
    sites,
)
from pilotage.server.api.tes import routes
from pilotage.server.api.work import (
    deleting,
    event_hub,
    events,
    grants,
    jobs,
    manifests,
    notifications,
    plan,
    secrets,
    stuck,
    task_jobs,
    tasks,
    workflows,
)
from pilotage.store import BadCursor, TooBroad

ROUTERS = (
    *(
        events,
        tasks,
        workflows,
        deleting,
        grants,
        task_jobs,
        manifests,
        jobs,
        plan,
        queues,
        sites,
        pilots,
        transfers,
        storages,
        breakers,
    ),
    *(
        files,
        uploads,
        comparisons,
        output_archives,
        datasets,
        federation,
        restrictions,
        tokens,
        secrets,
        servers,
        notifications,
        stuck,
        past,
        audit,
        people,
        quotas,
        callers,
        pilot_agent,
        pilot_files,
        routes,
    ),
)


def create_app(
    runtime: Runtime,
    pages: Pages | None = None,
    metrics_token: str = "",
    *,
    metrics_on_loopback: bool = False,
    tes: str = "",
    signed: SignedTokenCheck | None = None,
) -> Starlette:
    """The API of one Pilotage: pilots' most frequent calls, then all that the framework serves, and pages.

    ``metrics_token`` lets programs read the metrics, and nothing else. With ``metrics_on_loopback``, programs
    here need no token for it. ``tes`` serves TES, ``signed`` accepts tokens of identity providers.
    """
    framework = _routed()
    framework.add_route(f"{PREFIX}/openapi.json", OpenApi().answer, include_in_schema=False)
    for fault, handler in _HANDLERS.items():
        framework.add_exception_handler(fault, handler)
    # The guard answers unexpected errors, so the framework's outermost layer for that is left out.
    framework.middleware_stack = cast(ServerErrorMiddleware, framework.build_middleware_stack()).app
    below = _with_pages(framework, pages) if pages else framework
    shown = metrics.MetricsPage(runtime, metrics_token, loopback=metrics_on_loopback).serve
    paths = [Route(metrics.PATH, shown), Mount("", below)]
    app = Starlette(routes=paths, exception_handlers=_HANDLERS)
    app.state = framework.state
    _prepare(app.state, runtime, tes, signed)
    app.add_middleware(RouteNote)
    app.add_middleware(AuditTrail)
    app.add_middleware(
        Guard,
        prefix=PREFIX,
        tokens=lambda: app.state.tokens,
        pages=pages,
        away=partial(_away, app),
        plain_routes=app.state.plain_routes,
        refused=note_refusal,
    )
    app.add_middleware(Faults, pages=pages)
    app.add_middleware(RequestLog, measurements=runtime.store.measurements)
    return app


def _away(app: Starlette) -> str:
    return cast(Runtime, app.state.runtime).store.away()


def _prepare(state: State, runtime: Runtime, tes: str, signed: SignedTokenCheck | None) -> None:
    """Set what routes and the guard share."""
    state.runtime, state.tes = runtime, tes
    state.readiness = health.Readiness(runtime)
    state.events = event_hub.EventHub(runtime)
    state.offers = signed.offers if signed else ()
    state.tokens = KnownTokens(runtime.store, runtime.clock, signed)
    state.frequent_calls = Together(lambda calls: pilot_agent.answer_heartbeats(state.runtime, calls))
    state.plain_routes = {path: _answering(route) for path, route in pilot_agent.PLAIN_ROUTES.items()}


def _answering(route: PlainRoute) -> PlainRoute:
    """Let a plain route answer faults of steps and requests as the framework does."""

    async def answered(request: Request, caller: Credential | None, body: bytes) -> Response:
        try:
            return await route(request, caller, body)
        except tuple(_HANDLERS) as fault:
            return await next(_HANDLERS[kind] for kind in type(fault).__mro__ if kind in _HANDLERS)(
                request, fault
            )

    return answered


def _with_pages(framework: ASGIApp, pages: Pages) -> ASGIApp:
    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        of_api = scope["type"] != "http" or is_of_api(scope["path"])
        # A browser reads the API only in a session; programs need no headers for browsers.
        answered = pages.safe(send) if BY_SESSION in scope else send
        await (framework if of_api else pages.serve)(scope, receive, answered)

    return serve


def document() -> dict[str, Any]:
    """Return the OpenAPI document of all routes."""
    app = _routed()
    for route in app.routes:
        if isinstance(route, APIRoute):
            describe_answers(route)
    return describe(app.openapi())


def _routed() -> FastAPI:
    """Return the routes alone, without a runtime."""
    app = FastAPI(
        title="Pilotage",
        summary="A workload broker for federated computing that can say why.",
        version=version("pilotage"),
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        separate_input_output_schemas=False,
    )
    for room in (*ROUTERS, health, sign_in_offers):
        # Including a router would make another validator for each of its models: 3 MiB.
        app.router.routes.extend(room.router.routes)
    return app


async def _not_understood(_: Request, fault: RequestValidationError) -> Response:
    if isinstance(fault.body, bytes):  # what is sent as something else than JSON is left as it came
        return answer({"detail": NO_JSON}, 415)
    return answer({"detail": misread(fault.errors())}, 422)


async def _refused(request: Request, refusal: HTTPException) -> Response:
    cause = refusal.__cause__
    if isinstance(cause, RequestValidationError):
        return await _not_understood(request, cause)
    if isinstance(cause, REFUSALS):
        return await _refuse(request, cause)
    if refusal.status_code != 400:
        return await http_exception_handler(request, refusal)
    # The framework gives no reason if a body is no JSON in UTF-8, nests too deeply or has a huge number.
    texts = {
        UnicodeDecodeError: "must be JSON in UTF-8",
        RecursionError: "nests too deeply",
        ValueError: "has a number of too many digits",
    }
    text = next((text for kind, text in texts.items() if isinstance(cause, kind)), "cannot be read as JSON")
    return answer({"detail": [{"field": "", "message": f"the body {text}"}]}, 422)


async def _refuse(_: Request, fault: Exception) -> Response:
    status, detail = refusal(fault)
    return answer({"detail": detail}, status)


async def _lossy(_: Request, fault: WorkInTheWay) -> Response:
    return answer({"detail": f"{fault}. `force` does it all the same"}, 409)


async def _too_short(_: Request, fault: LeaseTooShort) -> Response:
    return answer({"detail": [{"field": "lease", "message": str(fault)}]}, 422)


async def _too_broad(_: Request, fault: TooBroad) -> Response:
    return answer({"detail": [{"field": "match", "message": str(fault)}]}, 422)


async def _unfit(_: Request, fault: UnfitName) -> Response:
    return answer({"detail": [{"field": fault.field, "message": str(fault)}]}, 422)


async def _no_cursor(_: Request, fault: BadCursor) -> Response:
    return answer({"detail": [{"field": "after", "message": str(fault)}]}, 422)


FaultHandler = Callable[[Request, Any], Awaitable[Response]]
_HANDLERS: Mapping[type[Exception], FaultHandler] = {
    HTTPException: _refused,
    RequestValidationError: _not_understood,
    **dict.fromkeys(REFUSALS, _refuse),
    WorkInTheWay: _lossy,
    LeaseTooShort: _too_short,
    TooBroad: _too_broad,
    BadCursor: _no_cursor,
    UnfitName: _unfit,
}
"""Handlers for faults of steps and requests. The guard handles every other fault."""
