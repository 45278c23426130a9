"""Tasks that a verb changes: by name, or by options after a question."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pilotage.cli.errors import BadInput, CommandFailure
from pilotage.cli.terminal.output import ask
from pilotage.cli.terminal.task_filters import TaskFilters
from pilotage.model.records.states import ENDED
from pilotage.model.rules.plain_states import tasks_phrase
from pilotage.model.values.phrases import plural

if TYPE_CHECKING:
    from pilotage.client import Client

MOST_TASKS = 10_000
"""Most tasks that one command changes."""

MOST_NAMED = 5
"""Most tasks that the question names."""


def _is_live(view: Any) -> bool:
    return view["state"] not in ENDED["task"]


_CHANGEABLE: dict[str, Callable[[Any], bool]] = {
    "retry": lambda view: view["state"] != "finished",
    "finish": lambda view: _is_live(view) or view["state"] == "failed",
    "hold": lambda view: _is_live(view) and not view["held"],
    "release": lambda view: _is_live(view) and bool(view["held"]),
}
"""Which tasks a verb can change; every other verb changes live ones."""


def is_changeable(verb: str, view: Any) -> bool:
    """Return whether a verb changes this task of a workflow: of these, a retry takes what ended badly."""
    if verb == "retry":
        return view["state"] in ("failed", "cancelled")
    return _CHANGEABLE.get(verb, _is_live)(view)


@dataclass(frozen=True, slots=True)
class Chosen:
    """Tasks and jobs by name, or filters that choose tasks. With ``yes``, there is no question."""

    named: list[str] | None
    filters: TaskFilters
    yes: bool

    def subjects(self, client: "Client", verb: str) -> list[str]:
        """Return tasks and jobs, each once.

        Raises ``BadInput`` if nothing is chosen, or if no person can be asked, and ``CommandFailure``
        if no task matches, or if the user declines.
        """
        self.filters.refuse_beside(self.named)
        if not self.filters.has_conditions:
            if not self.named:
                raise BadInput(
                    "name tasks, or choose them by --label, --name, --owner, --vo, --state or --site"
                )
            return list(dict.fromkeys(self.named))
        tasks = self.filters.tasks(client, MOST_TASKS)
        if len(tasks) == MOST_TASKS:
            raise BadInput(f"these are {MOST_TASKS:,} tasks or more; choose fewer")
        views = [view for view in tasks if _CHANGEABLE.get(verb, _is_live)(view)]
        if not views:
            if not tasks:
                raise CommandFailure(f"no task to {verb} matches")
            states = tasks_phrase(Counter(view["state"] for view in tasks))
            matches = plural(len(tasks), "task")
            raise CommandFailure(f"nothing to {verb}: the filters match {matches} ({states})")
        self._ask(verb, views)
        return [str(view["id"]) for view in views]

    def _ask(self, verb: str, views: list[Any]) -> None:
        jobs = sum(sum(view["jobs"].values()) for view in views)
        states = tasks_phrase(Counter(view["state"] for view in views))
        question = f"{verb} {plural(len(views), 'task')} with {plural(jobs, 'job')} ({states})"
        if self.yes:
            return
        named = ", ".join(f"{view['id']} {view['name']}" for view in views[:MOST_NAMED])
        more = f" and {len(views) - MOST_NAMED:,} more" if len(views) > MOST_NAMED else ""
        ask(question, f"{named}{more}")
