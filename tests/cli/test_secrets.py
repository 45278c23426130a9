"""No command shows a secret, wherever it stands and whatever goes wrong."""

from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from pilotage.cli.app import app
from pilotage.federation.text import render

from .conftest import FakeServer, Pilotage

SECRET = "S3CRET-w0rd"

COMMANDS = [
    "status",
    "status 1",
    "status --watch",
    "outputs 1",
    "fetch 1 --to {tmp}/to",
    "cancel 1",
    "publish 1",
    "explain 1",
    "explain job:1",
    "logs job:1",
    "queues",
    "shares",
    "pilots",
    "transfers",
    "storages",
    "sites list",
    "token list",
    "secrets list",
    "secrets set NAME",
    "secrets remove NAME",
    "history",
    "federation show",
    "federation load {tmp}/federation.yaml",
    "federation check {tmp}/federation.yaml",
    "files list",
    "files verify x",
    "files register {tmp} --storage s",
    "submit {tmp}/task.yaml",
    "world",
    "up --port 1 {tmp}/federation.yaml",
    "up --no-api --only nothing",
]

# Commands that are added later are swept as well, without arguments; the demonstration would run.
_NAMED = {words.split()[0] for words in COMMANDS} | {"demo"}
COMMANDS += sorted(typer.main.get_group(app).commands.keys() - _NAMED)

ENVIRONMENTS = {
    "a blank within": {"PILOTAGE_TOKEN": f"{SECRET} {SECRET}"},
    "a line end within": {"PILOTAGE_TOKEN": f"{SECRET}\n{SECRET}"},
    "no ASCII": {"PILOTAGE_TOKEN": f"{SECRET}ü"},
    "a control character": {"PILOTAGE_TOKEN": f"{SECRET}\x1b"},
    "refused": {"PILOTAGE_TOKEN": SECRET},
    "around": {"PILOTAGE_TOKEN": f" {SECRET}\n"},
    "user of a URL": {"PILOTAGE_URL": f"http://ada:{SECRET}@127.0.0.1:9"},
    "token of a URL": {"PILOTAGE_URL": f"http://{SECRET}@127.0.0.1:9"},
    "URL that is none": {"PILOTAGE_URL": f"ada:{SECRET}@127.0.0.1:9"},
    "URL with a wrong port": {"PILOTAGE_URL": f"http://ada:{SECRET}@127.0.0.1:99999"},
    "store": {"PILOTAGE_STORE": f"postgresql+psycopg://ada:{SECRET}@127.0.0.1:9/none"},
    "store of no kind": {"PILOTAGE_STORE": f"mysql://ada:{SECRET}@127.0.0.1/none"},
    "store with a wrong port": {"PILOTAGE_STORE": f"postgresql+psycopg://ada:{SECRET}@127.0.0.1:port/none"},
    "store with an option": {"PILOTAGE_STORE": f"postgresql+psycopg://127.0.0.1:9/none?password={SECRET}"},
    "store that is none": {"PILOTAGE_STORE": f"ada:{SECRET}@127.0.0.1"},
    "token file": {},
    "token file that is no text": {},
}

FEDERATION = {
    "name": "f",
    "sites": [{"name": "north", "monitoring_url": f"https://ada:{SECRET}@monitoring:99999/"}],
    "storages": [
        {
            "name": "disk",
            "site": "north",
            "url": f"https://ada:{SECRET}@host/ x",
            "options": {"headers": {"Authorization": SECRET}, "password": SECRET},
        }
    ],
    "queues": [
        {
            "name": "queue",
            "site": "north",
            "storage": "disk",
            "computing_element": {"kind": "arc", "options": {"endpoint": f"https://ada:{SECRET}@host"}},
        }
    ],
}


def everything(result: Any) -> str:
    """All that a user, or a log of theirs, would see of a command's end."""
    return "".join(map(str, (result.stdout, result.stderr, result.exception or "")))


@pytest.mark.parametrize("where", ENVIRONMENTS)
def test_no_error_of_a_command_shows_a_secret(
    pilotage: Pilotage, server: FakeServer, tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every command is driven into an error, with a secret at every place where one may stand."""
    monkeypatch.chdir(tmp_path)
    environment = ENVIRONMENTS[where]
    if where == "token file":
        (pilotage.home / "token").write_text(f"{SECRET} {SECRET}")
    elif where == "token file that is no text":
        (pilotage.home / "token").write_bytes(SECRET.encode() + b"\xff")
    (tmp_path / "federation.yaml").write_text(render(FEDERATION))
    (tmp_path / "task.yaml").write_text("name: t\ncommand: [x]\n")
    server.fallback = lambda: (401, {"detail": "a valid bearer token is needed"})
    for command in COMMANDS:
        result = pilotage(*command.format(tmp=tmp_path).split(), **environment)
        told = everything(result)
        assert SECRET not in told, (command, told)
        assert result.exception is None or isinstance(result.exception, SystemExit | typer.Exit), command


def piped(pilotage: Pilotage, words: list[str], given: str) -> Any:
    return CliRunner().invoke(app, words, input=given, env=pilotage.environment)


def test_a_secret_comes_from_a_pipe_without_the_end_of_its_only_line(
    pilotage: Pilotage, server: FakeServer
) -> None:
    server.fallback = lambda: (201, {"name": "KEY", "released": [7]})
    for given, sent in ((f"{SECRET}\n", SECRET), (f"{SECRET}\r\n", SECRET), ("a\nb\n", "a\nb\n")):
        result = piped(pilotage, ["secrets", "set", "KEY"], given)
        assert result.exit_code == 0, result.stderr
        assert "released: task 7" in result.stdout
        assert server.requests[-1] == ("POST /secrets", {"name": "KEY", "value": sent})


def test_a_value_in_place_of_a_name_is_not_repeated(pilotage: Pilotage) -> None:
    result = piped(pilotage, ["secrets", "set", f"TOKEN={SECRET}"], "x")
    assert result.exit_code == 2
    assert SECRET not in everything(result)
