"""Open sessions of browsers: a person's own, or for operators everybody's; and their end."""

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.routing import Route

from pilotage.model.rules.verbs import END_SESSION
from pilotage.model.values.identity import Identity
from pilotage.server.web.action_model import ActionPreview, ActionSubject, PageAction
from pilotage.server.web.pages import Page, Visit, view
from pilotage.store import BrowserSession

MOST_ROWS = 200
"""Most sessions of a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionsModel:
    """Open sessions, newest first; ``current`` is the visitor's."""

    sessions: Sequence[BrowserSession]
    current: str
    more: int


def _owner(visit: Visit) -> Identity | None:
    """Return the person who owns the sessions that a visitor sees and may end; None: everybody."""
    return None if visit.is_operator else visit.caller.identity


def sessions(visit: Visit) -> Page:
    """Show the open sessions that a person may end."""
    records = visit.store.sessions.of(_owner(visit))
    model = SessionsModel(
        sessions=records[:MOST_ROWS], current=visit.session, more=max(len(records) - MOST_ROWS, 0)
    )
    return Page(template="sessions.html", title="Sessions", section="Sessions", model=model)


@dataclass(frozen=True, slots=True, kw_only=True)
class _EndedSession(ActionSubject):
    session: BrowserSession


def _find(visit: Visit) -> _EndedSession:
    name = visit.request.path_params["session"]
    for session in visit.store.sessions.of(_owner(visit)):
        if session.id == name:
            return _EndedSession(
                name="this session", path="/sessions", section="Sessions", json="", session=session
            )
    raise HTTPException(404, f"there is no open session {name}")


def _show(_: Visit, of: _EndedSession, __: str) -> ActionPreview:
    browser = of.session.browser or "a browser without a name"
    return ActionPreview(says=[f"{of.session.name} is signed out of {browser} within 5 seconds."], command="")


def _end(visit: Visit, of: _EndedSession) -> None:
    visit.store.sessions.end_named(of.session.id, _owner(visit))


ROUTES: Sequence[Route] = (
    view("/sessions", sessions),
    *PageAction(verb=END_SESSION, find=_find, show=_show, do=_end).routes("/sessions/{session}/end"),
)
