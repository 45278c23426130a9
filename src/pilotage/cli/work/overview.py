"""Jobs and transfers now, in ten lines: waiting, running, failing."""

import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pilotage.cli.places.breakers import until
from pilotage.cli.terminal.output import counts, echo, one_line, show_json
from pilotage.cli.terminal.states import jobs_by_state
from pilotage.explain.remarks import sentence
from pilotage.model.records.states import LIVE_TASKS
from pilotage.model.rules.plain_states import PlainWord, engine_states, task_state, word_counts
from pilotage.model.values.phrases import plural

if TYPE_CHECKING:
    from pilotage.client import Client, Task

LATELY = 86_400.0
"""Seconds that a failed task is shown."""

MOST_TASKS = 1000
"""Most tasks of a state that are read."""

MOST_NAMED = 3
"""Most tasks or breakers of a line."""


def show_overview(client: "Client", json_output: bool) -> None:
    """Print the overview of the caller's tasks, an operator's of all, and of all queues."""
    pages = (client.tasks(state=state.value, limit=MOST_TASKS) for state in LIVE_TASKS)
    # By number: a task may go on while the pages are read.
    live = list({view["id"]: view for page in pages for view in page}.values())
    failed = client.tasks(state="failed", limit=MOST_TASKS)
    lately = [view for view in failed if view["since"] > time.time() - LATELY]
    queues = list(client.queues())
    waiting = max(live, key=_waiting, default=None)
    # Read it whole: a list has the number of waiting jobs, without reasons.
    largest = client.task(waiting["id"]) if waiting and _waiting(waiting) and not json_output else None
    if json_output:
        show_json({"tasks": live, "failed": lately, "queues": queues})
        return
    for line in (*_of_tasks(live, largest), *_of_failed(lately), *_of_queues(queues)):
        echo(line)


def _waiting(view: Any) -> int:
    return word_counts(view["jobs"])[PlainWord.WAITING]


def _of_tasks(live: list[Any], largest: "Task | None") -> Iterator[str]:
    jobs: Counter[str] = Counter()
    for view in live:
        jobs.update(view["jobs"])
    by_state = Counter(view["state"] for view in live)
    words = Counter(task_state(view["state"], view["jobs"], view["held"]).word for view in live)
    summary = ", ".join(f"{_at_least(words[word])} {word}" for word in PlainWord if words[word])
    yield f"tasks:   {summary or 'none is under way'}"
    if max(by_state.values(), default=0) >= MOST_TASKS:
        yield f"         jobs of {MOST_TASKS} tasks of a state are counted below, and no others"
    yield f"wait:    {_some(jobs, PlainWord.WAITING)}"
    if largest and (obstacle := next((remark for remark in largest.remarks if remark.mend), None)):
        yield f"why:     task {largest.id} {largest.name}: {sentence(obstacle)}"
    yield f"run:     {_some(jobs, PlainWord.RUNNING)}"
    yield f"finish:  {_some(jobs, PlainWord.FINISHING)}"
    if held_tasks := [view for view in live if view["held"]]:
        yield f"held:    {_named(held_tasks)}"


def _of_failed(failed: list[Any]) -> Iterator[str]:
    if not failed:
        yield "failed:  no task in the last day"
        return
    yield f"failed:  {_named(failed)} in the last day; why: pilotage jobs {failed[0]['id']} --failed"


def _of_queues(queues: list[Any]) -> Iterator[str]:
    pilots: Counter[str] = Counter()
    for queue in queues:
        pilots.update(queue["pilots"])
    yield f"pilots:  {_live_pilots(pilots)} at {plural(len(queues), 'queue')}"
    offline = [queue["name"] for queue in queues if queue["status"] != "online"]
    if offline:
        yield f"offline: {', '.join(offline[:MOST_NAMED])}{_more(len(offline))}"
    tripped = [breaker for queue in queues for breaker in queue["breakers"]]
    if tripped:
        first = tripped[0]
        text = f"{first['what']}: {first['state']}, {until(first)}: {one_line(first['reason'])}"
        rest = f"; {plural(len(tripped) - 1, 'other')}: pilotage breakers" if len(tripped) > 1 else ""
        yield f"breaker: {text}{rest}"


def _live_pilots(pilots: Counter[str]) -> str:
    return counts({state: pilots[state] for state in ("created", "submitted", "running")}) or "none"


def _at_least(count: int) -> str:
    return f"{count} or more" if count >= MOST_TASKS else f"{count}"


def _some(jobs: Counter[str], word: PlainWord) -> str:
    """Return the number of jobs with a word; of waiting ones also what they wait for."""
    by_state = {state.value: jobs[state.value] for state in engine_states(word)}
    total = sum(by_state.values())
    reasons = f": {jobs_by_state(by_state)}" if total and word is PlainWord.WAITING else ""
    return f"{plural(total, 'job')}{reasons}"


def _named(views: list[Any]) -> str:
    named = ", ".join(f"{view['id']} {view['name']}" for view in views[:MOST_NAMED])
    total = f"{_at_least(len(views))} tasks" if len(views) != 1 else "1 task"
    return f"{total}: {named}{_more(len(views))}"


def _more(count: int) -> str:
    return f" and {count - MOST_NAMED} more" if count > MOST_NAMED else ""
