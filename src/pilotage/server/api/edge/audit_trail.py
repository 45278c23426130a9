"""Records what people and their programs do: each changing request, reads of others' data, and sign-ins.

The record of a change is part of the transaction that makes it (``store/database/acts.py``). Requests that
change nothing in the store are recorded before their answer. Pilots leave no records.
"""

import json
import re
from base64 import urlsafe_b64decode
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, cast
from urllib.parse import parse_qsl, unquote

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pilotage.model.records.audit import LONGEST_TEXT, MOST_DETAILS, NewAuditRecord
from pilotage.model.values.identity import Credential, token_id
from pilotage.server.api.edge.access import token_of
from pilotage.server.api.edge.audited_routes import AUDITED, UNCHANGING, AuditLine
from pilotage.server.api.edge.dependencies import PREFIX
from pilotage.store import Act, Description, Store, acting

CALLER = "pilotage.caller"
"""The key of a request's scope for its credential, which the guard has found; None: it has none."""

BODY = "pilotage.body"
"""The same for its body, if it is small."""

WHY = "Pilotage-Why"
"""The header with the reason of a change, percent-encoded."""

PILOTS = ("pilot", "enrolment", "enrolled")
"""Roles that leave no records: their calls are many, and their records have histories."""

OF_PLACES = frozenset(
    ("/live", "/queues", "/queues/{queue}/explain", "/queues/{name}", "/breakers", "/admin")
)
"""Routes that show what everybody's work does at places, but nobody's records."""

MOST_FIELDS = 100
REFUSED = 400
"""From this status on, a request has done nothing."""

_Remaining = tuple[NewAuditRecord, Callable[[], None]]
"""A record to write, and what follows when it is written."""

_BARE: Mapping[str, Any] = {"record": "", "owner": "", "owner_vo": "", "before": {}, "why": ""}
_SUBJECTS = ("file", "dataset")
"""Parameters of queries that name what is read."""

_CONVERTOR = re.compile(r"\{(\w+):\w+\}")
_TRUE = ("true", "True", "1", "yes", "on")
_REASONS = ("because", "note")


def address_of(request: Request) -> str:
    """Return the address of a request's client."""
    return request.client.host if request.client else ""


def note_refusal(request: Request, reason: str) -> None:
    """Count a refused sign-in. The reason has no part of the token."""
    _store(request).audit.refusals.count(address_of(request), reason)


def _store(request: Request) -> Store:
    return cast(Store, request.app.state.runtime.store)


class AuditTrail:
    """Inside the guard, around the routes: opens the act of each request of a person or program."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        caller: Credential | None = scope.get(CALLER)
        if CALLER not in scope or (caller and caller.role in PILOTS):
            await self._app(scope, receive, send)
            return
        served = _ServedRequest(Request(scope), caller)

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                await served.settle(message["status"])
            await send(message)

        with acting(served.act):
            await self._app(scope, receive, sent)


class _ServedRequest:
    """A request and its act."""

    def __init__(self, request: Request, caller: Credential | None) -> None:
        self._store, self._request, self._caller = _store(request), request, caller
        self._token = token_of(request) or ""
        self._is_reading = request.method in ("GET", "HEAD", "OPTIONS")
        self._description: Description | None = None
        self.act = Act(
            self._store.clock,
            self._store.database.server,
            credential=caller,
            token=token_id(self._token),
            address=address_of(request),
            describe=self._describe,
        )

    def _describe(self) -> Description | None:
        """Return what the request asks for, once its route is known; None if it changes nothing."""
        if not self._is_reading and self._description is None:
            self._description = described(self._request)
        return self._description

    async def settle(self, status: int) -> None:
        """Write what the request has left to record, before its answer. Raises the database's error."""
        if status < REFUSED and (remaining := [*self._changes(), *self._sign_in(), *self._read()]):
            await run_in_threadpool(self._store.audit.add, *(record for record, _ in remaining))
            # Only now: what could not be written is recorded when the request is repeated.
            for _, settle in remaining:
                settle()

    def _changes(self) -> Iterator[_Remaining]:
        asked = self._describe()
        if asked is None or not asked.is_question:
            yield from ((act.record(), act.settle) for act in (self.act, *self.act.parts) if act.is_due)

    def _sign_in(self) -> Iterator[_Remaining]:
        """Yield the record of the first use of a provider's token."""
        memory, key = self._store.audit.sign_ins, token_id(self._token)
        if self._caller and "." in self._token and not memory.count(key):
            after = {"issuer": _issuer(self._token)}
            yield replace(self.act.record(), **_BARE, verb="sign in", after=after), partial(memory.add, key)

    def _read(self) -> Iterator[_Remaining]:
        """Yield the record of a read of others' data, once an hour."""
        audit, request, asked = self._store.audit, self._request, self._describe()
        if not (self._caller and self.act.reads_of_others and (asked is None or asked.is_question)):
            return
        query = {name: value for name, value in request.query_params.items() if name in _SUBJECTS}
        subject = next((f"{name} {value}" for name, value in {**query, **request.path_params}.items()), "")
        place = f"{request.url.path} {subject}"
        if route_of(request).removeprefix(PREFIX) in OF_PLACES or not audit.is_new_read(
            self._caller.identity, place
        ):
            return
        record = replace(
            self.act.record(),
            verb="read",
            record=subject[:LONGEST_TEXT],
            after={"path": request.url.path[:LONGEST_TEXT]},
        )
        yield record, partial(audit.note_read, self._caller.identity, place)


