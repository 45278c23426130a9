"""What is vendored is what its authors published."""

import hashlib
import json
from importlib.resources import files

import pytest

from .conftest import PageHouse

STATIC = files("pilotage.server.web") / "static"


def test_vendored_files_have_their_hash_version_and_licence() -> None:
    vendored = json.loads((STATIC / "VENDORED.json").read_text())
    own = {"page.css", "page.js", "lists.js", "mark.svg", "VENDORED.json"}
    names = {one.name for one in STATIC.iterdir()} - own
    assert names == {*vendored, *(one["licence"] for one in vendored.values())}
    for name, told in vendored.items():
        content = (STATIC / name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == told["sha256"]
        assert told["version"].encode() in content
        assert (STATIC / told["licence"]).read_text().strip()


@pytest.mark.parametrize("name", ["page.css", "page.js", "lists.js", "htmx.min.js", "mark.svg"])
def test_static_files_need_no_session_and_may_be_kept(pages: PageHouse, name: str) -> None:
    answer = pages.browser().get(f"/static/{name}")
    assert answer.status_code == 200
    assert "immutable" in answer.headers["cache-control"]


def test_nothing_else_of_the_server_is_static(pages: PageHouse) -> None:
    for name in ("VENDORED.json", "..%2Fapp.py", "../app.py", "x"):
        assert pages.browser().get(f"/static/{name}").status_code == 404
