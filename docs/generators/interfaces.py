"""Pages on what people and programs call: the API, commands and their settings, the Python client."""

import dataclasses
import inspect
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import typer
from typer.cli import get_docs_for_click
from typer.core import TyperGroup

from generators.markdown import first_paragraph, plain, table
from pilotage import client
from pilotage.cli.app import app
from pilotage.client._sync.functions import MappedTask
from pilotage.client.errors import PREFIX
from pilotage.client.executor import TaskExecutor
from pilotage.model.values.docstrings import describe_fields
from pilotage.server.api.app import document
from pilotage.settings import Settings

FEW = 4
"""Commands with the same option, from which on the page describes it once."""

_OPTION = re.compile(r"^\* `-.*$", re.M)
_OPTION_NAME = re.compile(r"--[a-z-]+")


def api() -> str:
    """The routes; the whole description is served as OpenAPI."""
    paths = document()["paths"]
    rows = [
        (
            f"`{method.upper()} {path.removeprefix(PREFIX)}`",
            " ".join(operation.get("description", "").split()),
        )
        for path, operations in paths.items()
        for method, operation in operations.items()
    ]
    return (
        f"# API\n\nPaths begin with `{PREFIX}`. The server describes itself at `{PREFIX}/openapi.json`. "
        "Give the token as `Authorization: Bearer TOKEN`.\n\n" + table(("request", "what it does"), rows)
    )


def command_line() -> str:
    """Every command with its options."""
    command = typer.main.get_command(app)
    assert isinstance(command, TyperGroup)
    _summarise_whole(command)
    text = get_docs_for_click(obj=command, ctx=typer.Context(command), name="pilotage")
    head, *sections = re.split(r"\n(?=##)", text.replace("# `pilotage`", "# Commands", 1))
    shared = _shared_options(sections)
    common = (
        "## Options of many commands\n\nEvery command has `--help`.\n\n" + "\n".join(shared.values()) + "\n"
    )
    return "\n".join([head, common, *(_brief(section, shared) for section in sections)]).rstrip() + "\n"


def _shared_options(sections: Sequence[str]) -> dict[str, str]:
    """Return the lines of options that at least four commands have alike, by the option's name."""
    counts = Counter(line for section in sections for line in _OPTION.findall(section))
    names = Counter(_OPTION_NAME.findall(line)[0] for line, count in counts.items() if count >= FEW)
    return {
        name: line
        for line, count in counts.items()
        if count >= FEW and names[name := _OPTION_NAME.findall(line)[0]] == 1 and name != "--help"
    }


def _brief(section: str, shared: Mapping[str, str]) -> str:
    """Return a command's section without what is on the page already: shared options, help of subcommands."""
    names = [f"`{name}`" for name, line in shared.items() if f"{line}\n" in section]
    kept = [line for line in section.split("\n") if line not in shared.values() and "`--help`" not in line]
    text = re.sub(r"\*\*Commands\*\*:\n\n(\* .*\n)+\n?", "", "\n".join(kept))
    text = re.sub(r"\*\*Usage\*\*:\n\n```console\n\$ (.*)\n```\n", _usage, text)
    text = re.sub(r"\*\*(Options|Arguments)\*\*:\n\n", "", text)
    if names:
        before, example, after = text.partition("\nExample")
        text = f"{before.rstrip()}\n\nAlso {', '.join(names)}.\n{example}{after}"
    return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"


def _usage(match: re.Match[str]) -> str:
    """Return the words of a command line; nothing for a command without arguments."""
    line = match[1].replace(" [OPTIONS]", "").replace(" COMMAND [ARGS]...", "")
    return f"`{line}`\n" if re.search(r"[\[{]", line) else ""


def _summarise_whole(group: TyperGroup) -> None:
    """Let lists of commands show the first paragraph of each, which they would cut at 45 characters."""
    for command in group.commands.values():
        command.short_help = " ".join((command.help or "").partition("\n\n")[0].split())
        if isinstance(command, TyperGroup):
            _summarise_whole(command)


def settings() -> str:
    """The variables that set what servers and commands do."""
    fields = {field.name: field for field in dataclasses.fields(Settings)}
    schema: dict[str, Any] = {"properties": {name: {} for name in fields}}
    describe_fields(schema, Settings)
    rows = [
        (
            f"`PILOTAGE_{name.upper()}`",
            first_paragraph(found["description"]),
            _default_of(fields[name].default),
        )
        for name, found in schema["properties"].items()
        if found
    ]
    return (
        "# Settings\n\nServers, commands and the Python client read these variables of the environment. "
        "A blank one counts as not set.\n\n"
        + table(("variable", "what it sets", "default"), rows)
        + "\n`pilotage up` also reads [variables for its log](../how-to/logs.md#the-servers-own-log). With "
        "`PILOTAGE_DEBUG=1` a command that fails shows its traceback. `pilotage doctor` names wrong and "
        "unknown variables.\n"
    )


def _default_of(value: object) -> str:
    if value is dataclasses.MISSING or value in (None, "", ()):
        return "–"
    return ("yes" if value else "no") if isinstance(value, bool) else f"`{value:g}`"


def python_client() -> str:
    """Every public class of the Python client with its methods."""
    kinds = (
        client.Client,
        client.Task,
        client.Job,
        MappedTask,
        client.Table,
        client.Record,
        client.ExplainedRecord,
        TaskExecutor,
    )
    errors = [one for name in client.__all__ if issubclass(one := getattr(client, name), client.ClientError)]
    rows = [(f"`{one.__name__}`", first_paragraph(one.__doc__)) for one in errors]
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
    return f"\n## {kind.__name__}\n\n{plain(about)}\n\n" + plain(table(("method", "what it does"), rows))


def _signature_of(member: Any) -> str:
    if isinstance(member, property):
        return ""
    names = []
    for one in list(inspect.signature(member).parameters.values())[1:]:
        stars = "**" if one.kind is one.VAR_KEYWORD else "*" if one.kind is one.VAR_POSITIONAL else ""
        default = "" if one.default is one.empty or callable(one.default) else f"={one.default!r}"
        names.append(f"{stars}{one.name}{default}")
    return f"({', '.join(names)})"
