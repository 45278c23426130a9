"""Credentials of storages: by VO, from files, and in nothing that anybody is shown."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pilotage.adapters.movers.storages.backend import StorageOptionError
from pilotage.adapters.movers.streaming import Streaming, check
from pilotage.model.records.catalogues import ExternalCatalogue, MappedStorage
from pilotage.model.records.federation import Storage
from pilotage.model.records.states import TransferState
from pilotage.model.records.work import File
from pilotage.model.values.identity import Identity
from pilotage.model.values.scopes import is_of_vo, personal_scope, scopes_of
from pilotage.ports.moving import DeliveryFailed, options_for, order
from pilotage.testing import transfer

TOKENS = {"all": "token-of-all", "atlas": "token-of-atlas"}


class Guarded(BaseHTTPRequestHandler):
    """Gives a file to whoever has the token of ATLAS, which may expire."""

    def do_GET(self) -> None:
        valid = self.headers.get("Authorization") == f"Bearer {TOKENS['atlas']}"
        self.send_response(200 if valid else 401)
        self.send_header("Content-Length", "3" if valid else "0")
        self.end_headers()
        if valid:
            self.wfile.write(b"abc")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Storage]:
    """A storage with a token for all, and one for ATLAS."""
    for name, token in TOKENS.items():
        (tmp_path / f"{name}.token").write_text(token)
    options = {
        "token_file": str(tmp_path / "all.token"),
        "vos": {"atlas": {"token_file": str(tmp_path / "atlas.token")}},
    }
    with ThreadingHTTPServer(("127.0.0.1", 0), Guarded) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        yield Storage(name="guarded", site="s", url=url, options=options)
        server.shutdown()


def deliver(guarded: Storage, place: Path, file: str) -> None:
    disk = Storage(name="disk", site="s", url=f"file://{place}/disk")
    moved = transfer(
        1,
        file=file,
        source="guarded",
        destination="disk",
        state=TransferState.DELIVERING,
        direction="download",
    )
    storages = {"guarded": guarded, "disk": disk}
    known = MappedStorage(rse="R", storage="guarded")
    catalogues = [
        ExternalCatalogue(name=name, vos=vos, storages=(known,))
        for name, vos in (("rucio", ("atlas", "ligo")), ("other", ("ligo",)))
    ]
    asked = order(moved, File(name=file, size=3, checksum=""), storages, "house", catalogues=catalogues)
    Streaming(lambda: None).deliver(asked, lambda _: None)


def test_files_of_a_vo_are_moved_with_its_own_credentials(guarded: Storage, tmp_path: Path) -> None:
    check(guarded)
    for file in ("atlas:file", "user.ada~atlas:file", "rucio~data18:file"):
        deliver(guarded, tmp_path, file)
    for file in ("ligo:file", "user.ada~ligo:file", "user.atlas:file", "other~data18:file"):
        with pytest.raises(DeliveryFailed, match="401") as failed:
            deliver(guarded, tmp_path, file)
        assert not [token for token in TOKENS.values() if token in f"{failed.value!r}"]


def test_an_expired_token_is_told_and_a_renewed_one_is_read(guarded: Storage, tmp_path: Path) -> None:
    (tmp_path / "atlas.token").write_text("expired")
    with pytest.raises(DeliveryFailed, match="401 Unauthorized"):
        deliver(guarded, tmp_path, "atlas:file")
    (tmp_path / "atlas.token").write_text(f"{TOKENS['atlas']}\n")
    deliver(guarded, tmp_path, "atlas:file")


def test_pilotage_itself_and_pilots_are_given_no_vo_s(guarded: Storage) -> None:
    assert options_for(guarded) == {"token_file": guarded.options["token_file"]}


@pytest.mark.parametrize(
    ("vos", "said"),
    [
        (["atlas"], "vos: must be options by the names of VOs"),
        ({"atlas": "token"}, "vos: must be options by the names of VOs"),
        ({"atlas": {"token": "x"}}, r"unknown options \['token'\]"),
    ],
)
def test_wrong_options_of_a_vo_are_refused(guarded: Storage, vos: object, said: str) -> None:
    with pytest.raises(StorageOptionError, match=said):
        check(replace(guarded, options={"vos": vos}))


def test_a_vo_s_scopes_are_its_own_and_its_people_s() -> None:
    ada = Identity(name="ada", vo="atlas")
    assert all(is_of_vo(scope, "atlas") for scope in scopes_of(ada))
    assert not is_of_vo(personal_scope(Identity(name="atlas")), "atlas")
    assert not is_of_vo("ligo", "atlas")
    odd = Identity(name="ada", vo="user.x")
    assert all(is_of_vo(scope, "user.x") for scope in scopes_of(odd))
