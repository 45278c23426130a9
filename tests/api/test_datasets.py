"""Datasets over the API, and by the commands of ``pilotage files``."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from .conftest import OTHER_ALICE, House, Submit


@pytest.fixture
def runs(alice: TestClient) -> dict[str, Any]:
    """Files of the VO atlas, the first two of them in a dataset."""
    files = [{"name": f"runs/{number}", "size": number, "replicas": ["north-disk"]} for number in (1, 2, 3)]
    assert alice.post("/files", json={"files": files}).json()["new"] == 3
    made = alice.post("/datasets", json={"dataset": "runs", "files": ["runs/1", "runs/2"]})
    found: dict[str, Any] = made.json()
    return found


def test_a_dataset_is_made_listed_and_read_by_version(alice: TestClient, runs: dict[str, Any]) -> None:
    assert (runs["dataset"], runs["version"], runs["files"], runs["size"]) == ("atlas:runs", 1, 2, 3)
    second = alice.post("/datasets", json={"dataset": "runs", "match": "runs/*"}).json()
    assert (second["version"], second["size"]) == (2, 6)
    assert alice.get("/datasets").json()["versions"] == [second]
    assert alice.get("/datasets/versions", params={"dataset": "runs"}).json()["versions"] == [second, runs]
    members = alice.get("/datasets/files", params={"dataset": "atlas:runs", "version": 1, "limit": 1}).json()
    assert members == {
        "version": runs,
        "files": [{"file": "atlas:runs/1", "size": 1, "checksum": ""}],
        "total": 2,
        "counts": {},
        "next": "atlas:runs/1",
    }
    rest = {"dataset": "atlas:runs", "after": "atlas:runs/1"}
    assert [one["file"] for one in alice.get("/datasets/files", params=rest).json()["files"]] == [
        "atlas:runs/2",
        "atlas:runs/3",
    ]


def test_a_task_shows_the_version_that_it_reads(
    alice: TestClient, submit: Submit, runs: dict[str, Any]
) -> None:
    task = submit(inputs=[{"dataset": "runs"}])
    alice.post("/datasets", json={"dataset": "runs", "match": "runs/*"})
    view = alice.get(f"/tasks/{task}").json()
    assert view["datasets"] == ["atlas:runs@1"]
    assert [file["name"] for file in view["spec"]["inputs"]] == ["runs/1", "runs/2"]


@pytest.mark.parametrize(
    ("body", "status", "part"),
    [
        ({"dataset": "runs", "files": ["other"]}, 404, "atlas:other; register"),
        ({"dataset": "runs", "files": ["runs/1", "runs/2"], "edit": "remove"}, 409, "no files"),
        ({"dataset": "runs@2", "files": ["runs/1"]}, 422, "dataset"),
        ({"dataset": "runs", "scope": "belle", "files": ["a"]}, 403, "the scope 'belle' is not yours"),
        ({"dataset": "new", "match": "nothing/*"}, 409, "no files"),
    ],
)
def test_what_cannot_be_a_version_is_refused(
    alice: TestClient, runs: dict[str, Any], body: dict[str, Any], status: int, part: str
) -> None:
    refused = alice.post("/datasets", json=body)
    assert (refused.status_code, part in refused.text) == (status, True), refused.text


def test_nobody_sees_another_scope_s_datasets(house: House, runs: dict[str, Any]) -> None:
    stranger = house.as_("user", OTHER_ALICE)
    assert stranger.get("/datasets").json()["versions"] == []
    assert stranger.get("/datasets", params={"scope": "atlas"}).status_code == 403
    for call in ("versions", "files"):
        assert stranger.get(f"/datasets/{call}", params={"dataset": "atlas:runs"}).status_code == 403
        assert stranger.get(f"/datasets/{call}", params={"dataset": "runs"}).status_code == 404


def test_a_forgotten_dataset_is_gone_and_its_files_stay(alice: TestClient, runs: dict[str, Any]) -> None:
    alice.post("/datasets", json={"dataset": "runs", "match": "runs/*"})
    assert alice.post("/datasets/forget", json={"dataset": "runs"}).status_code == 204
    assert alice.get("/datasets").json()["versions"] == []
    for path in ("versions", "files"):
        assert alice.get(f"/datasets/{path}", params={"dataset": "runs"}).status_code == 404
    assert alice.post("/datasets/forget", json={"dataset": "runs"}).status_code == 404
    assert len(alice.get("/files", params={"match": "runs/*"}).json()["files"]) == 3
    task = {"name": "t", "command": ["x"], "inputs": [{"dataset": "runs", "version": 1}]}
    assert "has no dataset atlas:runs" in alice.post("/tasks", json={"tasks": [task]}).text


def test_a_number_of_a_forgotten_version_never_means_other_files(
    alice: TestClient, runs: dict[str, Any]
) -> None:
    alice.post("/datasets/forget", json={"dataset": "runs"})
    again = alice.post("/datasets", json={"dataset": "runs", "files": ["runs/3"]}).json()
    assert (again["version"], again["files"]) == (2, 1)
    old = alice.get("/datasets/files", params={"dataset": "runs", "version": 1})
    assert old.status_code == 404
    assert alice.get("/datasets/versions", params={"dataset": "runs"}).json()["versions"] == [again]


def test_a_dataset_that_a_live_task_reads_is_not_forgotten(
    alice: TestClient, submit: Submit, runs: dict[str, Any]
) -> None:
    alice.post("/datasets", json={"dataset": "Runs", "files": ["runs/1"]})
    task = submit(inputs=[{"dataset": "runs"}])
    refused = alice.post("/datasets/forget", json={"dataset": "runs"})
    assert (refused.status_code, f"read by a task: {task};" in refused.text) == (409, True)
    tried = alice.post("/datasets/forget", json={"dataset": "runs", "dry_run": True})
    assert (tried.status_code, tried.text) == (409, refused.text)
    assert alice.post("/datasets/forget", json={"dataset": "Runs", "dry_run": True}).json()["files"] == 1
    assert alice.post("/datasets/forget", json={"dataset": "Runs"}).status_code == 204, "another name"
    assert alice.get("/datasets/versions", params={"dataset": "runs"}).json()["versions"] == [runs]
    alice.post(f"/tasks/{task}/cancel")
    assert alice.post("/datasets/forget", json={"dataset": "runs"}).status_code == 204


def test_nobody_forgets_a_dataset_of_others(house: House, alice: TestClient, runs: dict[str, Any]) -> None:
    other = house.as_("user", OTHER_ALICE)
    assert other.post("/datasets/forget", json={"dataset": "atlas:runs"}).status_code == 403
    assert other.post("/datasets/forget", json={"dataset": "runs"}).status_code == 404
    assert alice.get("/datasets").json()["versions"] == [runs]
