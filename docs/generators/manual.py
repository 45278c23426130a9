"""Man pages and completion of the shells, from the commands."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime

import typer
from typer._click.core import Context
from typer.core import TyperGroup

from pilotage.cli.app import app

COMPLETIONS = {
    "bash": "bash-completion/completions/pilotage",
    "zsh": "zsh/site-functions/_pilotage",
    "fish": "fish/vendor_completions.d/pilotage.fish",
}
"""Where each shell looks for completion, below ``share``."""


def shared_files(version: str, moment: int) -> dict[str, str]:
    """Return the files below ``share``, by their path."""
    from typer._completion_shared import get_completion_script

    root = typer.Context(typer.main.get_command(app), info_name="pilotage")
    date = datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d")
    pages = {
        f"man/man1/{_page_name(context)}.1": _page(context, version, date) for context in _contexts(root)
    }
    scripts = {
        shell: get_completion_script(prog_name="pilotage", complete_var="_PILOTAGE_COMPLETE", shell=shell)
        for shell in COMPLETIONS
    }
    # zsh loads the file at the first completion, and calls it as the function.
    scripts["zsh"] = scripts["zsh"].replace(
        "compdef _pilotage_completion pilotage", '_pilotage_completion "$@"'
    )
    return pages | {COMPLETIONS[shell]: f"{script.strip()}\n" for shell, script in scripts.items()}


def _contexts(context: typer.Context) -> Iterator[typer.Context]:
    """Yield a command, and those below it."""
    yield context
    if isinstance(context.command, TyperGroup):
        for name, command in context.command.commands.items():
            if not command.hidden:
                yield from _contexts(typer.Context(command, info_name=name, parent=context))


def _page(context: typer.Context, version: str, date: str) -> str:
    command = context.command
    name, (summary, *others) = _page_name(context), _paragraphs(command.help)
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [
        f'.TH "{_text(name.upper())}" 1 "{date}" "Pilotage {version}" "Pilotage"',
        *(".SH NAME", f"{_text(name)} \\- {_text(summary.rstrip('.'))}"),
        *(".SH SYNOPSIS", f"\\fB{_text(context.command_path)}\\fR {_text(usage)}"),
        *(".SH DESCRIPTION", *_body([summary, *others])),
    ]
    if records := [record for one in command.params if (record := one.get_help_record(context))]:
        lines += [".SH OPTIONS", *(line for record in records for line in _entry(*record))]
    if isinstance(command, TyperGroup):
        entries = [(child, command.commands[child].help) for child in command.list_commands(context)]
        lines.append(".SH COMMANDS")
        lines += [line for child, text in entries for line in _entry(child, _paragraphs(text)[0])]
    if command.epilog:
        lines += [".SH NOTES", *_body(_paragraphs(command.epilog))]
    if context.parent:
        lines += [".SH SEE ALSO", f"\\fB{_text(_page_name(context.parent))}\\fR(1)"]
    return "\n".join(lines) + "\n"


def _page_name(context: Context) -> str:
    return context.command_path.replace(" ", "-")


def _paragraphs(text: str | None) -> list[str]:
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", (text or "").replace("\b", "").strip())]


def _entry(name: str, text: str) -> list[str]:
    return [".TP", f"\\fB{_text(name)}\\fR", _text(" ".join(text.split()))]


def _body(paragraphs: list[str]) -> Iterator[str]:
    for paragraph in paragraphs:
        yield from (".PP", _text(paragraph))


def _text(text: str) -> str:
    """Return text as roff prints it: no character of it is a command."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
