"""Uploads: checked, never half visible, into one's own scopes alone, within quotas."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from pilotage.flow.calls.data import uploads
from pilotage.flow.step import take
from pilotage.flow.steps import step
from pilotage.model.records.quotas import QuotaConstants
from pilotage.model.values.identity import Identity
from pilotage.model.values.paths import is_file_name, upload_folder, upload_path, uploads_folder
from pilotage.server.api.edge import guard
from tests.waiting import wait_for

from .conftest import ALICE, BOB, OTHER_ALICE, House, Submit, federation

CONTENT = bytes(range(256)) * 9000


@pytest.fixture
def root(house: House, tmp_path: Path) -> Path:
    """The folder of the northern storage."""
    house.store.save_federation(federation(tmp_path), "test")
    (tmp_path / "north").mkdir()
    return tmp_path / "north"


def sha256(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def put(client: TestClient, file: str = "runs/7/f", content: bytes = CONTENT, **query: Any) -> Any:
    query = {"file": file, "storage": "north-disk", "checksum": sha256(content), **query}
    return client.put("/files/content", params=query, content=content)


def read(client: TestClient, file: str = "atlas:runs/7/f") -> bytes:
    return bytes(client.get("/files/content", params={"file": file}).content)


def stored(root: Path) -> list[Path]:
    """All files at the storage, with temporary ones."""
    return [path for path in root.rglob("*") if path.is_file()]


def is_empty(root: Path) -> bool:
    return not stored(root)


def clean(house: House) -> None:
    """Make the due removals, in the background."""
    take(step("watch"), house.runtime, house.runtime.begin(1000))


def test_a_file_is_uploaded_and_read_and_may_be_uploaded_again(alice: TestClient, root: Path) -> None:
    uploaded = {"file": "atlas:runs/7/f", "size": len(CONTENT), "checksum": sha256(CONTENT)}
    assert put(alice).json() == {**uploaded, "storage": "north-disk", "new": True}
    assert read(alice) == CONTENT
    (path,) = stored(root)
    assert path.name == "f"
    assert put(alice).json() == {**uploaded, "storage": "north-disk", "new": False}
    assert put(alice, storage="").json()["new"] is False
    assert stored(root) == [path]


@pytest.mark.parametrize("name", ["empty", "Prüfung (1)/50% & more.txt", "user.alice~atlas:mine", "f" * 250])
def test_names_and_sizes_of_every_kind(alice: TestClient, root: Path, name: str) -> None:
    content = b"" if name == "empty" else b"x"
    answer = put(alice, name, content)
    assert answer.status_code == 200, answer.text
    assert read(alice, answer.json()["file"]) == content


@pytest.mark.parametrize(
    "name",
    [
        *(
            "../f",
            "/f",
            "a/../f",
            "a//f",
            "",
            "atlas:",
            ".scratch/f",
            ".copies/f",
            ".uploads/f",
            "a\nb",
            "a\x00",
        ),
        *("x" * 501, "tasks/small/1/1/out", "user.alice~atlas:tasks/small/1/1/out"),
    ],
)
def test_a_name_that_no_file_may_have_is_refused(alice: TestClient, root: Path, name: str) -> None:
    assert put(alice, name).status_code == 422
    assert is_empty(root)


@pytest.mark.parametrize("scope", ["belle", "user.bob~atlas", "user.alice", "user.alice~belle", "small~x"])
def test_the_scope_of_another_person_or_vo_is_refused(alice: TestClient, root: Path, scope: str) -> None:
    assert put(alice, f"{scope}:f").status_code == 403
    assert is_empty(root)


def test_only_people_upload(house: House, root: Path) -> None:
    assert put(house.client()).status_code == 401
    assert put(house.pilot()[1]).status_code == 403
    assert put(house.as_("operator", BOB), "belle:f").json()["file"] == "belle:f"


def test_names_of_people_lead_to_no_other_folder() -> None:
    """They may have slashes and dots."""
    folders = {
        uploads_folder("small", vo, person)
        for vo in ("", "..", "../..", "a/b", "a")
        for person in ("x", "..", "../x", "b/x")
    }
    assert len(folders) == 20
    for folder in folders:
        path = upload_path(folder, "0", "a/b")
        assert is_file_name(path.removeprefix("."))
        assert not is_file_name(path)
        assert upload_folder(path) == f"{folder}/0"
    assert upload_folder(uploads_folder("small", "a", "b")) == upload_folder("runs/a/b/c/d/e") == ""


@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        ({"checksum": sha256(b"other")}, 422, "what was sent has checksum"),
        ({"checksum": "adler32:00000001"}, 422, "what was sent has checksum"),
        ({"checksum": ""}, 422, "is empty"),
        ({"checksum": "sha256:0"}, 422, "checksum"),
        ({"storage": "nowhere"}, 404, "known are north-disk, south-disk"),
        ({"storage": ""}, 409, "name the storage of the upload: north-disk, south-disk"),
    ],
)
def test_nothing_stays_of_a_refused_upload(
    alice: TestClient, root: Path, query: dict[str, Any], status: int, text: str
) -> None:
    answer = put(alice, **query)
    assert (answer.status_code, text in answer.text) == (status, True), answer.text
    wait_for(lambda: is_empty(root), "nothing is left")
    assert alice.get("/files").json()["files"] == []


def test_a_name_with_other_bytes_is_refused_or_replaced(
    house: House, alice: TestClient, root: Path, submit: Submit
) -> None:
    put(alice)
    refused = put(alice, content=b"new")
    assert (refused.status_code, "pilotage files forget atlas:runs/7/f" in refused.text) == (409, True)
    assert read(alice) == CONTENT
    assert put(alice, content=b"new", replace=True).json()["new"] is True
    assert read(alice) == b"new"
    clean(house)
    wait_for(lambda: len(stored(root)) == 1, "the former bytes go")
    task = submit(inputs=[{"glob": "runs/7/*"}])
    house.activate(task)
    wanted = put(alice, content=b"newer", replace=True)
    assert (wanted.status_code, "is read by a task" in wanted.text) == (409, True)
    assert read(alice) == b"new"


def test_a_registered_original_is_never_overwritten(alice: TestClient, root: Path) -> None:
    (root / "f").write_bytes(b"original")
    body = {"files": [{"name": "f", "size": 8, "replicas": ["north-disk"], "checksum": sha256(b"original")}]}
    assert alice.post("/files", json=body).json()["new"] == 1
    assert put(alice, "f", b"original").json()["new"] is False
    assert put(alice, "f", b"mine").status_code == 409
    assert put(alice, "f", b"mine", replace=True).status_code == 200
    assert ((root / "f").read_bytes(), read(alice, "f")) == (b"original", b"mine")


def test_forgotten_uploads_are_deleted(house: House, alice: TestClient, root: Path) -> None:
    put(alice)
    preview = alice.post("/files/forget", json={"file": "runs/7/f", "dry_run": True}).json()
    assert (preview["deleted"], preview["kept"]) == (["north-disk"], [])
    assert alice.post("/files/forget", json={"file": "runs/7/f"}).status_code == 204
    clean(house)
    wait_for(lambda: not any((root / ".uploads").glob("*/*/*/*")), "the upload's folder goes")


def test_of_two_uploads_of_one_name_at_once_one_wins_whole(alice: TestClient, root: Path) -> None:
    contents = [bytes([number]) * 100_000 for number in range(4)] * 2
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda content: put(alice, content=content), contents))
    assert {answer.status_code for answer in answers} <= {200, 409, 503}
    (winner,) = {answer.json()["checksum"] for answer in answers if answer.status_code == 200}
    assert sha256(read(alice)) == winner
    wait_for(lambda: len(stored(root)) == 1, "the bytes of the others go")


def test_a_server_that_ends_during_an_upload_leaves_nothing(
    house: House, alice: TestClient, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The removal is recorded before the first byte; it spares what is registered."""
    put(alice, "kept", b"kept")
    monkeypatch.setattr(house.store.removals, "done", lambda *_: None)
    put(alice, "also-kept", b"also kept")
    monkeypatch.undo()
    monkeypatch.setattr(house.runtime.deliveries, "remove", lambda *_: None)
    monkeypatch.setattr(uploads, "_register", lambda *_: False)
    put(alice, "lost", b"lost")
    monkeypatch.undo()
    assert len(stored(root)) == 3
    house.now += uploads.LEFT_FOR + 1
    clean(house)
    wait_for(lambda: len(stored(root)) == 2, "what is not registered goes")
    assert (read(alice, "kept"), read(alice, "also-kept")) == (b"kept", b"also kept")


