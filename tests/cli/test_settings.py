"""Settings by the environment, and what follows from them."""

from pathlib import Path

import pytest

from pilotage.cli.administration.home_lock import serving
from pilotage.cli.configuration import settings
from pilotage.cli.errors import BadInput
from pilotage.settings import DEFAULT_URL, URL_FILE, Settings, WrongSettings


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("STORE", "URL", "TOKEN", "HOST", "PORT"):
        monkeypatch.delenv(f"PILOTAGE_{name}", raising=False)
    monkeypatch.setenv("PILOTAGE_HOME", str(tmp_path))


def test_the_store_and_the_token_are_in_the_home(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    settings = Settings.read()
    assert settings.store == f"sqlite:///{tmp_path}/pilotage.sqlite"
    assert settings.token == "secret"
    assert "secret" not in repr(settings)


def test_a_setting_that_is_wrong_is_told_in_plain_words(monkeypatch: pytest.MonkeyPatch) -> None:
    for port in ("http", "70000", "0000080000001", "-1"):
        monkeypatch.setenv("PILOTAGE_PORT", port)
        with pytest.raises(BadInput, match=rf"^PILOTAGE_PORT: '{port}' is no whole number from 0 to 65535$"):
            settings()


@pytest.mark.parametrize("told", ["", "no address", "http://127.0.0.1:99999", "\x00"])
def test_a_broken_file_of_the_servers_address_stops_no_command(tmp_path: Path, told: str) -> None:
    (tmp_path / URL_FILE).write_text(told)
    assert Settings.read().url == DEFAULT_URL


def test_the_home_is_below_the_users_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PILOTAGE_HOME")
    assert Settings.read().home == tmp_path / ".pilotage"
    monkeypatch.setenv("PILOTAGE_HOME", "~/elsewhere")
    assert Settings.read().home == tmp_path / "elsewhere"


@pytest.mark.parametrize(
    "url",
    [
        "http://[::1",
        "http://[::1/x",
        "http://::1",
        "http://h:99999",
        "http://h?token=S3CRET",
        "http://h/#S3CRET",
    ],
)
def test_an_impossible_address_of_the_server_is_told_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("PILOTAGE_URL", url)
    with pytest.raises(
        BadInput, match=r"^PILOTAGE_URL: has .*; give a URL like http://127.0.0.1:8470$"
    ) as told:
        settings()
    assert "S3CRET" not in str(told.value)


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("http://127.0.0.1:9000", "127.0.0.1", 9000),
        ("https://pilotage.example.org/", "pilotage.example.org", 443),
        ("http://[::1]:8470", "::1", 8470),
        ("http://example.org", "example.org", 80),
    ],
)
def test_host_and_port_are_those_of_the_url(
    monkeypatch: pytest.MonkeyPatch, url: str, host: str, port: int
) -> None:
    monkeypatch.setenv("PILOTAGE_URL", url)
    settings = Settings.read()
    assert (settings.host, settings.port) == (host, port)
    assert settings.url == url.rstrip("/")


def test_listening_elsewhere_moves_the_url_unless_one_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings.read().at(None, 9000).url == "http://127.0.0.1:9000"
    assert Settings.read().at("0.0.0.0", None).url == "http://127.0.0.1:8470"
    assert Settings.read().at("::1", 9000).url == "http://[::1]:9000"
    monkeypatch.setenv("PILOTAGE_URL", "https://pilotage.example.org")
    moved = Settings.read().at("0.0.0.0", 8470)
    assert (moved.url, moved.host, moved.port) == ("https://pilotage.example.org", "0.0.0.0", 8470)


def test_the_home_tells_commands_where_its_server_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with serving(tmp_path, "http://127.0.0.1:9000"):
        found = Settings.read(home=str(tmp_path))
        assert (found.url, found.port) == ("http://127.0.0.1:9000", 8470)
        assert found.at(None, None).url == "http://127.0.0.1:8470"
        monkeypatch.setenv("PILOTAGE_URL", "http://127.0.0.1:9001")
        assert Settings.read(home=str(tmp_path)).url == "http://127.0.0.1:9001"
    monkeypatch.delenv("PILOTAGE_URL")
    assert Settings.read(home=str(tmp_path)).url == "http://127.0.0.1:8470"


@pytest.mark.parametrize("url", ["ftp://x", "127.0.0.1:8470", "http://", "http://x:99999", "http://x:port"])
def test_a_url_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("PILOTAGE_URL", url)
    with pytest.raises(WrongSettings):
        Settings.read()


def test_further_servers_are_urls_with_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings.read().more_urls == ()
    monkeypatch.setenv("PILOTAGE_MORE_URLS", "http://b:8470/, https://c.example")
    assert Settings.read().more_urls == ("http://b:8470", "https://c.example")
    for wrong in ("http://b,,http://c", "b:8470", "http://ada:S3CRET@b", ",".join(["http://b"] * 30)):
        monkeypatch.setenv("PILOTAGE_MORE_URLS", wrong)
        with pytest.raises(BadInput, match=r"^PILOTAGE_MORE_URLS: ") as told:
            settings()
        assert "S3CRET" not in str(told.value)
