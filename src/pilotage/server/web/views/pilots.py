"""Pilots: the list, and the life of one with its agent's log. Both are for operators."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlencode

from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.routing import Route

from pilotage.model.records.states import PilotState
from pilotage.model.records.work import Pilot
from pilotage.server.api.places.breakers import ShownBreaker
from pilotage.server.api.places.pilots import breakers_of_empty, queues_seen, read_logs, visible_pilot
from pilotage.server.api.work.explanations import explained_pilot
from pilotage.server.api.work.logs import KeptLogs
from pilotage.server.api.work.task_filters import TEXT
from pilotage.server.web.pages import Cursor, Page, Staleness, Visit, command, view
from pilotage.server.web.views.job import gaps_of

ROWS = 100
"""Pilots of a page."""


class PilotQuery(BaseModel):
    """The parameters of the list's address."""

    state: PilotState | None = None
    queue: Annotated[str, Field(max_length=200, pattern=TEXT)] = ""
    empty: bool = False
    after: Cursor = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotsModel:
    """Pilots, newest first."""

    query: PilotQuery
    states: Sequence[PilotState]
    pilots: Sequence[Pilot]
    breakers: Sequence[ShownBreaker]
    total: int | None
    next_page: str


def _refuse_users(visit: Visit) -> None:
    if not visit.caller.sites:
        visit.for_operators("see pilots")


def pilots(visit: Visit) -> Page:
    """Show the newest pilots, in a state, of a queue, or sent in vain."""
    _refuse_users(visit)
    query = visit.query(PilotQuery)
    queue, queues = query.queue or None, queues_seen(visit.runtime, visit.caller)
    shown = queues if queue is None else {queue} if queues is None else queues & {queue}
    page = visit.store.queries.pilots(query.state, queue, ROWS, query.empty, query.after, queues)
    model = PilotsModel(
        query=query,
        states=tuple(PilotState),
        pilots=page,
        breakers=breakers_of_empty(visit.runtime, shown) if query.empty else (),
        total=page.total,
        next_page=visit.next_page(page),
    )
    parameters = {"limit": ROWS, **query.model_dump(mode="json", exclude_defaults=True)}
    return Page(
        template="pilots.html",
        title="Pilots",
        section="Pilots",
        model=model,
        json=f"/pilots?{urlencode(parameters).replace('True', 'true')}",
        command=command("pilots", state=query.state, queue=query.queue, empty=query.empty),
        stale=Staleness(kinds=("pilot",), seconds=5),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotModel:
    """One pilot: its life, and what its agent wrote."""

    pilot: Pilot
    lines: Sequence[str]
    logs: KeptLogs
    gaps: dict[str, int]


def pilot(visit: Visit) -> Page:
    """Show why a pilot was made, which jobs it ran, why it ended, and its agent's log."""
    _refuse_users(visit)
    number = visit.number("pilot")
    visible_pilot(visit.runtime, visit.caller, number)
    explanation = explained_pilot(visit.runtime, number)
    if explanation is None:
        raise HTTPException(404, f"there is no pilot {number}")
    logs = read_logs(visit.runtime, explanation.pilot, 0)
    model = PilotModel(pilot=explanation.pilot, lines=explanation.lines, logs=logs, gaps=gaps_of(logs))
    return Page(
        template="pilot.html",
        title=f"Pilot {number}",
        section="Pilots",
        model=model,
        json=f"/pilots/{number}/explain",
        command=command("explain", f"pilot:{number}"),
        stale=Staleness(kinds=("pilot",), log=("pilot", number), seconds=5) if logs.runs else None,
    )


ROUTES: Sequence[Route] = (view("/pilots", pilots), view("/pilots/{pilot:number}", pilot))
