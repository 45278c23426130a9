"""The pattern of each view: a function from a visit to a page, which one place serves and draws."""

import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, Literal, TypeVar, get_origin
from urllib.parse import parse_qsl, urlencode

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse
from starlette.routing import Route

from pilotage.flow.runtime import Runtime
from pilotage.model.rules.verbs import VERBS
from pilotage.model.values.identity import PERSON_ROLES, Credential, Identity, Owners, token_id
from pilotage.server.api.edge.access import bearer_of, note_records, owner_seen, sees_all, sight_of
from pilotage.server.api.edge.answers import misread
from pilotage.server.api.edge.faults import REFUSALS, refusal
from pilotage.server.api.edge.measured_routes import measured
from pilotage.server.api.work.task_filters import TEXT
from pilotage.server.web import rendering
from pilotage.server.web.sessions import form_token, is_from_here, token_of_session
from pilotage.store import BadCursor, EventKind, ListPage, Store

MOST_FIELDS = 100
"""Most fields of a form or an address."""

Cursor = Annotated[str, Field(max_length=4000, pattern=TEXT)]
"""After which row of a list a page begins; empty: with the first one."""

_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """A request of a signed-in person."""

    request: Request
    caller: Credential
    runtime: Runtime
    form: Mapping[str, str] = field(default_factory=dict)
    live: str = ""
    """The address of the stream of signs that the page is stale; empty: it never is."""

    @property
    def store(self) -> Store:
        """The store."""
        return self.runtime.store

    @property
    def now(self) -> float:
        """The time in s since 1970 UTC."""
        return self.runtime.clock()

    @property
    def owner(self) -> Owners:
        """The owners of the records that are shown."""
        return owner_seen(self.caller)

    @property
    def is_operator(self) -> bool:
        """Whether the caller may do what operators do."""
        return self.caller.role == "operator"

    @property
    def sees_all(self) -> bool:
        """Whether everybody's records are shown."""
        return sees_all(self.caller)

    @property
    def sees_others(self) -> bool:
        """Whether records of several people are shown."""
        return not isinstance(sight_of(self.caller), Identity)

    def administers(self, site: str | None) -> bool:
        """Return whether the caller may change what is at a site: as an operator, or its admin."""
        return self.is_operator or site in self.caller.sites

    def for_operators(self, action: str, site: str | None = None) -> None:
        """Raise a 403 for other people than operators: only operators ``action``, such as ``see pilots``.

        Monitors see what operators see. The admin of a ``site`` does what is at it.
        """
        if not (self.administers(site) or (self.sees_all and self.request.method == "GET")):
            raise HTTPException(403, f"only operators {action}")

    @property
    def form_token(self) -> str:
        """The token that each form sends back."""
        return form_token(token_of_session(self.request))

    @property
    def session(self) -> str:
        """The id of the person's session."""
        return token_id(token_of_session(self.request))

    @property
    def done(self) -> str:
        """What the action before this page did, in words; empty if none did anything."""
        verb = VERBS.get(self.request.query_params.get("done", ""))
        jobs = self.request.query_params.get("jobs", "")
        if verb is None:
            return ""
        return verb.done + (f" Jobs: {int(jobs):,}." if jobs.isdecimal() and len(jobs) < 12 else "")

    def number(self, name: str) -> int:
        """Return a number of the path. Raises a 404 for one that no record can have."""
        number = int(self.request.path_params[name])
        if not 0 < number < 2**63:
            raise HTTPException(404, f"there is no {name} {number}")
        return number

    def query(self, model: type[_Model]) -> _Model:
        """Return the address's parameters as a model; empty ones count as left out.

        Raises RequestValidationError with each fault.
        """
        return query_of(self.request, model)

    def sent(self, model: type[_Model]) -> _Model:
        """Return the form as a model, without empty fields. Raises RequestValidationError with each fault."""
        return validated(model, {name: value for name, value in self.form.items() if value.strip()})

    def next_page(self, rows: ListPage[Any]) -> str:
        """Return the address of the page after one; empty after the last."""
        return self.address(after=rows.next, done=None) if rows.next else ""

    def address(self, **changes: object) -> str:
        """Return this view's address with other parameters; None or "" leaves one out."""
        parameters = self.request.query_params.multi_items()
        unchanged = [(name, value) for name, value in parameters if name not in changes]
        added = [(name, str(value)) for name, value in changes.items() if value not in (None, "")]
        query = urlencode([*unchanged, *added])
        return self.request.url.path + (f"?{query}" if query else "")


