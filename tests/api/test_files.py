"""The catalogue over the API: nobody occupies, describes or reads another scope's names."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from pilotage.flow.calls.data import catalogue
from pilotage.flow.outside import file_readers
from pilotage.flow.step import take
from pilotage.flow.steps import step
from pilotage.model.documents.decision import Create
from pilotage.model.records.work import File, Replica

from .conftest import ALICE, BOB, OTHER_ALICE, House, Submit, federation

CONTENT = bytes(range(256)) * 8000


@pytest.fixture
def root(house: House, tmp_path: Path) -> Path:
    """The folder of the northern storage."""
    house.store.save_federation(federation(tmp_path), "test")
    (tmp_path / "north").mkdir()
    return tmp_path / "north"


def entry(name: str = "runs/1/f", **values: Any) -> dict[str, Any]:
    return {"name": name, "size": len(CONTENT), "checksum": "", "replicas": ["north-disk"], **values}


@pytest.fixture
def registered(alice: TestClient, root: Path) -> str:
    """A file of the VO atlas that lies in the north."""
    (root / "runs" / "1").mkdir(parents=True)
    (root / "runs" / "1" / "f").write_bytes(CONTENT)
    assert alice.post("/files", json={"files": [entry()]}).json()["new"] == 1
    return "atlas:runs/1/f"


def test_a_file_is_registered_described_and_read(alice: TestClient, registered: str, root: Path) -> None:
    assert alice.post("/files", json={"files": [entry()]}).json()["new"] == 0
    (found,) = alice.get("/files", params={"match": "runs/**"}).json()["files"]
    assert found == alice.get("/files/describe", params={"file": "runs/1/f"}).json()
    assert (found["file"], found["size"]) == (registered, len(CONTENT))
    assert found["replicas"] == [{"storage": "north-disk", "url": f"file://{root}/runs/1/f"}]
    whole = alice.get("/files/content", params={"file": registered})
    assert (whole.status_code, whole.content) == (200, CONTENT)
    rest = alice.get("/files/content", params={"file": registered}, headers={"Range": "bytes=1500000-"})
    assert (rest.status_code, rest.content) == (206, CONTENT[1500000:])
    assert rest.headers["Content-Range"] == f"bytes 1500000-{len(CONTENT) - 1}/{len(CONTENT)}"
    for wrong in ("bytes=5-6", f"bytes={len(CONTENT)}-", "lines=1-"):
        refused = alice.get("/files/content", params={"file": registered}, headers={"Range": wrong})
        assert refused.status_code == 416


@pytest.mark.parametrize("match", ["runs/**", "**", "runs/*/f", "runs/?/[f]"])
def test_files_are_listed_by_pattern_in_pages(alice: TestClient, registered: str, match: str) -> None:
    more = [entry(f"runs/{number}/f") for number in range(2, 6)] + [entry("runs/2/sub/g"), entry("other")]
    assert alice.post("/files", json={"files": more}).json()["new"] == 6
    names: list[str] = []
    while page := [
        one["file"]
        for one in alice.get(
            "/files", params={"match": match, "limit": 2, "after": names[-1] if names else ""}
        ).json()["files"]
    ]:
        names += page
    expected = [f"atlas:runs/{number}/f" for number in range(1, 6)]
    if "**" in match:
        expected.append("atlas:runs/2/sub/g")
    if match == "**":
        expected.append("atlas:other")
    assert names == sorted(expected)


def test_nobody_occupies_describes_or_reads_a_name_in_another_s_scope(house: House, registered: str) -> None:
    stranger = house.as_("user", OTHER_ALICE)
    for call in ("describe", "content"):
        refused = stranger.get(f"/files/{call}", params={"file": registered})
        assert refused.status_code == 403
        assert refused.json()["detail"] == (
            "the scope 'atlas' is not yours; yours are belle, user.alice~belle"
        )
    assert stranger.get("/files", params={"scope": "atlas"}).status_code == 403
    assert stranger.get("/files").json()["files"] == []
    assert stranger.get("/files/describe", params={"file": "runs/1/f"}).status_code == 404
    for scope in ("atlas", "user.alice~atlas"):
        assert stranger.post("/files", json={"files": [entry(scope=scope)]}).status_code == 403
    assert stranger.post("/files/forget", json={"file": registered}).status_code == 403
    task = {"name": "t", "command": ["x"], "inputs": [entry(scope="atlas")]}
    assert stranger.post("/tasks", json={"tasks": [task]}).status_code == 422
    assert stranger.post("/files", json={"files": [entry(size=7)]}).json()["new"] == 1


def test_members_of_a_vo_share_its_scope_and_not_each_other_s(
    house: House, alice: TestClient, registered: str
) -> None:
    bob = house.as_("user", BOB)
    assert bob.get("/files/describe", params={"file": registered}).status_code == 200
    assert alice.post("/files", json={"files": [entry("mine", scope="user.alice~atlas")]}).status_code == 200
    assert bob.get("/files/describe", params={"file": "user.alice~atlas:mine"}).status_code == 403
    assert "user.alice~atlas:mine" not in [one["file"] for one in bob.get("/files").json()["files"]]
    # What a VO's scope names belongs to the VO: each member may forget it. A person's own scope is theirs.
    assert bob.post("/files/forget", json={"file": "user.alice~atlas:mine"}).status_code == 403
    assert bob.post("/files/forget", json={"file": registered}).status_code == 204


def test_an_operator_reaches_every_scope(operator: TestClient, registered: str) -> None:
    assert operator.get("/files/describe", params={"file": registered}).json()["file"] == registered


def test_a_file_that_was_changed_is_refused_with_the_command_that_settles_it(
    alice: TestClient, registered: str
) -> None:
    changed = {"files": [entry(size=9)]}
    refused = alice.post("/files", json=changed)
    assert refused.status_code == 409
    assert f"`pilotage files forget {registered}` and give it again" in refused.json()["detail"]
    assert alice.post("/files/forget", json={"file": registered}).status_code == 204
    assert alice.post("/files", json=changed).json()["new"] == 1


def test_a_file_that_a_task_reads_is_not_forgotten(
    alice: TestClient, house: House, submit: Submit, registered: str
) -> None:
    task = submit(inputs=[entry()])
    for splits in (False, True):
        if splits:
            house.split()
        refused = alice.post("/files/forget", json={"file": registered})
        assert refused.status_code == 409
    assert alice.post(f"/tasks/{task}/cancel").status_code == 200
    assert alice.post("/files/forget", json={"file": registered}).status_code == 204
    assert alice.get("/files/describe", params={"file": registered}).status_code == 404


def test_forgetting_removes_copies_and_leaves_originals(
    alice: TestClient, house: House, registered: str, root: Path
) -> None:
    path = ".copies/small/atlas/g"
    copy = root / path
    copy.parent.mkdir(parents=True)
    copy.write_bytes(b"copy")
    records = (
        File(name="atlas:g", size=4, checksum=""),
        Replica(file="atlas:g", storage="north-disk", path=path),
    )
    house.commit(Create(records=records, cause="staged"))
    assert alice.get("/files/content", params={"file": "g"}).content == b"copy"
    would = {"file": "atlas:g", "deleted": ["north-disk"], "kept": []}
    assert alice.post("/files/forget", json={"file": "g", "dry_run": True}).json() == would
    would = {"file": registered, "deleted": [], "kept": ["north-disk"]}
    assert alice.post("/files/forget", json={"file": registered, "dry_run": True}).json() == would
    for file in ("g", registered):
        assert alice.post("/files/forget", json={"file": file}).status_code == 204
    take(step("watch"), house.runtime, house.runtime.begin(1000))
    house.runtime.workers.close()
    assert not copy.exists()
    assert (root / "runs/1/f").exists()


def test_files_are_registered_from_a_listing_without_copies_and_outputs(
    alice: TestClient, registered: str, root: Path
) -> None:
    for name in ("runs/2/g", "tasks/small/1/1/out", ".copies/small/atlas/x"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")
    body = {"storage": "north-disk", "match": "**"}
    assert alice.post("/files/scan", json=body).json() == {"files": 2, "new": 1, "refused": []}
    assert alice.post("/files/scan", json={**body, "storage": "none"}).status_code == 404


def test_links_that_match_a_listing_are_told_and_files_registered(
    alice: TestClient, registered: str, root: Path
) -> None:
    (root / "real").mkdir()
    (root / "real/f").write_bytes(b"x")
    (root / "runs/latest").symlink_to(root / "runs/1")
    (root / "runs/one").symlink_to(root / "real/f")
    (root / "runs/away").symlink_to("/etc")
    os.mkfifo(root / "runs/pipe")
    told = alice.post("/files/scan", json={"storage": "north-disk", "match": "runs/**"}).json()
    assert (told["files"], told["new"]) == (3, 2)
    assert [one["name"] for one in told["refused"]] == ["runs/away", "runs/pipe"]
    assert ["symbolic link" in one["reason"] for one in told["refused"]] == [True, False]
    behind = alice.post("/files/scan", json={"storage": "north-disk", "match": "runs/latest/*"}).json()
    assert (behind["files"], behind["refused"]) == (1, [])
    behind = alice.post("/files/scan", json={"storage": "north-disk", "match": "runs/away/*"}).json()
    assert (behind["files"], [one["name"] for one in behind["refused"]]) == (0, ["runs/away"])


@pytest.mark.parametrize("match", ["tasks/**", "tasks/small/1/*", "../*", "a//b"])
def test_a_wrong_pattern_is_the_caller_s_mistake(alice: TestClient, match: str) -> None:
    assert alice.post("/files/scan", json={"storage": "north-disk", "match": match}).status_code == 422


def test_a_storage_that_cannot_be_listed_is_told_as_such(alice: TestClient, house: House) -> None:
    known = house.store.federation()
    broken = tuple(replace(one, url="http://127.0.0.1:1") for one in known.storages)
    house.store.save_federation(replace(known, storages=broken), "test")
    refused = alice.post("/files/scan", json={"storage": "north-disk", "match": "*"})
    assert (refused.status_code, "north-disk cannot be listed" in refused.text) == (502, True)


def test_a_file_without_a_replica_in_the_federation_is_not_there(
    alice: TestClient, house: House, registered: str
) -> None:
    refused = alice.get("/files/content", params={"file": registered, "storage": "south-disk"})
    assert (refused.status_code, "has no replica at south-disk" in refused.text) == (404, True)


@pytest.mark.parametrize(
    ("wrong", "part"),
    [
        ({"replicas": []}, "is empty"),
        ({"replicas": ["nort-disk"]}, "did you mean north-disk"),
        ({"name": "tasks/small/1/1/out"}, "outputs are known already"),
        ({"checksum": "md5:12"}, "md5: and 32"),
        ({"name": ".copies/x"}, ""),
    ],
)
def test_what_cannot_be_registered_is_refused(
    alice: TestClient, root: Path, wrong: dict[str, Any], part: str
) -> None:
    refused = alice.post("/files", json={"files": [entry(**wrong)]})
    assert refused.status_code == 422
    assert part in refused.text


def test_no_more_files_are_read_at_once_than_may_be(
    alice: TestClient, house: House, registered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = (house.store.federation().storages[0], "runs/1/f")
    reading = [house.runtime.file_readers.read([place], 0) for _ in range(file_readers.MOST_READERS)]
    refused = alice.get("/files/content", params={"file": registered})
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "2")
    reading.clear()
    assert alice.get("/files/content", params={"file": registered}).status_code == 200


def test_one_person_leaves_places_to_others(alice: TestClient, house: House, registered: str) -> None:
    place = (house.store.federation().storages[0], "runs/1/f")
    readers = house.runtime.file_readers
    for _ in range(2):
        people = (f"{ALICE.vo}:{ALICE.name}", "atlas:slow", "atlas:slower")
        reading = [
            readers.read([place], 0, person) for person in people for _ in range(file_readers.MOST_OF_ONE)
        ]
        refused = alice.get("/files/content", params={"file": registered})
        assert refused.status_code == 503
        assert "4 files of yours are under way already" in refused.json()["detail"]
        readers.read([place], 0, "somebody else").close()
        reading.clear()
        assert alice.get("/files/content", params={"file": registered}).status_code == 200


def test_a_file_that_no_storage_gives_tells_why(alice: TestClient, registered: str, root: Path) -> None:
    (root / "runs/1/f").unlink()
    refused = alice.get("/files/content", params={"file": registered})
    assert refused.status_code == 502
    assert "north-disk: " in refused.json()["detail"]


@pytest.mark.parametrize(
    "url", ["http://elsewhere/f", "file:///etc/passwd", "//elsewhere/f", "/etc/passwd", "..", "runs/../../f"]
)
def test_an_url_or_a_path_outside_of_the_declared_storages_is_no_file(
    alice: TestClient, root: Path, url: str
) -> None:
    """Files are names below storages, and storages are names of the federation: neither can be an address."""
    task = {"name": "reach", "command": ["true"]}
    inputs: list[dict[str, Any]] = [
        {"name": url, "size": 1, "replicas": ["north-disk"]},
        {"name": "f", "size": 1, "replicas": [url]},
        {"storages": ["north-disk"], "glob": url},
        {"storages": [url], "glob": "*"},
    ]
    for one in inputs:
        assert alice.post("/tasks", json={"tasks": [{**task, "inputs": [one]}]}).status_code == 422, one
    for one in (entry(url), entry("f", replicas=[url])):
        assert alice.post("/files", json={"files": [one]}).status_code == 422, one
    assert alice.get("/files").json()["files"] == []


def test_a_dry_run_registers_nothing_and_tells_what_would_be_new(
    alice: TestClient, registered: str, root: Path
) -> None:
    (root / "runs" / "1" / "g").write_bytes(b"x")
    both = {"files": [entry(), entry("runs/1/g", size=1)], "dry_run": True}
    assert alice.post("/files", json=both).json()["new"] == 1
    listing = {"storage": "north-disk", "match": "runs/**", "dry_run": True}
    assert alice.post("/files/scan", json=listing).json() == {"files": 2, "new": 1, "refused": []}
    assert alice.get("/files/describe", params={"file": "atlas:runs/1/g"}).status_code == 404
    changed = {"files": [entry(size=1)], "dry_run": True}
    assert alice.post("/files", json=changed).status_code == 409


@pytest.mark.parametrize(
    ("lies", "sent"),
    [(CONTENT + b"more", CONTENT + b"m"), (CONTENT[:-1], CONTENT[:-1]), (CONTENT, CONTENT), (b"", b"")],
)
def test_a_file_that_was_changed_is_sent_as_it_lies_up_to_a_byte_too_many(
    alice: TestClient, registered: str, root: Path, lies: bytes, sent: bytes
) -> None:
    (root / "runs" / "1" / "f").write_bytes(lies)
    answer = alice.get("/files/content", params={"file": registered, "as_it_lies": True})
    assert (answer.status_code, answer.content) == (200, sent)
    assert "content-length" not in answer.headers


def test_of_files_each_by_itself_the_sound_ones_are_registered(
    alice: TestClient, house: House, registered: str, root: Path
) -> None:
    files = [
        entry("runs/2"),
        entry("tasks/small/1/1/out"),
        entry("runs/3", replicas=["nowhere"]),
        entry(size=1),
        entry("runs/4"),
        entry("runs/4", size=1),
        entry("runs/2"),
    ]
    for dry_run in (True, False):
        told = alice.post("/files", json={"files": files, "each": True, "dry_run": dry_run}).json()
        assert told["new"] == 2
        reasons = {one["at"]: one["reason"] for one in told["refused"]}
        assert sorted(reasons) == [1, 2, 3, 5]
        assert "did you mean" in reasons[2] or "nowhere" in reasons[2]
        assert f"`pilotage files forget {registered}`" in reasons[3]
    known = [one["file"] for one in alice.get("/files", params={"match": "runs/**"}).json()["files"]]
    assert known == ["atlas:runs/1/f", "atlas:runs/2", "atlas:runs/4"]


def test_of_a_listing_what_cannot_be_registered_is_told_and_the_others_are(
    alice: TestClient, registered: str, root: Path
) -> None:
    for name in ("g", "a b", "gr\u00f6\u00dfe", os.fsdecode(b"\xff"), "line\nbreak"):
        (root / "runs" / "1" / name).write_bytes(b"x")
    (root / "runs/1/f").write_bytes(b"changed")
    told = alice.post("/files/scan", json={"storage": "north-disk", "match": "runs/**"}).json()
    assert (told["files"], told["new"]) == (3, 3)
    assert {one["name"].removeprefix("runs/1/") for one in told["refused"]} == {
        "f",
        "line\nbreak",
        "\\udcff",
    }
    assert any("pilotage files forget" in one["reason"] for one in told["refused"])


@pytest.mark.parametrize("storage", ["", "north-disk"])
def test_a_file_whose_task_came_while_it_was_being_forgotten_stays(
    alice: TestClient, submit: Submit, registered: str, monkeypatch: pytest.MonkeyPatch, storage: str
) -> None:
    """Somebody submits between the look at who wants a file and the commit that forgets it."""

    def looked(*given: Any) -> Any:
        found = to_forget(*given)
        submit(inputs=[entry()])
        return found

    to_forget = catalogue.to_forget
    monkeypatch.setattr(catalogue, "to_forget", looked)
    refused = alice.post("/files/forget", json={"file": registered, "storage": storage})
    assert (refused.status_code, "came a moment ago" in refused.text) == (409, True)
    found = alice.get("/files/describe", params={"file": registered}).json()
    assert [one["storage"] for one in found["replicas"]] == ["north-disk"]


def test_a_person_registers_so_much_and_others_go_on(
    alice: TestClient, operator: TestClient, house: House, root: Path
) -> None:
    """Rows of the catalogue never end by themselves: one person could fill the database's disk."""
    known = house.store.federation()
    house.store.save_federation(replace(known, quotas=replace(known.quotas, registered_by_user=4)), "test")
    task = {"name": "t", "command": ["true"], "inputs": [entry("runs/9")]}

    def given(client: TestClient, name: str) -> int:
        answer = client.post("/files", json={"files": [entry(name)]})
        return int(answer.status_code)

    assert [given(alice, f"runs/{number}") for number in (1, 2, 2)] == [200] * 3
    assert alice.post("/datasets", json={"dataset": "runs", "match": "runs/*"}).json()["files"] == 2
    refused = alice.post("/files", json={"files": [entry("runs/3")]})
    assert refused.status_code == 409
    assert "4 are the most (quotas.registered_by_user)" in refused.json()["detail"]
    assert alice.post("/datasets", json={"dataset": "more", "match": "runs/*"}).status_code == 409
    assert alice.post("/tasks", json={"tasks": [task]}).status_code == 409
    assert alice.post("/tasks", json={"tasks": [task | {"inputs": []}]}).status_code == 201
    assert (given(house.as_("user", BOB), "runs/3"), given(operator, "runs/4")) == (200, 200)
    assert alice.post("/datasets/forget", json={"dataset": "runs"}).status_code == 204
    assert given(alice, "runs/5") == 200


def test_a_person_stores_so_much_and_others_go_on(alice: TestClient, house: House) -> None:
    """Texts of tasks stay until the archive: one person could fill the database's disk in minutes."""
    known = house.store.federation()
    house.store.save_federation(replace(known, quotas=replace(known.quotas, stored_by_user=1)), "test")
    task = {"name": "t", "command": ["true"], "parameters": [{"text": "x" * 2000} for _ in range(300)]}

    def given(client: TestClient) -> int:
        return int(client.post("/tasks", json={"tasks": [task]}).status_code)

    assert [given(alice) for _ in range(3)] == [201, 201, 409]
    refused = alice.post("/tasks", json={"tasks": [task]}).json()["detail"]
    assert "your tasks take 1 MB of the store, and 1 MB are the most (quotas.stored_by_user)" in refused
    assert (given(house.as_("user", OTHER_ALICE)), given(house.as_("user", BOB))) == (201, 201)
