"""Serve the most frequent calls of pilots without the framework, which takes longer than the calls
themselves.

Only a valid request goes this way. Any other goes to the framework, which refuses it in its own words. Both
ways end in the same function.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import HTTPException, Request, Response
from fastapi.exception_handlers import http_exception_handler
from pydantic import BaseModel, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Scope, Send

from pilotage.flow.runtime import Runtime
from pilotage.model.values.identity import Credential

from .access import KnownTokens, bearer_of
from .guard import replayed

FaultHandler = Callable[[Request, Any], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class FastCall:
    """A route: the model of its body, and the function that answers a pilot, given its credential and id."""

    body: type[BaseModel]
    answer: Callable[[Any, Credential, int, Runtime], Response]


class FastPath:
    """Serves ``calls`` to pilots, by path. The application serves everything else.

    ``handlers`` answer the faults of steps like the application.
    """

    def __init__(
        self,
        app: ASGIApp,
        calls: Mapping[str, FastCall],
        handlers: Mapping[type[Exception], FaultHandler],
    ) -> None:
        self._app = app
        self._calls = calls
        self._handlers: dict[type[Exception], FaultHandler] = {
            **handlers,
            HTTPException: http_exception_handler,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, whose body the guard has read."""
        call = self._calls.get(scope.get("path", "")) if scope.get("method") == "POST" else None
        if call is None:
            await self._app(scope, receive, send)
            return
        request, message = Request(scope), await receive()
        answer = await self._answer(request, call, message.get("body", b""))
        if answer is None:
            await self._app(scope, replayed(message.get("body", b""), receive), send)
        else:
            await answer(scope, receive, send)

    async def _answer(self, request: Request, call: FastCall, body: bytes) -> Response | None:
        """Answer a valid request; return None for any other."""
        tokens: KnownTokens = request.app.state.tokens
        token = bearer_of(request.headers.get("authorization", ""))
        credential = await tokens.find(token) if token else None
        # Other spellings of the type are legal too. The framework knows them all.
        typed = request.headers.get("content-type") == "application/json"
        if credential is None or credential.role != "pilot" or not typed:
            return None
        runtime: Runtime = request.app.state.runtime
        try:
            return await run_in_threadpool(_call, call, body, credential, runtime)
        except tuple(self._handlers) as fault:
            return await self._handlers[type(fault)](request, fault)


def _call(call: FastCall, body: bytes, credential: Credential, runtime: Runtime) -> Response | None:
    if credential.pilot is None:
        return None
    try:
        parsed = call.body.model_validate_json(body)
    # The framework parses it again and reports the fault in its own words. Faults are rare.
    except ValidationError:
        return None
    return call.answer(parsed, credential, credential.pilot, runtime)