def query_of(request: Request, model: type[_Model]) -> _Model:
    """Return an address's parameters as a model; see ``Visit.query``."""
    values: dict[str, Any] = {}
    for name, value in request.query_params.multi_items()[:MOST_FIELDS]:
        field = model.model_fields.get(name)
        if field is None or not value.strip():
            continue
        if get_origin(field.annotation) in (list, tuple):
            values.setdefault(name, []).append(value)
        else:
            values[name] = value
    return validated(model, values)


def validated(model: type[_Model], values: Mapping[str, Any]) -> _Model:
    """Return a model of what a person gave. Raises RequestValidationError with each fault."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        faults = [{**fault, "loc": ("query", *fault["loc"])} for fault in error.errors()]
        raise RequestValidationError(faults) from error


LogOf = tuple[Literal["job", "pilot"], int]
"""Whose log a page shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Staleness:
    """Which events make a page stale: of some tasks, or of kinds; empty: all that the person may see.

    With ``everybody`` events of others count too, for pages of what all share. With ``log``, such as
    ``("job", 12)``, so does what its log gets. ``seconds`` pass at least between two renewals.
    """

    tasks: Sequence[int] = ()
    kinds: Sequence[EventKind] = ()
    everybody: bool = False
    log: LogOf | None = None
    seconds: float = 2.0

    def address(self, after: int) -> str:
        """Return the address of the stream of signs that a page, made after an event, is stale."""
        parameters: list[tuple[str, object]] = [("after", after)]
        parameters += [("task", name) for name in self.tasks] + [("kind", name) for name in self.kinds]
        parameters += [("everybody", "true")] if self.everybody else []
        parameters += [self.log] if self.log else []
        return f"/live?{urlencode(parameters)}"


OF_PLACES = Staleness(everybody=True, kinds=("job", "pilot", "transfer", "breaker", "federation"), seconds=5)
"""For pages of sites, queues and shares, which show what everybody's work does there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What a view shows: a template with its model.

    ``json`` is the path of the API's document below its prefix, ``command`` the command line that shows the
    same. The block ``live`` of the template is fetched again when an event makes it ``stale``; None: never.
    After ``again`` s the browser reads the page again, even without JavaScript; 0: never. ``section`` is the
    entry of the navigation that it belongs to.
    """

    template: str
    title: str
    section: str
    model: object
    json: str = ""
    command: str = ""
    stale: Staleness | None = None
    again: int = 0
    status: int = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirect:
    """Where a person goes after an action."""

    address: str


View = Callable[[Visit], Page | Redirect]
"""A view's function. It runs in a thread, and may raise what the API's routes raise."""


class _Number(Convertor[int]):
    """A number of a record. More digits match no path: Python refuses to read thousands of them."""

    regex = "[0-9]{1,19}"

    def convert(self, value: str) -> int:
        """Return the number."""
        return int(value)

    def to_string(self, value: int) -> str:
        """Return its digits."""
        return str(value)


register_url_convertor("number", _Number())


def view(path: str, function: View) -> Route:
    """Return the route of a view for reading."""
    return Route(path, partial(_serve, function), methods=["GET"])


def action(path: str, function: View) -> Route:
    """Return the route of a form: its page shows the changes, and its function makes them."""
    return Route(path, partial(_serve, function), methods=["POST"])


async def _serve(function: View, request: Request) -> Response:
    return await answered(partial(_visit, function), request)


