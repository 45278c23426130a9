"""Sign-in by a code, renewal and discovery of tokens: commands against a real server and a provider."""

import asyncio
import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from pilotage.cli.app import app
from pilotage.client import AsyncClient, Client, NotSignedIn, Unreachable, sign_in
from pilotage.settings import Settings, WrongSettings
from tests.conftest import locked_port
from tests.identity_provider import IdentityProvider, ec_key, serving
from tests.waiting import wait_for

pytestmark = pytest.mark.slow

ADA = {"preferred_username": "ada", "groups": ["/atlas/higgs"]}
FILE = """
issuers:
- name: idp
  issuer: {url}
  audience: [pilotage]
  client: pilotage-command
  rules:
  - when: {{groups: "/{{vo}}/{{group}}"}}
    person: "{{preferred_username}}"
"""
VARIABLES = ("PILOTAGE_TOKEN", "BEARER_TOKEN", "BEARER_TOKEN_FILE", "XDG_RUNTIME_DIR")


@dataclass
class Place:
    """A server with a provider, and a command line with an empty home."""

    url: str
    provider: IdentityProvider
    home: Path

    def __call__(self, *words: str, **environment: str) -> Result:
        settings = {"PILOTAGE_HOME": str(self.home), "PILOTAGE_URL": self.url}
        return CliRunner().invoke(app, list(words), env={**settings, **environment})

    def settings(self) -> Settings:
        return Settings.read(home=str(self.home), url=self.url)

    def token(self, **claims: object) -> str:
        return self.provider.token(time.time(), **{**ADA, **claims})  # type: ignore[arg-type]

    def sign_in(self) -> sign_in.SignIn:
        assert self("login").exit_code == 0
        result = sign_in.load(self.home)
        assert result is not None
        return result


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, IdentityProvider]]:
    folder = tmp_path_factory.mktemp("server")
    with serving(IdentityProvider(keys=[ec_key("e1")])) as provider, locked_port() as port:
        (folder / "issuers.yaml").write_text(FILE.format(url=provider.url))
        url = f"http://127.0.0.1:{port}"
        environment = {
            **os.environ,
            "PILOTAGE_HOME": str(folder / "home"),
            "PILOTAGE_URL": url,
            "PILOTAGE_ISSUERS": str(folder / "issuers.yaml"),
        }
        with (folder / "log").open("w") as log:
            command = [sys.executable, "-m", "pilotage.cli", "up"]
            up = subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log)
            try:
                with Client(url, home=str(folder / "nothing")) as client:
                    wait_for(lambda: _answers(client), "the server answers")
                yield url, provider
            finally:
                up.terminate()
                up.wait(60)


def _answers(client: Client) -> bool:
    try:
        return bool(client.issuers())
    except Unreachable:
        return False


