"""Pages for browsers, which the API's process serves below all paths besides the API's."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from fastapi import Request, Response
from starlette.types import ASGIApp, Scope, Send

BY_SESSION = "pilotage.by_session"
"""Marks the scope of a session's request that reads the API."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """Pages as the API's process needs them.

    ``serve`` answers requests outside the API's paths. ``admit`` returns the scope of a request with the
    credentials of its session, and may send it to another path. ``refuse`` makes a page of a refusal: status
    and sentence. ``safe`` adds the headers that keep browsers safe. ``open_bodies`` are paths that take a
    body without credentials, with its most bytes; ``large_bodies`` are paths that take documents. ``at_once``
    begins the paths that need no thread, such as style sheets.
    """

    serve: ASGIApp
    admit: Callable[[Scope], Scope]
    refuse: Callable[[Request, int, str], Response]
    safe: Callable[[Send], Send]
    open_bodies: Mapping[str, int]
    large_bodies: Collection[str]
    at_once: str
