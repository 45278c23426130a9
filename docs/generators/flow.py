"""Pages on the way of a job: states with their pictures, steps, time-outs."""

import dataclasses
import inspect

from generators.markdown import table
from pilotage.adapters.computing.loader import installed
from pilotage.flow.steps import STEPS
from pilotage.model.documents.world import World
from pilotage.model.records import federation
from pilotage.model.records.constants import LoopConstants
from pilotage.model.records.states import STATES, TRANSITIONS, Kind
from pilotage.model.rules import timeouts
from pilotage.model.rules.plain_states import JOB_STATES, TASK_STATES
from pilotage.policies.pilots.submissions import HEARTBEATS
from pilotage.store.worlds.parts import ALWAYS


def states() -> str:
    """A diagram and a table for each kind of record."""
    transitions = "\nThe tables below have every transition that a commit accepts.\n"
    return "# States\n\n" + _words() + transitions + "".join(map(_states_of, STATES))


def _words() -> str:
    """Return what people see of jobs and tasks, and the states of the engine behind it."""
    seen: dict[str, tuple[list[str], list[str]]] = {}
    for state, plain in JOB_STATES.items():
        seen.setdefault(str(plain), ([], []))[0].append(str(state))
    for task_state, plain in TASK_STATES.items():
        seen.setdefault(str(plain), ([], []))[1].append(str(task_state))
    rows = [(word, ", ".join(jobs), ", ".join(tasks)) for word, (jobs, tasks) in seen.items()]
    return (
        "Commands, page and notebooks show few words. `--verbose` shows the states of the engine, which\n"
        "documents of the API have too. `pilotage jobs 12 --state waiting` takes a word or a state.\n\n"
        + table(("what you see", "jobs in these states", "tasks in these states"), rows)
        + "\nA live task shows what its jobs do: it runs if one of them does, else it waits for what most\n"
        "of them wait for. Jobs of a task that ended without them are closed, and shown as cancelled.\n"
    )


def _states_of(kind: Kind) -> str:
    meaning = (inspect.getdoc(STATES[kind]) or "").strip()
    picture = f"![States of a {kind}, as arrows]({_picture(kind).removesuffix('.dot')}.svg)"
    return f"\n## {kind.title()}s\n\n{meaning}\n\n{picture}\n\n" + table(
        ("from", "to", "when"),
        [(", ".join(sources), target, text) for (target, text), sources in _sources(kind).items()],
    )


def _sources(kind: Kind) -> dict[tuple[str, str], list[str]]:
    """Return the states before each transition: a row of the table for each state after it, and cause."""
    rows: dict[tuple[str, str], list[str]] = {}
    for source, target, text in _transitions(kind):
        rows.setdefault((target, text), []).append(source or "–")
    return rows


def _transitions(kind: Kind) -> list[tuple[str | None, str, str]]:
    return [(source, target, text) for (of, source, target), text in TRANSITIONS.items() if of == kind]


def _picture(kind: Kind) -> str:
    return f"../pictures/states-{kind}.dot"


def pictures() -> dict[str, str]:
    """The source of a diagram for each kind of record, in Graphviz's language."""
    return {_picture(kind): _diagram(kind) for kind in STATES}


def _diagram(kind: Kind) -> str:
    rows = _transitions(kind)
    left = {source for source, _, _ in rows}
    ends = sorted({target for _, target, _ in rows} - left)
    lines = [
        f"// States of a {kind}, written by `make docs`",
        "digraph {",
        "  ranksep=0.35; nodesep=0.2;",
        '  new [shape=circle, label="", width=0.15, fillcolor="#334155", color="#334155"];',
        *(f'  {state} [fillcolor="#dcfce7", color="#16a34a"];' for state in ends),
        *(f"  {source or 'new'} -> {target};" for source, target, _ in rows),
        "}",
    ]
    return "\n".join(lines) + "\n"


def steps() -> str:
    """The steps of a job's path, with their wake-ups and the fields that they read."""
    rows = [
        (
            f"`{step.name}`",
            step.summary,
            ", ".join(
                [
                    *sorted(f"{kind} {state}" for kind, state in step.wakes_on),
                    *(f"events in `{field}`" for field in sorted(step.hears)),
                ]
            )
            or "–",
            "every period" if step.has_loop else "when a pilot asks",
        )
        for step in STEPS
    ]
    read = {step.name: step.fields - ALWAYS for step in STEPS}
    names = [one.name for one in dataclasses.fields(World) if one.name not in ALWAYS]
    return (
        "# Steps\n\nThe steps are in the order of a job's path.\n"
        "A loop runs its step when a record enters a state that wakes the loop,\n"
        "and otherwise every `loops.period`. `pilotage plan STEP` makes the decision of any\n"
        "step from a saved world.\n\n"
        + table(("step", "what it does", "woken by", "runs"), rows)
        + "\n## What each step reads\n\n"
        "Each step declares the fields of its world; the others are empty for it. Every world has its time,\n"
        "its seed, the federation, and when queues changed.\n\n"
        + table(
            ("step", "reads"),
            [(f"`{name}`", ", ".join(f"`{one}`" for one in names if one in read[name])) for name in read],
        )
    )


def time_outs() -> str:
    """The watchdog's rules with their outcome, and what each outcome means."""
    declared = federation.Federation(name="any", sites=(), storages=(), queues=())
    rows = [
        (
            rule.kind,
            rule.state,
            rule.text,
            f"{rule.clock}: `{rule.limit}` {rule.seconds(declared):g} s",
            f"`{rule.high}` {rule.seconds_high(declared):g} s" if rule.high else "",
            rule.outcome,
        )
        for rule in timeouts.RULES
    ]
    outcomes = "\n".join(f"- **{name}**: {text}" for name, text in timeouts.OUTCOMES.items())
    return (
        "# Time-outs (rules T)\n\nNone applies while the queue is paused or has `disable_reassign`.\n\n"
        + table(("kind", "state", "because", "after", "at priority ≥ 800", "outcome"), rows)
        + f"\n{outcomes}\n{_ends()}"
    )


def _ends() -> str:
    """How long Pilotage waits after the end of a batch job, by kind of computing element."""
    heartbeats = (
        f"{HEARTBEATS:g} × `loops.heartbeat`, {HEARTBEATS * LoopConstants().heartbeat:g} s by default"
    )
    rows = []
    for kind, entry in sorted(installed().items()):
        doubt = entry.load().end_doubt
        rows.append((f"`{kind}`", heartbeats, f"{doubt:g} s" if doubt else "never reported"))
    return (
        "\n## After the end of a batch job\n\nThe attempts of a pilot end when its batch job, or process, "
        "has ended and the pilot has been silent since then for this long. Until then `explain`, `stuck`, "
        "`drain` and the metric `pilotage_jobs_pilot_ended` show the end. If the batch system only lost the "
        "node, the pilot may still run there, so the wait is longer.\n\n"
        + table(("kind of computing element", "after an end", "after an end without the node"), rows)
    )
