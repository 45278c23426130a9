"""Writes the reference pages from the code: ``make docs``. A test holds that they are up to date."""

import dataclasses
import enum
import inspect
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_type_hints

import typer
from typer.cli import get_docs_for_click
from typer.core import TyperGroup

from draw import draw_stale
from pilotage import client
from pilotage.api.app import document
from pilotage.brokerage.production.checks import CHECKS
from pilotage.cli.app import app
from pilotage.client._sync.functions import MappedTask
from pilotage.client.executor import TaskExecutor
from pilotage.explain.words import without_rules
from pilotage.flow.steps import STEPS
from pilotage.model.documents.decision import Decision
from pilotage.model.documents.serialization import json_schema, schema_text
from pilotage.model.documents.world import World
from pilotage.model.records import catalogues, constants, federation, spec
from pilotage.model.records.federation import Federation
from pilotage.model.records.states import STATES, TRANSITIONS, Kind
from pilotage.model.records.work import TaskSpec
from pilotage.model.rules import timeouts
from pilotage.model.values import software
from pilotage.simulation import policies, scenario
from pilotage.simulation.scenario import Scenario
from pilotage.store.worlds.parts import ALWAYS
from rules import RULES, Carrier, Rule, numbers_in, tests, values

NOTE = "<!-- Written by `make docs` from the code; do not edit. -->\n\n"


def pages() -> dict[str, str]:
    """The reference's files by name, with their text."""
    return {
        "states.md": NOTE + _for_users(states()),
        "timeouts.md": NOTE + _for_users(time_outs()),
        "brokerage.md": NOTE + brokerage(),
        "conformance.md": NOTE + conformance(),
        "documents.md": NOTE + _for_users(documents()),
        "api.md": NOTE + _for_users(api()),
        "cli.md": NOTE + _for_users(command_line()),
        "client.md": NOTE + _for_users(python_client()),
        "steps.md": NOTE + _for_users(steps()),
        "world.schema.json": schema_text(World),
        "federation.schema.json": schema_text(Federation),
        "task.schema.json": schema_text(TaskSpec),
        "scenario.schema.json": schema_text(Scenario),
        "decision.schema.json": schema_text(Decision),
        **pictures(),
    }


def _for_users(text: str) -> str:
    """Take the numbers of published rules out of sentences; the pages on rules keep them."""
    return "\n".join(map(without_rules, text.split("\n")))


def table(head: Sequence[str], rows: Iterator[Sequence[object]] | Sequence[Sequence[object]]) -> str:
    """A table in Markdown."""
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    lines += ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def states() -> str:
    """A diagram and a table for each kind of record."""
    return "# States\n\nEvery transition that a commit accepts.\n" + "".join(map(_states_of, STATES))


