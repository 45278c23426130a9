"""Routes that charge computing to their caller's share, and read large bodies outside the event loop."""

import json
from collections.abc import Callable, Coroutine
from functools import partial, wraps
from inspect import iscoroutinefunction
from typing import Any, ParamSpec, TypeVar

from fastapi import HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.concurrency import run_in_threadpool

from pilotage import request_budget

P = ParamSpec("P")
R = TypeVar("R")

SMALL_BODY = 64 * 1024
"""Most bytes of a request that does not carry many records; the event loop reads them in a few ms."""


def measured(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function, so that its computing counts for the request that the thread works on."""

    @wraps(function)
    def call(*args: P.args, **named: P.kwargs) -> R:
        with request_budget.measured():
            return function(*args, **named)

    return call


class MeasuredRoute(APIRoute):
    """A route of the framework. A thread reads a large body, because all requests share the event loop."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint if iscoroutinefunction(endpoint) else measured(endpoint), **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the function that answers a request."""
        answered = super().get_route_handler()
        kind = self.body_field.field_info.annotation if self.body_field else None

        async def answer(request: Request) -> Response:
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                request = _LargeRequest(request, partial(read_large, kind))
            return await answered(request)

        return answer


class _LargeRequest(Request):
    """A request with a large body, which a thread reads."""

    def __init__(self, request: Request, read: Callable[[bytes], BaseModel]) -> None:
        super().__init__(request.scope, request.receive, request._send)
        self._read = read

    async def json(self) -> Any:
        """Return the body: plain values of a small one, the record itself of a large one."""
        body = await self.body()
        if len(body) <= SMALL_BODY:
            return await super().json()
        return await run_in_threadpool(measured(self._read), body)


def read_large(kind: type[BaseModel], body: bytes) -> BaseModel:
    """Return the record that a large body describes. Raises ``JSONDecodeError`` and HTTPException.

    The parser calls back at each object: then other threads get their turn, and the request's budget is
    checked. The text must be UTF-8: the count of the body's shape would misread UTF-16, which the parser
    accepts.
    """
    document = json.loads(body.decode("utf-8-sig"), object_hook=_asking)
    try:
        return kind.model_validate(document)
    except ValidationError as bad:
        errors = [{**error, "loc": ("body", *error["loc"])} for error in bad.errors()]
        raise HTTPException(422) from RequestValidationError(errors)


def _asking(part: dict[str, Any]) -> dict[str, Any]:
    request_budget.check()
    return part