def test_quotas_count_the_uploads_of_a_person_and_of_a_vo(
    house: House, alice: TestClient, root: Path
) -> None:
    gigabytes = 1.5 * len(CONTENT) / 1e9
    known = house.store.federation()

    def allow(**quotas: float) -> None:
        house.store.save_federation(replace(known, quotas=QuotaConstants(**quotas)), "test")  # type: ignore[arg-type]

    allow(uploaded_by_user=gigabytes)
    assert put(alice).status_code == 200
    full = put(alice, "more")
    assert (full.status_code, "quotas.uploaded_by_user" in full.text) == (409, True)
    assert put(alice, "user.alice~atlas:more").status_code == 409
    others = [house.as_("user", one) for one in (BOB, OTHER_ALICE)]
    assert [put(other, "more").status_code for other in others] == [200, 200]
    allow(uploaded_by_vo=gigabytes)
    assert "quotas.uploaded_by_vo" in put(alice, "again").text
    assert put(house.as_("user", Identity(name="eve", vo="cms")), "more").status_code == 200
    assert put(house.as_("operator", ALICE), "again").status_code == 200
    alice.post("/files/forget", json={"file": "runs/7/f"})
    allow(uploaded_by_user=gigabytes)
    assert put(alice, "more-again").status_code == 409, "an operator's bytes count in their own folder"


