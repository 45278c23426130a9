"""Nobody registers, lists or reads files in folders of a storage that are others'."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from .conftest import OTHER_ALICE, House, federation

FOLDERS = {"atlas": ("atlas",), "belle": ("belle",), "belle/common": ("atlas", "belle")}


@pytest.fixture
def attacker(house: House, tmp_path: Path) -> TestClient:
    """One of belle, where atlas has a secret at the same storage, which both may read by the server."""
    known = federation(tmp_path)
    guarded = tuple(replace(one, folders=FOLDERS) for one in known.storages)
    house.store.save_federation(replace(known, storages=guarded), "test")
    for name in ("atlas/secret", "belle/f", "belle/common/f", "elsewhere/f"):
        (tmp_path / "north" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "north" / name).write_bytes(b"xyz")
    return house.as_("user", OTHER_ALICE)


def entry(name: str) -> dict[str, Any]:
    return {"name": name, "size": 3, "replicas": ["north-disk"]}


@pytest.mark.parametrize("name", ["atlas/secret", "elsewhere/f", "atlas", "bellevue/f"])
def test_what_lies_in_folders_of_others_is_not_registered_in_one_s_own_scope_and_read(
    attacker: TestClient, name: str
) -> None:
    for scope in ("", "user.alice~belle"):
        refused = attacker.post("/files", json={"files": [{**entry(name), "scope": scope}]})
        assert refused.status_code == 422
        assert "in no folder of yours at north-disk; yours there are belle, belle/common" in refused.text
    assert attacker.get("/files/content", params={"file": name}).status_code == 404


@pytest.mark.parametrize(
    "match", ["**", "atlas/*", "atlas/secret", "*/secret", "b*/f", "?elle/f", "elsewhere/*"]
)
def test_folders_of_others_are_not_even_listed(attacker: TestClient, match: str) -> None:
    refused = attacker.post("/files/scan", json={"storage": "north-disk", "match": match})
    assert (refused.status_code, "secret" in refused.text.replace(match, "")) == (403, False)
    task = {"name": "t", "command": ["x"], "inputs": [{"storages": ["north-disk"], "glob": match}]}
    refused = attacker.post("/tasks", json={"tasks": [task]})
    assert refused.status_code == 422
    assert "is in no folder of yours" in refused.text


def test_a_task_does_not_name_what_lies_in_folders_of_others(attacker: TestClient) -> None:
    task = {"name": "t", "command": ["x"], "inputs": [entry("belle/f"), entry("atlas/secret")]}
    refused = attacker.post("/tasks", json={"tasks": [task]})
    assert refused.status_code == 422
    ((fault,),) = (one["errors"] for one in refused.json()["refused"])
    assert fault["field"] == "inputs[1].name"


def test_a_comparison_does_not_read_behind_links_to_folders_of_others(
    attacker: TestClient, tmp_path: Path
) -> None:
    for name, target in (("to-others", "../atlas/secret"), ("to-own", "f")):
        (tmp_path / "north/belle" / name).symlink_to(target)
    files = [{**entry(f"belle/{name}"), "size": 9} for name in ("to-own", "to-others")]
    own, others = attacker.post("/files/compare", json={"files": files}).json()["differences"]
    assert (own["kind"], own["size"], own["checksum"][:8]) == ("changed", 3, "adler32:")
    assert (others["kind"], others["size"], others["checksum"]) == ("unread", 0, "")
    assert "is, or lies behind, a symbolic link to a folder of others" in others["text"]


def test_a_correction_does_not_lead_to_folders_of_others(attacker: TestClient, tmp_path: Path) -> None:
    """Somebody who gives a file a second size gets the bytes that have it, but not those behind a link."""
    (tmp_path / "north/belle/link").symlink_to("../atlas/secret")
    for size in (9, 3):
        attacker.post("/files", json={"files": [{**entry("belle/link"), "size": size}]})
        task = {"name": "t", "command": ["x"], "inputs": [{**entry("belle/link"), "size": size}]}
        attacker.post("/tasks", json={"tasks": [task]})
        assert b"xyz" not in attacker.get("/files/content", params={"file": "belle/link"}).content


def test_one_s_own_folders_are_registered_listed_and_read(attacker: TestClient) -> None:
    assert attacker.post("/files", json={"files": [entry("belle/common/f")]}).json()["new"] == 1
    assert attacker.post("/files/scan", json={"storage": "north-disk", "match": "belle/**"}).json() == {
        "files": 2,
        "new": 1,
        "refused": [],
    }
    assert attacker.get("/files/content", params={"file": "belle/f"}).content == b"xyz"


def test_a_folder_of_others_within_a_shared_one_keeps_its_names(
    house: House, attacker: TestClient, tmp_path: Path
) -> None:
    known = house.store.federation()
    inner = {"belle": ("belle",), "belle/inner": ("atlas",)}
    storages = tuple(replace(one, folders=inner) for one in known.storages)
    house.store.save_federation(replace(known, storages=storages), "test")
    (tmp_path / "north/belle/inner").mkdir()
    (tmp_path / "north/belle/inner/hidden").write_bytes(b"x")
    refused = attacker.post("/files/scan", json={"storage": "north-disk", "match": "belle/**"})
    assert (refused.status_code, "hidden" in refused.text) == (403, False)
    assert "1 of the files that match lie in folders of others" in refused.text
    task = {"name": "t", "command": ["x"], "inputs": [{"storages": ["north-disk"], "glob": "belle/**"}]}
    assert "lie in folders of others" in attacker.post("/tasks", json={"tasks": [task]}).text


def test_operators_register_for_others(attacker: TestClient, operator: TestClient) -> None:
    files = [{**entry("elsewhere/f"), "scope": "belle"}]
    assert operator.post("/files", json={"files": files}).json()["new"] == 1
    assert attacker.get("/files/content", params={"file": "elsewhere/f"}).content == b"xyz"
    task = {"name": "t", "command": ["x"], "inputs": [{"glob": "elsewhere/*"}]}
    assert attacker.post("/tasks", json={"tasks": [task]}).status_code == 201
