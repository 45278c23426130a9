"""The demonstration's final report: for people, and as one document."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from pilotage.demo.summary import QueueSummary, table
from pilotage.explain.analysis import explain
from pilotage.explain.rendering import lines
from pilotage.model.documents.decision import Choice, Refusal, Value
from pilotage.model.documents.serialization import from_document

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class DemoOutcome:
    """The server's data about the ended task, and the folder with its copied results."""

    task: Mapping[str, Any]
    queues: Sequence[QueueSummary]
    choices: Sequence[Choice]
    results: Sequence[Path]
    seconds: float


def choice_of(document: Mapping[str, Any]) -> Choice:
    """Return a choice in the API's form."""
    return from_document(Choice, {name: value for name, value in document.items() if name != "time"})


def show(console: Console, outcome: DemoOutcome, differences: Sequence[str], modules: int) -> None:
    """Print the end of the demonstration for people."""
    task = outcome.task

    def say(text: str = "", style: str = "") -> None:
        console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)

    say()
    say(f"Task {task['id']} {task['name']} {task['state']} after {outcome.seconds:.0f} s", "bold")
    say()
    console.print(table(outcome.queues), highlight=False)
    placement = largest_placement(outcome.choices)
    if placement:
        say("\nWhy jobs went where they went", "bold")
        for line in lines(explain(placement)):
            say(line)
        say("\nWhy no job went to the other queues", "bold")
        for refusal in placement.refusals:
            for line in refusal_lines(refusal):
                say(line)
    say("\nResult", "bold")
    for path in outcome.results:
        say(f"  {path}")
    for line in differences:
        say(line, "red")
    if differences:
        say("the result DIFFERS from the direct computation", "bold red")
    else:
        say(f"the result equals the direct computation ({modules} modules)", "bold green")
    say(f"\nExamples to start from: federation.yaml and task.yaml in {HERE}")


def largest_placement(choices: Sequence[Choice]) -> Choice | None:
    """Return the choice that placed the most jobs, the earliest of equal ones; None if none placed any."""
    placed = [choice for choice in reversed(choices) if choice.placed]
    return max(placed, key=lambda choice: sum(choice.placed.values()), default=None)


def refusal_lines(refusal: Refusal) -> list[str]:
    """Return a line for each queue that a check refuses, with the need and what the queue has."""
    needs = refusal.need if isinstance(refusal.need, tuple) else (refusal.need,) * len(refusal.queues)
    unit = f" {refusal.unit}" if refusal.unit else ""
    return [
        f"  {queue}: {refusal.rule} {refusal.name}, need {_text(need)}{unit}, have {_text(have)}{unit}"
        for queue, need, have in zip(refusal.queues, needs, refusal.have, strict=True)
    ]


def _text(value: Value) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def document(outcome: DemoOutcome, differences: Sequence[str]) -> dict[str, Any]:
    """Return the final report for programs."""
    placement = largest_placement(outcome.choices)
    return {
        "task": {name: outcome.task[name] for name in ("id", "name", "state", "jobs")},
        "seconds": round(outcome.seconds, 1),
        "queues": [asdict(queue) for queue in outcome.queues],
        "placement": lines(explain(placement)) if placement else [],
        "refusals": [line.strip() for refusal in placement.refusals for line in refusal_lines(refusal)]
        if placement
        else [],
        "results": [str(path) for path in outcome.results],
        "differences": list(differences),
        "equal": not differences,
    }
