"""Actions of the page: each first shows its changes, and then makes them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, TypeVar
from urllib.parse import urlencode

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.routing import Route

from pilotage.explain.comparison import SideBySide
from pilotage.federation.faults import BadDocument
from pilotage.flow.errors import NotNow
from pilotage.model.records.spec import TaskSpec
from pilotage.model.rules.verbs import Verb
from pilotage.server.web.pages import Page, Redirect, Visit, action, in_words, view

LABELS = {"memory": "Memory, MB", "walltime": "Walltime, s", "cores": "Cores", "priority": "Priority"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionLink:
    """An action that makes sense now, with the address of its page."""

    label: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionSubject:
    """What an action is about, with the page that a person returns to, and its document of the API."""

    name: str
    path: str
    section: str
    json: str
    are_many: bool = False
    then: str = ""
    """Where a person goes after it; empty: to its page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionField:
    """A text that an action needs."""

    name: str
    label: str
    value: str = ""
    hint: str = ""
    most: int = 200
    is_required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionPreview:
    """The changes that an action will make, and the command line that does the same.

    ``fields`` belong to the form that only looks, ``asked`` to the form that acts.
    """

    says: Sequence[str]
    command: str
    lines: Sequence[str] = ()
    comparison: SideBySide | None = None
    faults: Sequence[str] = ()
    fields: Sequence[tuple[str, str, str]] = ()
    asked: Sequence[ActionField] = ()
    hidden: Mapping[str, str] = field(default_factory=dict)
    can: bool = True
    may_insist: bool = False
    choice: tuple[str, str] | None = None
    """The name and the label of a box that the form has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionModel:
    """An action that a person looks at, and why it was not done, if it was tried."""

    verb: Verb
    subject: ActionSubject
    preview: ActionPreview
    faults: Sequence[str]


_Of = TypeVar("_Of", bound=ActionSubject)
_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageAction(Generic[_Of]):
    """A verb on the page: how its subject is found, which changes it will make, and its effect.

    ``show`` also gets why it was not done. ``do`` returns the number of jobs that it moved, if it moves any.
    """

    verb: Verb
    find: Callable[[Visit], _Of]
    show: Callable[[Visit, _Of, str], ActionPreview]
    do: Callable[[Visit, _Of], int | None]
    site: Callable[[Visit], str | None] = lambda _: None
    """The site whose admin may do it too."""

    def routes(self, path: str) -> Sequence[Route]:
        """Return the routes that look and that act."""
        return view(path, self._look), action(path, self._act)

    def _subject(self, visit: Visit) -> _Of:
        if self.verb.is_for_operators:
            visit.for_operators(self.verb.name, self.site(visit))
        return self.find(visit)

    def _look(self, visit: Visit) -> Page:
        return self._page(visit, self._subject(visit))

    def _page(self, visit: Visit, subject: _Of, fault: str = "", status: int = 200) -> Page:
        preview = self.show(visit, subject, fault)
        faults = [*preview.faults, *filter(None, [fault])]
        return Page(
            template="action.html",
            title=f"{self.verb.label} {subject.name}?",
            section=subject.section,
            model=ActionModel(verb=self.verb, subject=subject, preview=preview, faults=faults),
            json=subject.json,
            command=preview.command,
            status=status,
        )

    def _act(self, visit: Visit) -> Page | Redirect:
        subject = self._subject(visit)
        try:
            jobs = self.do(visit, subject)
        except NotNow as error:
            return self._page(visit, subject, str(error), 409)
        except BadDocument as error:
            return self._page(visit, subject, str(error), 422)
        except RequestValidationError as error:
            return self._page(visit, subject, in_words(error), 422)
        done = {"done": self.verb.name} | ({} if jobs is None else {"jobs": str(jobs)})
        address = subject.then or subject.path
        return Redirect(address=f"{address}{'&' if '?' in address else '?'}{urlencode(done)}")


def values(visit: Visit, model: type[_Model]) -> _Model:
    """Return the form of an action, or before it is sent the parameters of its address."""
    return visit.sent(model) if visit.request.method == "POST" else visit.query(model)


class FieldQuery(BaseModel):
    """Values that a person asks for; none leaves a field as it is."""

    memory: Annotated[float | None, Field(gt=0, le=1e9, allow_inf_nan=False)] = None
    walltime: Annotated[float | None, Field(gt=0, le=1e9, allow_inf_nan=False)] = None
    cores: Annotated[int | None, Field(ge=1, le=100_000)] = None
    priority: Annotated[int | None, Field(ge=-(10**6), le=10**6)] = None

    def changes(self) -> Mapping[str, Any]:
        """Return the fields to change, named as in a task."""
        return {name: _whole(value) for name, value in self.model_dump(exclude_none=True).items()}


def shown_fields(query: FieldQuery, spec: TaskSpec | None = None) -> Sequence[tuple[str, str, str]]:
    """Return name, label and current value of each field of a form; what the task asks for is its hint."""
    changes = query.changes()
    return [(name, _label(name, spec), str(changes.get(name, ""))) for name in LABELS]


def _label(name: str, spec: TaskSpec | None) -> str:
    now = getattr(spec, name, None)
    return LABELS[name] + (f" (now {_whole(now)})" if now not in (None, 0) else "")


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value == int(value) else value
