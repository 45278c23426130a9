"""Options that choose tasks by label, name, owner, VO, state and site."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pilotage.cli.errors import BadInput
from pilotage.cli.terminal.states import TaskStateName, state_query

if TYPE_CHECKING:
    from pilotage.client import Client

Labels = Annotated[
    list[str] | None,
    typer.Option("--label", metavar="NAME=TEXT", help="Tasks with this label; several: with all of them."),
]
NameGlob = Annotated[
    str | None,
    typer.Option("--name", metavar="GLOB", help="Tasks of this name; * matches any text, ? one character."),
]
Owner = Annotated[str | None, typer.Option("--owner", help="Tasks of this owner, for operators.")]
Vo = Annotated[str | None, typer.Option("--vo", help="Tasks of this VO's people, for operators.")]
State = Annotated[
    TaskStateName | None,
    typer.Option(
        "--state", metavar="STATE", help="Waiting, running, finishing, done, failed or cancelled tasks."
    ),
]
Site = Annotated[
    str | None, typer.Option("--site", help="Tasks with jobs at this site that have not ended well.")
]
OPTIONS = {"label": Labels, "name": NameGlob, "owner": Owner, "vo": Vo, "state": State, "site": Site}


@dataclass(frozen=True, slots=True)
class TaskFilters:
    """What tasks are chosen by."""

    label: list[str] | None
    name: str | None
    owner: str | None
    vo: str | None
    state: TaskStateName | None
    site: str | None

    def __post_init__(self) -> None:
        """Refuse an empty text: a script with an unset variable would choose everybody's tasks."""
        empty = [name for name in ("name", "owner", "vo", "site") if getattr(self, name) == ""]
        if empty:
            raise BadInput(f"--{empty[0]} is empty: give a text, or leave it out")

    @property
    def has_conditions(self) -> bool:
        """Return whether there is any condition."""
        return bool(self.label or self.name or self.owner or self.vo or self.state or self.site)

    def tasks(
        self, client: "Client", limit: int, sort: str | None = None, after: str = "", shared: bool = False
    ) -> Any:
        """Return a page of the tasks, newest first unless sorted otherwise, or of others' ``shared`` ones."""
        query = state_query(self.state)
        return client.tasks(
            label=self.label or None,
            name=self.name,
            owner=self.owner,
            vo=self.vo,
            state=query.get("state"),
            word=query.get("word"),
            site=self.site,
            shared=shared,
            sort=sort,
            after=after or None,
            limit=limit,
        )

    def refuse_beside(self, subjects: object) -> None:
        """Refuse them beside tasks that are named. Raises ``BadInput``."""
        if subjects and self.has_conditions:
            raise BadInput(
                "name tasks, or choose them by --label, --name, --owner, --vo, --state and --site; not both"
            )


def with_filters(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options; it gets them as ``filters``."""
    signature = inspect.signature(command, eval_str=True)
    parameters = [parameter for parameter in signature.parameters.values() if parameter.name != "filters"]
    kind = inspect.Parameter.KEYWORD_ONLY
    added = [
        inspect.Parameter(name, kind, default=None, annotation=annotation)
        for name, annotation in OPTIONS.items()
    ]

    @wraps(command)
    def filtered(**values: Any) -> None:
        chosen = TaskFilters(**{name: values.pop(name) for name in OPTIONS})
        command(**values, filters=chosen)

    keywords = [parameter.replace(kind=kind) for parameter in parameters]
    filtered.__signature__ = signature.replace(parameters=[*keywords, *added])  # type: ignore[attr-defined]
    filtered.__annotations__ = {
        parameter.name: parameter.annotation for parameter in (*parameters, *added)
    } | {"return": None}
    del filtered.__wrapped__
    return filtered
