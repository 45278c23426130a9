"""Drain, close and open sites, queues and storages: each page first shows the effects, then does it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC
from functools import partial
from typing import Annotated
from urllib.parse import quote

from pydantic import BaseModel, Field
from starlette.routing import Route

from pilotage.explain.restrictions import CLOSE, DRAIN, describe_remains
from pilotage.federation.faults import BadDocument, Fault
from pilotage.flow.calls.places import restrictions
from pilotage.model.records.restrictions import RestrictedKind, Restriction, RestrictionMode
from pilotage.model.rules.places import site_of
from pilotage.model.rules.verbs import OPEN, VERBS
from pilotage.model.values.durations import end_of
from pilotage.server.api.edge.access import actor
from pilotage.server.web.action_model import ActionField, ActionLink, ActionPreview, ActionSubject, PageAction
from pilotage.server.web.pages import Visit, command

SECTIONS: Mapping[RestrictedKind, str] = {"site": "Sites", "queue": "Queues", "storage": "Storages"}
_MODES: Sequence[RestrictionMode] = ("drain", "close")


def address_of(kind: RestrictedKind, name: str) -> str:
    """Return the address of a place's page."""
    return f"/{kind}s/{quote(name, safe='')}"


def verbs(visit: Visit, kind: RestrictedKind, name: str) -> list[ActionLink]:
    """Return what an operator or its site's admin can do about a place now; nothing for other people."""
    if not visit.administers(_site(kind, name, visit)):
        return []
    in_force = {restriction.mode for restriction in _in_force(visit, kind, name)}
    possible = [*(mode for mode in _MODES if mode not in in_force), *(["open"] if in_force else [])]
    return [
        ActionLink(label=f"{VERBS[verb].label} …", address=f"{address_of(kind, name)}/{verb}")
        for verb in possible
    ]


def _site(kind: RestrictedKind, name: str, visit: Visit) -> str | None:
    return site_of(visit.store.declared_federation(), name, kind)


def _site_of_path(kind: RestrictedKind, visit: Visit) -> str | None:
    return _site(kind, str(visit.request.path_params["name"]), visit)


def _in_force(visit: Visit, kind: RestrictedKind, name: str) -> list[Restriction]:
    return [
        restriction
        for restriction in visit.store.restrictions()
        if (restriction.kind, restriction.name) == (kind, name)
    ]


class RestrictionForm(BaseModel):
    """Why a place is drained or closed, and until when."""

    because: Annotated[str, Field(min_length=1, max_length=500)]
    until: Annotated[str, Field(max_length=40)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _RestrictedPlace(ActionSubject):
    """The place of an action, and the work that is left there."""

    kind: RestrictedKind
    place: str
    remaining_work: str


def _place(kind: RestrictedKind, visit: Visit) -> _RestrictedPlace:
    place = str(visit.request.path_params["name"])
    return _RestrictedPlace(
        name=f"{kind} {place}",
        path=address_of(kind, place),
        section=SECTIONS[kind],
        json="/restrictions",
        kind=kind,
        place=place,
        remaining_work=describe_remains(asdict(restrictions.of_declared(visit.runtime, kind, place))),
    )


def _restricting(mode: RestrictionMode, visit: Visit, of: _RestrictedPlace, _: str) -> ActionPreview:
    because, until = (visit.form.get(name, "") for name in ("because", "until"))
    effects = DRAIN if mode == "drain" else CLOSE
    return ActionPreview(
        says=[
            effects[of.kind],
            f"{of.remaining_work[0].upper()}{of.remaining_work[1:]}.",
            *_now(visit, of.kind, of.place),
        ],
        asked=[
            ActionField(
                name="because",
                label="Why, for everybody who asks",
                value=because[:500],
                hint="new disks",
                most=500,
                is_required=True,
            ),
            ActionField(
                name="until",
                label="Until, in UTC; empty: until an operator opens it",
                value=until[:40],
                hint="2h, 3d, or 2026-11-30T18:00",
                most=40,
            ),
        ],
        command=command(f"{of.kind}s", mode, of.place, because=because or "REASON", until=until),
    )


def _restrict(mode: RestrictionMode, visit: Visit, of: _RestrictedPlace) -> None:
    form = visit.sent(RestrictionForm)
    try:
        until = end_of(form.until, visit.now, UTC) if form.until else None
    except ValueError as error:
        raise BadDocument([Fault(("until",), str(error))]) from error
    restriction = Restriction(
        kind=of.kind,
        name=of.place,
        mode=mode,
        because=form.because.strip(),
        actor=actor(visit.caller),
        since=visit.now,
        until=until,
    )
    restrictions.restrict(visit.runtime, restriction)


def _opening(visit: Visit, of: _RestrictedPlace, _: str) -> ActionPreview:
    now = _now(visit, of.kind, of.place)
    return ActionPreview(
        says=now or ["It is open: nobody drains it or has closed it."],
        can=bool(now),
        command=command(f"{of.kind}s", "open", of.place),
    )


def _open(visit: Visit, of: _RestrictedPlace) -> None:
    restrictions.lift(visit.runtime, of.kind, of.place, actor(visit.caller))


def _now(visit: Visit, kind: RestrictedKind, name: str) -> list[str]:
    return [f"It is {restriction.text}." for restriction in _in_force(visit, kind, name)]


def _routes() -> Iterator[Route]:
    for kind in SECTIONS:
        path, find, site = f"/{kind}s/{{name}}", partial(_place, kind), partial(_site_of_path, kind)
        for mode in _MODES:
            show, do = partial(_restricting, mode), partial(_restrict, mode)
            restricting = PageAction(verb=VERBS[mode], find=find, show=show, do=do, site=site)
            yield from restricting.routes(f"{path}/{mode}")
        opening = PageAction(verb=OPEN, find=find, show=_opening, do=_open, site=site)
        yield from opening.routes(f"{path}/open")


ROUTES = tuple(_routes())