def test_a_full_a_drained_and_a_scratch_storage_are_refused(
    house: House, alice: TestClient, root: Path
) -> None:
    known = house.store.federation()
    north, south = known.storages

    def refusal(**fields: Any) -> str:
        changed = replace(known, storages=(replace(north, **fields), south))
        house.store.save_federation(changed, "test")
        answer = put(alice)
        assert answer.status_code == 409
        return str(answer.text)

    assert "has room for 0.001 GB" in refusal(free=0.001)
    assert "nothing may be written" in refusal(blacklisted=("write_wan",))
    assert "scratch space" in refusal(scratch=True)
    assert put(alice, storage="").json()["storage"] == "south-disk"
    assert is_empty(root)


def test_a_disk_that_is_full_is_an_error_of_the_storage(
    alice: TestClient, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    answer = put(alice)
    assert (answer.status_code, "No space left on device" in answer.text) == (502, True)
    monkeypatch.undo()
    wait_for(lambda: is_empty(root), "nothing is left")
    assert put(alice).json()["new"] is True


def test_a_body_has_an_announced_and_bounded_size(
    house: House, alice: TestClient, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = {"file": "f", "storage": "north-disk", "checksum": sha256(b"ab")}
    endless = alice.put("/files/content", params=query, content=iter([b"a", b"b"]))
    assert endless.status_code == 411
    monkeypatch.setattr(guard, "LARGEST_FILE", 2)
    assert put(alice, content=b"abc").status_code == 413
    with house.runtime.file_readers.place(ALICE.key):
        assert put(alice, content=b"ab").status_code == 200
    places = [house.runtime.file_readers.place(ALICE.key) for _ in range(4)]
    for place in places:
        place.__enter__()
    assert put(alice, "g", b"ab").status_code == 503
    for place in places:
        place.__exit__(None, None, None)


def test_an_upload_is_an_input_with_a_final_description(
    house: House, alice: TestClient, root: Path, submit: Submit
) -> None:
    put(alice)
    task = submit(inputs=[{"glob": "runs/7/*"}])
    house.activate(task)
    (job,) = alice.get(f"/tasks/{task}/jobs", params={"inputs": True}).json()["jobs"]
    assert job["inputs"] == ["runs/7/f"]
    given = {"name": "runs/7/f", "size": 1, "replicas": ["north-disk"]}
    assert alice.post("/files", json={"files": [given]}).status_code == 409, "its description is final"


def test_an_input_that_names_no_storage_is_where_the_catalogue_has_it(
    house: House, alice: TestClient, root: Path
) -> None:
    put(alice, "runs/a[1]", b"one")
    put(alice, "runs/b", b"two")
    rows = [{"name": name, "size": 3, "rows": [at]} for at, name in enumerate(("runs/a[1]", "runs/b"))]
    task = {"name": "t", "command": ["true"], "parameters": [{"n": "0"}, {"n": "1"}], "scouts": 0}
    answer = alice.post("/tasks", json={"tasks": [{**task, "inputs": rows}]}).json()
    assert answer["refused"] == []
    house.split()
    jobs = alice.get(f"/tasks/{answer['tasks'][0]['id']}/jobs", params={"inputs": True}).json()["jobs"]
    assert sorted((job["index"], *job["inputs"]) for job in jobs) == [(0, "runs/a[1]"), (1, "runs/b")]
    for wrong in ({"size": 4}, {"name": "runs/c"}, {"scope": "belle"}):
        refused = alice.post("/tasks", json={"tasks": [{**task, "inputs": [{**rows[1], **wrong}]}]})
        assert "no storage is known to hold" in refused.text or "scope" in refused.text