async def _visit(function: View, request: Request) -> Response:
    credential = await caller_of(request)
    if credential is None:
        return refuse(request, 401, "please sign in")
    visit = visit_of(request, credential)
    if request.method == "POST":
        if credential.role == "monitor" and not request.url.path.startswith("/sessions/"):
            raise HTTPException(403, "you are a monitor: you see everything, and change nothing")
        visit = replace(visit, form=await _form(request))
    return await run_in_threadpool(measured(_drawn), function, visit)


def visit_of(request: Request, caller: Credential) -> Visit:
    """Return the visit of a signed-in person. A page that refuses it has the person's menus."""
    visit = Visit(request=request, caller=caller, runtime=request.app.state.runtime)
    request.state.visit = visit
    return visit


async def caller_of(request: Request) -> Credential | None:
    """Return the credential of a request's session; None if the caller may see no page."""
    note_records(request)
    token = bearer_of(request.headers.get("authorization", ""))
    credential: Credential | None = await request.app.state.tokens.examine(token) if token else None
    return credential if credential and credential.role in PERSON_ROLES else None


async def _form(request: Request) -> Mapping[str, str]:
    """Return the fields of a form that a page of this session holds. Raises a 403 for any other."""
    form = await read_form(request)
    if not is_from_here(request) or form.get("form_token") != form_token(token_of_session(request)):
        raise HTTPException(403, "this form is not of your session; load its page again, and repeat it")
    return form


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form; the last value of each."""
    # In a thread: a large document takes seconds, and the event loop must serve others.
    return await run_in_threadpool(measured(_fields), await request.body())


def _fields(body: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError as error:
        raise HTTPException(400, f"the form cannot be read: {error}") from error
    return dict(pairs)


Endpoint = Callable[[Request], Awaitable[Response]]


async def answered(endpoint: Endpoint, request: Request) -> Response:
    """Answer a request; make a page of its error."""
    try:
        return await endpoint(request)
    except HTTPException as error:
        return refuse(request, error.status_code, str(error.detail))
    except RequestValidationError as error:
        return refuse(request, 422, in_words(error))
    except BadCursor as error:
        return refuse(request, 422, str(error))
    except REFUSALS as error:
        return refuse(request, *refusal(error))


def in_words(error: RequestValidationError) -> str:
    """Return the faults of a request, field by field."""
    return "; ".join(f"{fault.field}: {fault.message}" for fault in misread(error.errors()))


def _drawn(function: View, visit: Visit) -> Response:
    # Before the view reads anything: what happens from here on makes it stale.
    newest = visit.store.event_log.visible()
    page = function(visit)
    if isinstance(page, Redirect):
        return RedirectResponse(page.address, 303)
    is_fragment = visit.request.headers.get("hx-request") == "true"
    visit = replace(visit, live=page.stale.address(newest) if page.stale else "")
    values = {"page": page, "visit": visit, "model": page.model, "now": visit.now}
    return HTMLResponse(rendering.page(page.template, values, is_fragment=is_fragment), page.status)


def own_path(path: str) -> str:
    """Return a path of this server; the first page for any other address."""
    is_own = path.startswith("/") and not path.startswith("//") and "\\" not in path and path.isprintable()
    return path if is_own and len(path) <= 2000 else "/"


def refuse(request: Request, status: int, detail: str) -> Response:
    """Return a page with the reason of a refusal; without a session, lead to the sign-in."""
    is_fragment = request.headers.get("hx-request") == "true"
    if status == 401:
        target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        sign_in = f"/sign-in?{urlencode({'next': target if request.method == 'GET' else '/'})}"
        if is_fragment:
            return Response(status_code=401, headers={"HX-Redirect": "/sign-in"})
        return RedirectResponse(sign_in, 303)
    visit = getattr(request.state, "visit", None)
    return HTMLResponse(rendering.refusal(status, detail, visit), status)


def command(*words: object, **options: object) -> str:
    """Return a command with its options. Several values repeat one; None, "" and False leave it out."""
    line = ["pilotage", *(str(word) for word in words)]
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            line.append(flag)
        elif value not in (None, "", False):
            for text in value if isinstance(value, list | tuple) else [value]:
                line += [flag, str(text)]
    return shlex.join(line)
