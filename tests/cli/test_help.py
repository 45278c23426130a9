"""Every command says what it does, with an example, and the command line starts without heavy imports."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from pilotage.cli.app import app
from pilotage.cli.commands import DAILY, ENTRIES

from .conftest import Pilotage

HEAVY = ("pydantic", "httpx", "sqlalchemy", "numpy", "fastapi", "yaml", "matplotlib", "rich")


def commands(group: Any, *before: str) -> Iterator[tuple[str, ...]]:
    """Every command that can be typed, by its words."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *before, name)
        else:
            yield (*before, name)


COMMANDS = list(commands(typer.main.get_command(app)))


def test_the_commands_are_those_that_people_know() -> None:
    assert {words[0] for words in COMMANDS} == {
        *(
            "up",
            "login",
            "whoami",
            "logout",
            "store",
            "secrets",
            "notify",
            "demo",
            "submit",
            "status",
            "cancel",
            "retry",
            "set",
            "hold",
            "release",
            "finish",
            "delete",
            "grant",
            "revoke",
            "grants",
            "usage",
            "explain",
            "plan",
            "world",
            "queues",
            "shares",
        ),
        *(
            "logs",
            "pilots",
            "init",
            "jobs",
            "run",
            "wait",
            "watch",
            "transfers",
            "token",
            "schema",
            "federation",
            "outputs",
            "publish",
            "history",
            "fetch",
            "files",
            "record",
            "draw-scenario",
            "simulate",
            "sites",
            "storages",
            "breakers",
            "workflows",
            "audit",
            "doctor",
            "quotas",
            "people",
            "replay",
            "servers",
            "stuck",
            "failures",
            "manifest",
            "rerun",
        ),
    }


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_ends_with_an_example(pilotage: Pilotage, words: tuple[str, ...]) -> None:
    result = pilotage(*words, "--help")
    assert result.exit_code == 0
    assert f"Example: pilotage {' '.join(words)}" in result.stdout
    assert " | pilotage " not in " ".join(result.stdout.split()), "that is a pipe of the shell"


@pytest.mark.parametrize("words", [words for words in COMMANDS if words != ("up",)], ids=" ".join)
def test_every_command_with_an_answer_gives_it_as_json_too(
    pilotage: Pilotage, words: tuple[str, ...]
) -> None:
    assert "--json" in pilotage(*words, "--help").stdout


def test_exit_codes_are_documented(pilotage: Pilotage) -> None:
    text = " ".join(pilotage("--help").stdout.split())
    assert "0 done; 1 something is not there or failed; 2 bad input or usage; 3 the server" in text


def test_an_unknown_command_is_bad_usage(pilotage: Pilotage) -> None:
    assert pilotage("sbumit", "x").exit_code == 2


@pytest.mark.parametrize("name", ENTRIES)
def test_the_table_of_commands_says_what_each_says_itself(name: str) -> None:
    group: Any = typer.main.get_command(app)
    command = group.commands[name]
    assert command.help is not None
    assert ENTRIES[name].help == " ".join(command.help.partition("\n\n")[0].split())


@pytest.mark.parametrize(
    ("words", "expected"), [(["--help"], set()), (["status", "--help"], {"work.tasks"}), (["sbumit"], set())]
)
def test_only_the_module_of_the_command_is_loaded(words: list[str], expected: set[str]) -> None:
    modules = {entry.module for entry in ENTRIES.values()}
    code = (
        "import sys; import pilotage.cli.app as one\n"
        f"try: one.app({words!r})\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )
    found = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    loaded = set(found.stderr.split())
    assert {name for name in modules if f"pilotage.cli.{name}" in loaded} == expected
    assert {name for name in HEAVY if name in loaded} == set()


@pytest.mark.parametrize(("words", "most"), [("--help", 182), ("status", 347), ("submit {task}", 478)])
def test_a_command_loads_few_modules(
    words: str, most: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The start of a short command is nearly all imports: a quarter of a millisecond for each module."""
    monkeypatch.setenv("PILOTAGE_URL", "http://127.0.0.1:9")
    task = tmp_path / "task.yaml"
    task.write_text("name: few\ncommand: [date]\n")
    code = (
        "import sys; import pilotage.cli.app as one\n"
        f"try: one.app({words.format(task=task).split()!r})\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )
    found = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    loaded = found.stderr.splitlines()[-1].split()
    assert len(loaded) <= most
    models = {name.removeprefix("pilotage.model.") for name in loaded if name.startswith("pilotage.model.")}
    assert models & {"records.work", "records.federation", "values.classad", "documents.world"} == set()


@pytest.mark.parametrize("words", ["status", "jobs 1", "explain 1", "wait 1", "fetch 1"])
def test_a_script_loads_only_what_a_request_needs(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PILOTAGE_URL", "http://127.0.0.1:9")
    unwanted = {*HEAVY, "asyncio", "idna.core", "pygments"} - {"httpx"}
    code = (
        "import sys; import pilotage.cli.app as one\n"
        f"try: one.app({words.split()!r})\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )
    found = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    loaded = set(found.stderr.split())
    assert "httpx" in loaded
    assert unwanted & loaded == set()


def test_help_shows_the_commands_of_a_day_and_names_the_others_in_80_columns(pilotage: Pilotage) -> None:
    lines = pilotage("--help").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    day, more = lines.index("Every day:"), lines.index("More:")
    assert [line.split()[0] for line in lines[day + 1 : more] if line[2:3].strip()] == [*DAILY]
    shown = {word.strip(",") for line in lines[more:] for word in line.split()}
    assert set(ENTRIES) - set(DAILY) <= shown
    whole = pilotage("--commands").stdout
    assert {name for name in ENTRIES if f"\n  {name} " not in whole} == set()