@pytest.fixture
def place(served: tuple[str, IdentityProvider], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    url, provider = served
    for name in (*VARIABLES, "PILOTAGE_HOME", "PILOTAGE_URL"):
        monkeypatch.delenv(name, raising=False)
    fresh = IdentityProvider()
    provider.person, provider.answers, provider.refreshable = ADA, {}, set()
    provider.polls, provider.device = fresh.polls, fresh.device
    return Place(url, provider, tmp_path / "home")


def test_a_person_signs_in_looks_and_signs_out(place: Place) -> None:
    output = place("login")
    assert output.exit_code == 0, output.output
    assert "open https://idp.example.org/device" in output.stderr
    assert "the code WDJB-MJHT" in output.stderr
    assert output.stdout == "you are ada, VO atlas, group higgs, role user\n"
    file = place.home / "sign-in.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert f"your token, of {file}, ends in" in place("whoami").stdout
    assert json.loads(place("whoami", "--json").stdout)["rights"] == ["read", "create", "modify", "cancel"]
    assert place("status").exit_code == 0
    assert place("logout").stdout == "signed out of idp\n"
    assert (file.exists(), place.provider.refreshable) == (False, set())
    assert place("logout").stdout == "you were not signed in\n"
    refused = place("status")
    assert (refused.exit_code, "does not know you" in refused.output) == (1, True)


def test_no_output_has_a_token(place: Place) -> None:
    signed_in = place.sign_in()
    texts = [place(*words).output for words in (["whoami"], ["whoami", "--json"])]
    texts += [repr(signed_in), repr(place.settings())]
    place.provider.refreshable = set()
    sign_in.save(place.home, replace(signed_in, expires=0))
    texts += [place("status").output, place("logout").output]
    parts = [signed_in.refresh_token, *signed_in.access_token.split(".")]
    assert not [text for text in texts if any(part in text for part in parts)]


def test_a_token_is_renewed_before_its_end_by_one_command_of_many(place: Place) -> None:
    sign_in.save(place.home, replace(place.sign_in(), expires=time.time()))
    before = place.provider.asked.count("/realm/token")
    clients = [Client(settings=place.settings()) for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        names = [caller["name"] for caller in pool.map(Client.whoami, clients)]
    for client in clients:
        client.close()
    assert names == ["ada"] * 6
    assert place.provider.asked.count("/realm/token") == before + 1


async def _name(place: Place) -> str:
    async with AsyncClient(settings=place.settings()) as client:
        return str((await client.whoami())["name"])


def test_a_refused_token_is_renewed_also_in_an_event_loop(place: Place) -> None:
    old = place.token(exp=int(time.time()) - 3600)
    sign_in.save(place.home, replace(place.sign_in(), access_token=old))
    assert asyncio.run(_name(place)) == "ada"
    place.provider.polls = ["confirmed"]
    sign_in.save(place.home, replace(place.sign_in(), access_token=old))
    assert "you are ada" in place("whoami").output


def test_a_sign_in_that_its_provider_ended_says_what_to_do(place: Place) -> None:
    sign_in.save(place.home, replace(place.sign_in(), expires=0))
    place.provider.refreshable = set()
    output = place("status").output
    assert "idp ended your sign-in (used [2J before); sign in again: pilotage login" in output
    place.provider.answers["/realm/token"] = (200, {}, b"<html>")
    assert "answered 200 with what is no JSON" in place("status").output


def test_a_sign_in_is_for_its_server_alone(place: Place) -> None:
    place.sign_in()
    other = Settings.read(home=str(place.home), url="http://127.0.0.1:9")
    assert (other.token, other.token_place) == ("", "")


@pytest.mark.parametrize(
    ("polls", "reason"),
    [
        (["access_denied"], "idp did not sign you in: access_denied"),
        (["expired_token"], "idp did not sign you in: expired_token"),
        ([], "idp did not sign you in: invalid_grant"),
    ],
)
def test_a_code_that_is_not_confirmed(place: Place, polls: list[str], reason: str) -> None:
    place.provider.polls = polls
    output = place("login")
    assert (output.exit_code, reason in output.output) == (1, True), output.output
    assert not (place.home / "sign-in.json").exists()


@pytest.mark.parametrize(
    ("device", "reason"),
    [
        ({"user_code": "A\x1b[2J"}, "gives no code that can be shown"),
        ({"verification_uri": "javascript:alert(1)"}, "gives no code that can be shown"),
        ({"verification_uri": "https://idp\n.example.org"}, "gives no code that can be shown"),
        ({"device_code": 7}, "gives no code that can be shown"),
        ({"expires_in": 0.5}, "was not confirmed at idp in time"),
    ],
)
def test_a_code_that_cannot_be_shown(place: Place, device: dict[str, object], reason: str) -> None:
    place.provider.device = {**place.provider.device, **device}
    place.provider.polls = ["authorization_pending"] * 5
    assert reason in place("login").output


def test_a_person_without_a_rule_gets_no_sign_in(place: Place) -> None:
    place.provider.person = {"preferred_username": "eve"}
    assert "no rule of the server gives access to your token of idp" in place("login").output
    assert not (place.home / "sign-in.json").exists()


def test_an_unknown_provider_is_named_with_those_there_are(place: Place) -> None:
    assert "no sign-in of github; there are idp" in place("login", "github").output


def test_bearer_tokens_are_found_in_the_order_of_the_wlcg(place: Place, tmp_path: Path) -> None:
    good, old = place.token(), place.token(exp=1)
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    named, usual = tmp_path / "named", runtime / f"bt_u{os.geteuid()}"
    for file, text in ((named, old), (usual, good)):
        file.touch(0o600)
        file.write_text(f"{text}\n")
    found = {"XDG_RUNTIME_DIR": str(runtime)}
    assert f"of {usual}," in place("whoami", **found).output
    found["BEARER_TOKEN_FILE"] = str(named)
    assert f"your token is that of {named}" in place("whoami", **found).output
    found["BEARER_TOKEN"] = good
    assert "of BEARER_TOKEN," in place("whoami", **found).output
    assert "of PILOTAGE_TOKEN," in place("whoami", BEARER_TOKEN=old, PILOTAGE_TOKEN=good).output


def test_a_token_file_of_others_or_for_others_is_not_used(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, elsewhere = place.token(), tmp_path / "elsewhere"
    usual = tmp_path / f"bt_u{os.geteuid()}"
    usual.write_text(token)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    for mode, text in ((0o640, ""), (0o604, ""), (0o602, ""), (0o600, token)):
        usual.chmod(mode)
        assert place.settings().token == text
    usual.rename(elsewhere)
    usual.symlink_to(elsewhere)
    assert place.settings().token == ""
    usual.unlink()
    os.mkfifo(usual, 0o600)
    assert place.settings().token == ""
    monkeypatch.setenv("BEARER_TOKEN_FILE", str(elsewhere))
    assert place.settings().token == token
    elsewhere.chmod(0o644)
    with pytest.raises(WrongSettings, match=r"BEARER_TOKEN_FILE: .*read or written by others; chmod 600"):
        place.settings()
    assert "BEARER_TOKEN_FILE: " in place("status").output
    elsewhere.chmod(0o600)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    with pytest.raises(WrongSettings, match="belongs to another user"):
        place.settings()


def test_a_running_command_reads_a_renewed_file(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "bearer"
    file.touch(0o600)
    file.write_text(place.token(exp=int(time.time()) - 27))
    monkeypatch.setenv("BEARER_TOKEN_FILE", str(file))
    with Client(settings=place.settings()) as client:
        assert client.whoami()["name"] == "ada"
        time.sleep(3.5)
        file.write_text(place.token())
        assert client.whoami()["name"] == "ada"
    file.write_text("")
    with (
        Client(settings=place.settings()) as client,
        pytest.raises(NotSignedIn, match="set PILOTAGE_TOKEN or"),
    ):
        client.whoami()
