"""Commands in the pages: each is one that there is, with options that it has."""

import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main

from pilotage.cli.app import app

from .modules import modules
from .test_quoted_messages import said

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES += sorted([*ROOT.glob("examples/*/README.md"), *ROOT.glob("examples/monitoring/*.yml")])
IN_LINES = re.compile(r"^ {4}pilotage ([a-z][^\n]*)", re.MULTILINE)
IN_ALERTS = re.compile(r"^ +mend: '?pilotage ([a-z][^'\n]*)", re.MULTILINE)
IN_TEXT = re.compile(r"`pilotage ([a-z][^`\n]*)`")


@cache
def _commands() -> Any:
    """The tree of commands, which takes 50 ms to build: not where tests are only collected."""
    return typer.main.get_command(app)


def _lines(page: Path) -> set[str]:
    text = page.read_text()
    found = {match[1] for pattern in (IN_LINES, IN_TEXT, IN_ALERTS) for match in pattern.finditer(text)}
    return {line.replace("...", "").strip() for line in found}


def _fault(line: str) -> str:
    """What is wrong with a command line, as far as its command and the names of its options go."""
    words = shlex.split(line.replace("[", "").replace("]", ""), comments=True)
    command, at = _commands(), 0
    while hasattr(command, "commands") and at < len(words) and words[at] in command.commands:
        command, at = command.commands[words[at]], at + 1
    if command is _commands():
        return f"there is no command {words[0]}"
    known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)} | {"--help"}
    for word in words[at:]:
        if word in {"|", ">", "&&", ";", "--"}:
            break
        if word.startswith("-") and word.partition("=")[0] not in known:
            return f"{command.name} has no option {word}"
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_a_page_are_there_with_their_options(page: Path) -> None:
    assert {line: _fault(line) for line in _lines(page) if _fault(line)} == {}


def test_every_command_that_a_message_names_is_there() -> None:
    """The command, and its verb where it has verbs; prose may follow, such as ``queues lists them``."""
    lost = [
        (name, found[0])
        for name, module in modules().items()
        for text in said(module.tree)
        for found in re.finditer(
            r"(?<!import )(?<!from )\bpilotage (?!relay)([a-z][a-z-]*)(?: (?!lists\b)([a-z]+))?", text
        )
        if _lost(found[1], found[2])
    ]
    assert lost == []


def _lost(command: str, verb: str | None) -> bool:
    found = _commands().commands.get(command)
    return found is None or (verb is not None and verb not in getattr(found, "commands", {verb}))


def test_no_message_speaks_of_a_verb_that_is_no_command() -> None:
    """A queue is opened, not set online."""
    texts = [(name, text) for name, module in modules().items() for text in said(module.tree)]
    assert not [(name, text) for name, text in texts if re.search(r"\b(is|are) set (online|offline)\b", text)]


def test_a_command_that_is_not_there_is_found() -> None:
    assert _fault("stat 12") == "there is no command stat"
    assert _fault("status 12 --wach # comment") == "status has no option --wach"
    assert _fault("files list 'runs/**' --limit 5 | less") == ""
    assert len(set().union(*(_lines(page) for page in PAGES))) > 100
