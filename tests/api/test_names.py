"""Names as people have them, at every door of the API: nothing is refused but what no place can hold."""

from dataclasses import replace
from glob import escape
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from pilotage.adapters.movers.contract import ODD_NAMES
from pilotage.model.records.publications import published_name
from pilotage.model.values.paths import output_name

from .conftest import OTHER_ALICE, House, Submit, federation

REFUSED = (
    *("", ".", "..", "../a", "a/../b", "/etc/passwd", "a//b", "a/", "a/.", "line\nbreak", "tab\t", "nul\0"),
    *("c1\x9b2m", "del\x7f", ".scratch/house/1.1/out", ".copies/house/atlas/f", "a" * 501, "\u65e5" * 334),
)


@pytest.fixture
def root(house: House, tmp_path: Path) -> Path:
    """The folder of the northern storage."""
    house.store.save_federation(federation(tmp_path), "test")
    (tmp_path / "north").mkdir()
    return tmp_path / "north"


def put(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode())


def described(name: str) -> dict[str, Any]:
    return {"name": name, "size": len(name.encode()), "replicas": ["north-disk"]}


@pytest.mark.parametrize("odd", ODD_NAMES)
def test_a_file_of_an_odd_name_is_registered_listed_read_given_to_a_task_and_forgotten(
    alice: TestClient, submit: Submit, root: Path, odd: str
) -> None:
    name = f"runs/{odd}"
    put(root, name)
    assert alice.post("/files", json={"files": [described(name)]}).json() == {"new": 1, "refused": []}
    for match in ("runs/**", name, escape(name)):
        (found,) = alice.get("/files", params={"match": match}).json()["files"]
        assert found["file"] == f"atlas:{name}"
    for file in (name, f"atlas:{name}"):
        assert alice.get("/files/describe", params={"file": file}).json() == found
    read = alice.get("/files/content", params={"file": name})
    assert (read.status_code, read.content) == (200, name.encode())
    listed = alice.post("/files/scan", json={"storage": "north-disk", "match": escape(name)}).json()
    assert listed == {"files": 1, "new": 0, "refused": []}
    # Braces in outputs are placeholders, such as {index}.
    asked = odd.replace("{", "?").replace("}", "?")
    inputs = [{"glob": name}, {"glob": name, "storages": ["north-disk"]}, described(name)]
    for one in inputs:
        task = submit(inputs=[one], outputs=[asked], optional_outputs=[asked])
        assert alice.post(f"/tasks/{task}/cancel").status_code < 300
    assert alice.post("/files/forget", json={"file": name, "dry_run": True}).json()["kept"] == ["north-disk"]


@pytest.mark.parametrize("name", REFUSED)
def test_a_name_that_no_file_may_have_is_refused_in_words(alice: TestClient, root: Path, name: str) -> None:
    task = {"name": "t", "command": ["x"], "inputs": [described(name)]}
    for answer in (
        alice.post("/files", json={"files": [described(name)]}),
        alice.post("/tasks", json={"tasks": [task]}),
    ):
        assert answer.status_code == 422, answer.text
        assert "name" in answer.text


def test_a_lone_surrogate_is_refused_in_words(alice: TestClient, root: Path) -> None:
    body = b'{"files": [{"name": "a\\ud800", "size": 1, "replicas": ["north-disk"]}]}'
    answer = alice.post("/files", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert "UTF-8" in answer.text or "unicode" in answer.text or "surrogate" in answer.text


@pytest.mark.parametrize("odd", ODD_NAMES)
def test_published_names_are_those_that_rucio_allows_and_distinct(odd: str) -> None:
    file = f"user.ada~atlas:{output_name('house', 1, 2, odd)}"
    other = f"user.ada~atlas:{output_name('house', 1, 2, f'{odd}2')}"
    name = published_name("rucio~user.ada:results", file)
    assert name.replace(".", "").replace("-", "").replace("_", "").isascii()
    assert all(letter.isalnum() or letter in "._-" for letter in name)
    assert name != published_name("rucio~user.ada:results", other)


def test_a_link_is_registered_under_its_name_and_read_where_it_leads(
    alice: TestClient, submit: Submit, house: House, root: Path
) -> None:
    put(root, "real/f", "real/g")
    (root / "latest").symlink_to("real")
    (root / "away").symlink_to("/etc")
    told = alice.post("/files/scan", json={"storage": "north-disk", "match": "**"}).json()
    assert (told["files"], [one["name"] for one in told["refused"]]) == (4, ["away"])
    assert "leads out of its storage" in told["refused"][0]["reason"]
    entry = house.store.catalogue.entry("atlas:latest/f")
    assert entry is not None
    assert [one.place for one in entry.replicas] == ["real/f"]
    submit(inputs=[{"glob": "latest/*", "storages": ["north-disk"]}])
    # Whoever changes the link later leads nobody astray.
    (root / "latest").unlink()
    (root / "latest").symlink_to("/etc")
    assert alice.get("/files/content", params={"file": "latest/f"}).content == b"real/f"
    (root / "real").rename(root / "moved")
    (root / "real").symlink_to("/etc")
    assert alice.get("/files/content", params={"file": "latest/f"}).status_code == 502
    task = {"name": "t", "command": ["x"], "inputs": [{"glob": "**", "storages": ["north-disk"]}]}
    refused = alice.post("/tasks", json={"tasks": [task]})
    assert refused.status_code == 422
    assert "is a symbolic link that leads out of its storage" in refused.text


def test_a_link_into_a_folder_of_others_is_no_way_to_their_files(house: House, tmp_path: Path) -> None:
    known = federation(tmp_path)
    guarded = tuple(
        replace(one, folders={"atlas": ("atlas",), "belle": ("belle",)}) for one in known.storages
    )
    house.store.save_federation(replace(known, storages=guarded), "test")
    put(tmp_path / "north", "atlas/secret", "belle/f")
    (tmp_path / "north/belle/door").symlink_to("../atlas")
    (tmp_path / "north/belle/hole").symlink_to("../atlas/secret")
    attacker = house.as_("user", OTHER_ALICE)
    for match, link in (("belle/door/*", "belle/door/secret"), ("belle/hole", "belle/hole")):
        refused = attacker.post("/files/scan", json={"storage": "north-disk", "match": match})
        assert (refused.status_code, link in refused.text) == (403, True)
        task = {"name": "t", "command": ["x"], "inputs": [{"glob": match, "storages": ["north-disk"]}]}
        assert attacker.post("/tasks", json={"tasks": [task]}).status_code == 422
        assert attacker.get("/files", params={"match": "**"}).json()["files"] == []