def _states_of(kind: Kind) -> str:
    meaning = (inspect.getdoc(STATES[kind]) or "").strip()
    picture = f"![States of a {kind}, as arrows]({_picture(kind).removesuffix('.dot')}.svg)"
    return f"\n## {kind.title()}s\n\n{meaning}\n\n{picture}\n\n" + table(
        ("from", "to", "when"), [(source or "–", target, text) for source, target, text in _transitions(kind)]
    )


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
    """The steps of a job's way, what wakes each, and what each reads."""
    rows = [
        (
            f"`{step.name}`",
            step.summary,
            ", ".join(
                [
                    *sorted(f"{kind} {state}" for kind, state in step.wakes_on),
                    *(f"news in `{field}`" for field in sorted(step.hears)),
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
        "# Steps\n\nIn the order of a job's way.\n"
        "A loop takes its step at once when a record comes into a state\n"
        "that wakes it, and otherwise every `loops.period`. `pilotage plan STEP` makes the decision of any\n"
        "step from a saved world.\n\n"
        + table(("step", "what it does", "woken by", "taken"), rows)
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
        "# Time-outs (rules T)\n\nNone holds while the queue is paused or has `disable_reassign`.\n\n"
        + table(("kind", "state", "because", "after", "at priority ≥ 800", "outcome"), rows)
        + f"\n{outcomes}\n"
    )


def brokerage() -> str:
    """The checks of the production brokerage."""
    rows = [
        (check.rule, check.name, check.mend, check.unit, _first_sentence(check.judge.__doc__))
        for check in CHECKS
    ]
    return (
        "# Production brokerage\n\n"
        "All checks run on all queues, none hides another: see\n"
        "[how a queue is chosen](../explanation/brokerage.md).\n"
        "Rules that begin with F are this house's own.\n\n"
        + table(("rule", "check", "mended by", "unit", "what it says"), rows)
        + "\n## Weight and spreading\n\n"
        + table(
            ("rule", "what it says"),
            [(r.number, r.text) for r in RULES if r.number in numbers_in("B30 to B38")],
        )
    )


def conformance() -> str:
    """Every rule with where it stands, its defaults, what was settled and the tests that carry it."""
    found = tests()
    head = (
        "# Conformance\n\n"
        "The published rules that Pilotage is built on, each in one line: where it stands in the code\n"
        "(modules below `pilotage`), its defaults (times in s), what was settled where the text is silent\n"
        "or contradicts itself, and how many tests carry its number. *not yet* is what is not built.\n\n"
    )
    rules = table(
        ("rule", "says", "stands in", "defaults", "settled", "tests"),
        [_rule(rule, found.get(rule.number, [])) for rule in RULES],
    )
    built = [rule for rule in RULES if rule.where]
    return (
        head
        + rules
        + "\n## Tests\n\n"
        + "".join(_tests_of(rule, found.get(rule.number, [])) for rule in built)
    )


def _rule(rule: Rule, found: Sequence[Carrier]) -> Sequence[str]:
    count = (
        (f"[{len(found)}](#{rule.number.lower().replace(' ', '-')})" if found else "none")
        if rule.where
        else ""
    )
    where = "<br>".join(f"`{module}`" for module in rule.where) or "*not yet*"
    defaults = "<br>".join(f"`{name}` {_shown(value)}" for name, value in values(rule))
    return rule.number, rule.text, where, defaults, rule.settled, count


def _shown(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, tuple):
        return ", ".join(map(_shown, value))
    return f"{value:.10g}" if isinstance(value, int | float) else str(value)


def _tests_of(rule: Rule, found: Sequence[Carrier]) -> str:
    files: dict[str, list[str]] = {}
    for test in found:
        files.setdefault(test.file, []).append(test.name)
    lines = "".join(
        f"- [{file}](../../tests/{file}): {', '.join(f'`{name}`' for name in names)}\n"
        for file, names in files.items()
    )
    return f"### {rule.number}\n\n{lines or 'none'}\n"


def documents() -> str:
    """Every field of federation, task and scenario files with its default."""
    records: list[type] = [
        record
        for module in (federation, software, catalogues, constants, spec, scenario, policies)
        for record in vars(module).values()
        if dataclasses.is_dataclass(record)
        and isinstance(record, type)
        and record.__module__ == module.__name__
        and hasattr(record, "__pydantic_config__")
    ]
    head = (
        "# Fields of federation, task and scenario files\n\n"
        "A federation's file has the fields of [Federation](#federation), a task's file those of "
        "[TaskSpec](#taskspec), a scenario's those of [Scenario](#scenario). The rest are parts of them.\n\n"
        "Units: memory and work directory in MB, storage in GB, files in bytes, times in s, "
        "throughput in MB/s, core power in HS23 per core.\n"
    )
    return head + "".join(map(_record, records))


def _record(record: Any) -> str:
    hints = get_type_hints(record)
    described = json_schema(record)["properties"]
    rows = [
        (
            f"`{field.name}`",
            _type(hints[field.name]),
            _default(field),
            _first_sentence(described[field.name]["description"]),
        )
        for field in dataclasses.fields(record)
    ]
    return f"\n## {record.__name__}\n\n{inspect.getdoc(record)}\n\n" + table(
        ("field", "type", "default", "what it is"), rows
    )


def _type(hint: Any) -> str:
    text = inspect.formatannotation(hint)
    for long in (
        "pilotage.model.records.federation.",
        "pilotage.model.records.constants.",
        "pilotage.model.records.spec.",
        "pilotage.simulation.scenario.",
        "pilotage.simulation.policies.",
        "typing.",
        "collections.abc.",
    ):
        text = text.replace(long, "")
    return f"`{text}`"


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return "its own defaults" if dataclasses.is_dataclass(field.default_factory) else "empty"
    if field.default is dataclasses.MISSING:
        return "**required**"
    if isinstance(field.default, enum.Enum):
        return "its own defaults"
    return f"`{field.default!r}`"


def api() -> str:
    """The routes; the whole description is served as OpenAPI."""
    paths = document()["paths"]
    rows = [
        (method.upper(), f"`{path}`", operation.get("summary", ""), operation.get("description", ""))
        for path, operations in paths.items()
        for method, operation in operations.items()
    ]
    return (
        "# API\n\nThe server describes itself at `/api/v1/openapi.json`. Give the token as "
        "`Authorization: Bearer TOKEN`.\n\n" + table(("method", "path", "name", "what it does"), rows)
    )


def command_line() -> str:
    """Every command with its options."""
    command = typer.main.get_command(app)
    assert isinstance(command, TyperGroup)
    _summarise_whole(command)
    text = get_docs_for_click(obj=command, ctx=typer.Context(command), name="pilotage")
    return text.rstrip() + "\n"


def _summarise_whole(group: TyperGroup) -> None:
    """Let lists of commands show the first paragraph of each, which they would cut at 45 characters."""
    for command in group.commands.values():
        command.short_help = " ".join((command.help or "").partition("\n\n")[0].split())
        if isinstance(command, TyperGroup):
            _summarise_whole(command)


def python_client() -> str:
    """Every public class of the Python client with its methods."""
    kinds = (client.Client, client.Task, client.Job, MappedTask, client.Table, client.Record, TaskExecutor)
    errors = [one for name in client.__all__ if issubclass(one := getattr(client, name), client.ClientError)]
    rows = [(f"`{one.__name__}`", _first_sentence(one.__doc__)) for one in errors]
    return (
        "# Python client\n\nHow to use it: [Use Pilotage from Python](../how-to/python.md). `AsyncClient` "
        "has the same methods, with `await`.\n"
        + "".join(map(_class_of_client, kinds))
        + "\n## Errors\n\n"
        + table(("error", "when"), rows)
    )


def _class_of_client(kind: type) -> str:
    found = {
        name: member
        for above in reversed(kind.__mro__)
        if above.__module__.startswith("pilotage.client")
        for name, member in vars(above).items()
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property))
    }
    rows = [
        (
            f"`{name}{_signature_of(member)}`",
            " ".join((inspect.getdoc(member) or "").split()).replace("``", "`"),
        )
        for name, member in sorted(found.items())
    ]
    about = " ".join((inspect.getdoc(kind) or "").split()).replace("``", "`")
    return f"\n## {kind.__name__}\n\n{_plain(about)}\n\n" + _plain(table(("method", "what it does"), rows))


def _signature_of(member: Any) -> str:
    if isinstance(member, property):
        return ""
    names = []
    for one in list(inspect.signature(member).parameters.values())[1:]:
        stars = "**" if one.kind is one.VAR_KEYWORD else "*" if one.kind is one.VAR_POSITIONAL else ""
        default = "" if one.default is one.empty or callable(one.default) else f"={one.default!r}"
        names.append(f"{stars}{one.name}{default}")
    return f"({', '.join(names)})"


def _plain(text: str) -> str:
    """Return text with references to code as code."""
    return re.sub(r":(?:class|meth|func):`([^`]*)`", r"`\1`", text)


def _anchor(heading: str) -> str:
    return heading.lower().replace(" ", "-")


def _first_sentence(text: str | None) -> str:
    first = " ".join((text or "").strip().split("\n\n")[0].split())
    return first.replace("``", "`")


if __name__ == "__main__":
    reference = Path(__file__).parent / "reference"
    reference.mkdir(exist_ok=True)
    for name, text in pages().items():
        (reference / name).write_text(text)
    draw_stale()