def _issuer(token: str) -> str:
    """Return who signed a token that was accepted."""
    claims = token.split(".")[1]
    return str(json.loads(urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["iss"])[:LONGEST_TEXT]


def route_of(request: Request) -> str:
    """Return the path template of a request's route; empty before it is known."""
    return str(getattr(request.scope.get("route"), "path", ""))


def key_of(method: str, path: str) -> str:
    """Return the name of a route in ``AUDITED``, from its method and its path with parameters."""
    own_path = _CONVERTOR.sub(r"{\1}", path.removeprefix(PREFIX))
    return f"{method} {own_path}"


def described(request: Request) -> Description | None:
    """Return what a request asks for; None if its route changes nothing."""
    key = key_of(request.method, route_of(request))
    if key in UNCHANGING:
        return None
    # A route without a line leaves a record all the same; a test asks for its line.
    line = AUDITED.get(key) or AuditLine(verb=key)
    fields = dict(request.query_params) if line.has_query else _sent(request)
    fields |= request.path_params
    texts = defaultdict(str, {name: _text(value) for name, value in fields.items()})
    given = [unquote(request.headers.get(WHY, "")), *(texts[name] for name in _REASONS)]
    return Description(
        verb=line.verb.format_map(texts),
        record=line.record.format_map(texts).strip(),
        after={name: texts[name] for name in line.asked if texts[name]},
        why="".join(filter(str.isprintable, next(filter(None, given), ""))),
        is_question=texts["dry_run"] in _TRUE or bool(line.needs and not texts[line.needs]),
    )


def _sent(request: Request) -> dict[str, Any]:
    """Return the fields of a small body, with those in its ``changes``."""
    body, kind = request.scope.get(BODY) or b"", request.headers.get("content-type", "").lower()
    sent: Any = {}
    # The route has refused what cannot be read.
    with suppress(ValueError, RecursionError):
        sent = (
            json.loads(body) if "json" in kind else dict(parse_qsl(body.decode(), max_num_fields=MOST_FIELDS))
        )
    if not isinstance(sent, dict):
        return {}
    changes = sent.get("changes")
    return {**(changes if isinstance(changes, dict) else {}), **sent}


def _text(value: Any) -> str:
    """Return a value in a few words; empty for what has none."""
    if isinstance(value, bool):
        return "true" if value else ""
    if isinstance(value, list):
        return ", ".join(filter(None, map(_text, value[:MOST_DETAILS])))[:LONGEST_TEXT]
    return str(value)[:LONGEST_TEXT] if isinstance(value, str | int | float) else ""
