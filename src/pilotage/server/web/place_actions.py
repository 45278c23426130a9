"""Drain, close and open sites, queues and storages: each page first says what follows, then does it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC
from functools import partial
from typing import Annotated
from urllib.parse import quote, urlencode

from pydantic import BaseModel, Field, ValidationError
from starlette.routing import Route

from pilotage.explain.restrictions import CLOSE, DRAIN, left
from pilotage.flow.calls.places import restrictions
from pilotage.flow.errors import NotNow
from pilotage.model.records.restrictions import RestrictedKind, Restriction, RestrictionMode
from pilotage.model.values.durations import end_of
from pilotage.server.api.edge.access import actor
from pilotage.server.web.action_model import ActionModel, AskedAction, Verb
from pilotage.server.web.commands import command
from pilotage.server.web.pages import Page, Redirect, Visit, action, view

SECTIONS: Mapping[RestrictedKind, str] = {"site": "Sites", "queue": "Queues", "storage": "Storages"}
_MODES: Sequence[RestrictionMode] = ("drain", "close")


def address_of(kind: RestrictedKind, name: str) -> str:
    """Return the address of a place's page."""
    return f"/{kind}s/{quote(name, safe='')}"


def verbs(visit: Visit, kind: RestrictedKind, name: str) -> list[Verb]:
    """Return what an operator can do about a place now; nothing for other people."""
    if not visit.is_operator:
        return []
    found = {one.mode for one in _in_force(visit, kind, name)}
    wanted = [("Drain …", "drain"), ("Close …", "close")]
    told = [(label, verb) for label, verb in wanted if verb not in found]
    told += [("Open …", "open")] if found else []
    return [Verb(label=label, address=f"{address_of(kind, name)}/{verb}") for label, verb in told]


def _in_force(visit: Visit, kind: RestrictedKind, name: str) -> list[Restriction]:
    return [one for one in visit.store.restrictions() if (one.kind, one.name) == (kind, name)]


class RestrictionForm(BaseModel):
    """Why a place is drained or closed, and until when."""

    because: Annotated[str, Field(min_length=1, max_length=500)]
    until: Annotated[str, Field(max_length=40)] = ""


def _restrict_page(kind: RestrictedKind, mode: RestrictionMode, visit: Visit) -> Page:
    return _restrict_form(kind, mode, visit, "")


def _restrict_form(kind: RestrictedKind, mode: RestrictionMode, visit: Visit, fault: str) -> Page:
    name = _name(visit)
    there = left(asdict(restrictions.of_declared(visit.runtime, kind, name)))
    effects = DRAIN if mode == "drain" else CLOSE
    model = ActionModel(
        heading=f"{mode.capitalize()} {kind} {name}?",
        says=[effects[kind], f"{there[0].upper()}{there[1:]}.", *_now(visit, kind, name)],
        faults=[fault] if fault else [],
        asked=[
            AskedAction(
                name="because",
                label="Why, for everybody who asks",
                value=visit.form.get("because", "")[:500],
                hint="new disks",
                most=500,
                is_required=True,
            ),
            AskedAction(
                name="until",
                label="Until, in UTC; empty: until somebody opens it",
                value=visit.form.get("until", "")[:40],
                hint="2h, 3d, or 2026-11-30T18:00",
                most=40,
            ),
        ],
        address=f"{address_of(kind, name)}/{mode}",
        button=f"{mode.capitalize()} it",
        is_dangerous=True,
        back=address_of(kind, name),
    )
    given = {key: visit.form.get(key) for key in ("because", "until")}
    told = {"because": given["because"] or "REASON", "until": given["until"]}
    return _page(kind, model, command(f"{kind}s", mode, name, **told), 422 if fault else 200)


def _restrict(kind: RestrictedKind, mode: RestrictionMode, visit: Visit) -> Page | Redirect:
    name = _name(visit)
    try:
        form = RestrictionForm.model_validate({key: text.strip() for key, text in visit.form.items()})
        until = end_of(form.until, visit.now, UTC) if form.until else None
        asked = Restriction(
            kind=kind,
            name=name,
            mode=mode,
            because=form.because,
            actor=actor(visit.caller),
            since=visit.now,
            until=until,
        )
        restrictions.restrict(visit.runtime, asked)
    except ValidationError:
        return _restrict_form(kind, mode, visit, "because: say why, in at most 500 characters")
    except NotNow as error:
        return _restrict_form(kind, mode, visit, str(error))
    except ValueError as error:
        return _restrict_form(kind, mode, visit, f"until: {error}")
    return _done(kind, name, mode)


def _open_page(kind: RestrictedKind, visit: Visit) -> Page:
    name = _name(visit)
    restrictions.of_declared(visit.runtime, kind, name)
    now = _now(visit, kind, name)
    model = ActionModel(
        heading=f"Open {kind} {name}?",
        says=now or ["It is open: nobody drains it or has closed it."],
        address=f"{address_of(kind, name)}/open",
        button="Open it",
        can=bool(now),
        back=address_of(kind, name),
    )
    return _page(kind, model, command(f"{kind}s", "open", name))


def _open(kind: RestrictedKind, visit: Visit) -> Redirect:
    name = _name(visit)
    restrictions.lift(visit.runtime, kind, name, actor(visit.caller))
    return _done(kind, name, "open")


def _page(kind: RestrictedKind, model: ActionModel, line: str, status: int = 200) -> Page:
    return Page(
        template="action.html",
        title=model.heading,
        section=SECTIONS[kind],
        model=model,
        json="/restrictions",
        command=line,
        status=status,
    )


def _done(kind: RestrictedKind, name: str, verb: str) -> Redirect:
    return Redirect(address=f"{address_of(kind, name)}?{urlencode({'done': verb})}")


def _now(visit: Visit, kind: RestrictedKind, name: str) -> list[str]:
    return [f"It is {one.text}." for one in _in_force(visit, kind, name)]


def _name(visit: Visit) -> str:
    """Return the name of the path. Raises a 403 for other people than operators."""
    visit.for_operators("drain, close and open")
    return str(visit.request.path_params["name"])


def _routes() -> Sequence[Route]:
    made: list[Route] = []
    for kind in SECTIONS:
        path = f"/{kind}s/{{name}}"
        for mode in _MODES:
            made.append(view(f"{path}/{mode}", partial(_restrict_page, kind, mode)))
            made.append(action(f"{path}/{mode}", partial(_restrict, kind, mode)))
        made += [
            view(f"{path}/open", partial(_open_page, kind)),
            action(f"{path}/open", partial(_open, kind)),
        ]
    return made


ROUTES = _routes()
