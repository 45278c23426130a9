"""Each change leaves one record: who, by which token, from where, what, and why. No secret is in it."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from fastapi.routing import APIRoute
from starlette.routing import Router
from starlette.testclient import TestClient

from pilotage.flow.outside.secret_keys import FILE, SecretKeys
from pilotage.model.documents.serialization import to_document
from pilotage.model.records.audit import AuditRecord, NewAuditRecord
from pilotage.model.records.states import JobState
from pilotage.model.values.identity import Identity, token_id
from pilotage.server.api.app import ROUTERS
from pilotage.server.api.edge.access import UNKNOWN
from pilotage.server.api.edge.audit_trail import PILOTS, WHY, key_of
from pilotage.server.api.edge.audited_routes import AUDITED, UNCHANGING
from pilotage.server.api.edge.dependencies import PREFIX, TES_PREFIX
from pilotage.server.web import make_pages
from pilotage.store import AuditQuery
from pilotage.store.audit import table
from pilotage.store.audit.audit import Audit
from pilotage.testing.stores import move
from tests.identity_provider import IdentityProvider, serving

from .conftest import ALICE, BOB, House, submit_to
from .tes_task import EXECUTOR, submit_tes
from .test_access import policies
from .test_deletion import ended
from .test_files import entry
from .test_people import transfer
from .test_pilot_agent import OFFER
from .test_sign_in import RSA, Door
from .test_uploads import CONTENT, sha256

OLGA = Identity(name="olga")


def records(house: House, **query: Any) -> list[AuditRecord]:
    return list(house.store.audit.page(AuditQuery(limit=1000, **query)))


def routes_for_people() -> set[str]:
    """The names of the changing routes of the API that people, sites and their programs may call."""
    routes = set()
    for room in ROUTERS:
        for route in room.router.routes:
            assert isinstance(route, APIRoute)
            roles = {role for policy in policies(route.dependant) for role in policy.roles}
            if not roles <= {*PILOTS}:
                routes |= {
                    key_of(method, route.path) for method in (route.methods or set()) - {"GET", "HEAD"}
                }
    return routes


def test_each_changing_route_is_audited_or_named_with_the_reason_why_not(unchanged: House) -> None:
    router = cast(Any, make_pages(unchanged.runtime).serve).args[0]
    assert isinstance(router, Router)
    forms = {
        key_of("POST", cast(Any, route).path) for route in router.routes if "POST" in cast(Any, route).methods
    }
    assert {*AUDITED, *UNCHANGING} == routes_for_people() | forms
    assert not AUDITED.keys() & UNCHANGING.keys()


class Scene:
    """A house with what a route needs, and its people."""

    def __init__(self, house: House, keys: SecretKeys) -> None:
        self.house, self.keys = house, keys
        self.alice, self.olga = house.as_("user", ALICE), house.as_("operator", OLGA)
        self.changes = 0
        """How many changing requests have succeeded."""
        for client in (self.alice, self.olga):
            client.event_hooks = {"response": [self._count]}

    def _count(self, answer: Any) -> None:
        self.changes += answer.request.method != "GET" and answer.status_code < 400

    def token_of(self, client: TestClient) -> str:
        return token_id(client.headers["Authorization"].removeprefix("Bearer "))

    def task(self, **fields: Any) -> int:
        return submit_to(self.alice, jobs=1, scouts=0, **fields)

    def job(self) -> int:
        (job,) = self.house.activate(self.task())
        return job

    def failed_job(self) -> int:
        job, commit = self.job(), self.house.commit
        commit(move("job", [job], JobState.ACTIVATED, JobState.SENT, {}))
        commit(move("job", [job], JobState.SENT, JobState.RUNNING, {"started": self.house.now}))
        commit(move("job", [job], JobState.RUNNING, JobState.FAILED, {"error": "x", "exit_code": 1}))
        return job

    def finished_job(self) -> int:
        task = submit_to(self.alice, jobs=2, scouts=0)
        job, _ = self.house.activate(task)
        self.house.commit(move("job", [job], JobState.ACTIVATED, JobState.SENT, {}))
        self.house.commit(move("job", [job], JobState.SENT, JobState.RUNNING, {"started": self.house.now}))
        self.house.commit(move("job", [job], JobState.RUNNING, JobState.FINISHED, {}))
        return job

    def of_task(self, verb: str, number: int, kind: str = "task", **body: Any) -> Any:
        return self.alice.post(f"/{kind}s/{number}/{verb}", json=body or None)

    def held(self) -> int:
        task = self.task()
        assert self.of_task("hold", task).status_code == 200
        return task

    def workflow(self) -> Any:
        return self.alice.post(
            "/workflows", json={"name": "flow", "tasks": [{"name": "a", "command": ["a"]}]}
        )

    def file(self) -> None:
        assert self.alice.post("/files", json={"files": [entry("runs/1")]}).status_code == 200

    def dataset(self) -> Any:
        self.file()
        return self.alice.post("/datasets", json={"dataset": "runs", "files": ["runs/1"]})

    def drained(self) -> Any:
        return self.olga.put("/restrictions/storage/north-disk", json={"mode": "drain", "because": "old"})

    def token(self) -> str:
        assert self.olga.post("/tokens", json={"name": "bob", "vo": "atlas"}).status_code == 201
        return self.house.store.tokens.people()[0].id


GRANT = {"kind": "task", "person": "bob"}
SECRET = {"name": "TOKEN", "value": "sesame"}


def _ended(scene: Scene, task: int) -> int:
    return ended(scene.house, task)


def _deleted_workflow(scene: Scene) -> Any:
    answer = scene.workflow().json()
    ended(scene.house, answer["tasks"][0]["id"])
    return scene.alice.post(f"/workflows/{answer['id']}/delete", json={})


def _granted(scene: Scene, path: str = "/grants", twice: bool = False) -> Any:
    body = {**GRANT, "record": str(scene.task())}
    if twice:
        assert scene.alice.post("/grants", json=body).status_code == 200
    return scene.alice.post(path, json=body)


def _rolled_back(scene: Scene) -> Any:
    _loaded(scene)
    return scene.olga.post("/federation/rollback", json={"version": 1})


def _loaded(scene: Scene) -> Any:
    document = to_document(scene.house.store.declared_federation()) | {"container_sources": {"added": ["/x"]}}
    return scene.olga.put("/federation", json=document, params={"note": "more sources"})


def _prioritized(scene: Scene) -> Any:
    transfer(scene.house)
    (queued,) = scene.olga.get("/transfers").json()["transfers"]
    return scene.olga.post(
        "/transfers/priorities", json={"priorities": [{"id": queued["id"], "priority": 90}]}
    )


def _kept(scene: Scene) -> Any:
    scene.house.runtime.secret_keys = scene.keys
    return scene.alice.post("/secrets", json=SECRET)


def _lifted(scene: Scene) -> Any:
    return scene.olga.post("/breakers/lift", json={"name": "north-disk"})


def _with_secret(scene: Scene) -> Any:
    assert _kept(scene).status_code == 201
    return scene.alice.delete("/secrets/TOKEN")


def _moved(scene: Scene) -> Any:
    scene.file()
    scene.drained()
    return scene.olga.post("/storages/north-disk/move", json={"to": "south-disk"})


def _forgotten(scene: Scene) -> Any:
    scene.file()
    return scene.alice.post("/files/forget", json={"file": "runs/1"})


def _forgotten_dataset(scene: Scene) -> Any:
    scene.dataset()
    return scene.alice.post("/datasets/forget", json={"dataset": "runs"})


def _uploaded(scene: Scene) -> Any:
    query = {"file": "runs/7/f", "storage": "north-disk", "checksum": sha256(CONTENT)}
    return scene.alice.put("/files/content", params=query, content=CONTENT)


def _of_tes(scene: Scene, path: str, body: Any = None) -> Any:
    return scene.alice.post(f"http://testserver{TES_PREFIX}{path}", json=body)


def _tes_cancelled(scene: Scene) -> Any:
    return _of_tes(scene, f"/tasks/{submit_tes(scene.alice)}:cancel")


def _opened(scene: Scene) -> Any:
    scene.drained()
    return scene.olga.delete("/restrictions/storage/north-disk")


def _limited(scene: Scene) -> Any:
    quota = {"kind": "person", "name": "alice", "vo": "atlas", "jobs": 5, "because": "a test"}
    return scene.olga.put("/quotas", json=quota)


def _unlimited(scene: Scene) -> Any:
    assert _limited(scene).status_code == 200
    holder = {"kind": "person", "name": "alice", "vo": "atlas", "because": "enough"}
    return scene.olga.post("/quotas/lift", json=holder)


def _posted(path: str, body: Any, by: str = "alice") -> Callable[[Scene], Any]:
    return lambda scene: getattr(scene, by).post(path, json=body)


SCENES: dict[str, Callable[[Scene], Any]] = {
    "POST /tasks": _posted("/tasks", {"tasks": [{"name": "work", "command": ["true"]}]}),
    "POST /workflows": Scene.workflow,
    "POST /tasks/{task}/retry": lambda scene: scene.of_task(
        "retry", scene.house.job(scene.failed_job()).task, changes={"ram": 900}
    ),
    "POST /jobs/{job}/retry": lambda scene: scene.of_task("retry", scene.failed_job(), "job"),
    "POST /tasks/{task}/set": lambda scene: scene.of_task("set", scene.task(), changes={"ram": 900}),
    "POST /jobs/{job}/set": lambda scene: scene.of_task("set", scene.job(), "job", changes={"ram": 900}),
    "POST /tasks/{task}/hold": lambda scene: scene.of_task("hold", scene.task()),
    "POST /tasks/{task}/release": lambda scene: scene.of_task("release", scene.held()),
    "POST /tasks/{task}/finish": lambda scene: scene.of_task(
        "finish", scene.house.job(scene.finished_job()).task
    ),
    "POST /tasks/{task}/cancel": lambda scene: scene.of_task("cancel", scene.task()),
    "POST /jobs/{job}/cancel": lambda scene: scene.of_task("cancel", scene.job(), "job"),
    "POST /tasks/{task}/publish": lambda scene: scene.of_task("publish", scene.task()),
    "POST /tasks/{task}/delete": lambda scene: scene.of_task(
        "delete", _ended(scene, scene.task()), outputs=True
    ),
    "POST /workflows/{workflow}/delete": _deleted_workflow,
    "POST /grants": _granted,
    "POST /grants/revoke": partial(_granted, path="/grants/revoke", twice=True),
    "POST /queues/{queue}/test": _posted("/queues/north-queue/test", None, "olga"),
    "DELETE /sites/{site}/ad": lambda scene: scene.olga.delete("/sites/north/ad"),
    "POST /transfers/priorities": _prioritized,
    "POST /storages/{storage}/move": _moved,
    "POST /breakers/lift": _lifted,
    "POST /files": _posted("/files", {"files": [entry("a")]}),
    "PUT /files/content": _uploaded,
    "POST /files/scan": _posted("/files/scan", {"storage": "north-disk", "match": "*.dat"}),
    "POST /files/forget": _forgotten,
    "POST /datasets": Scene.dataset,
    "POST /datasets/forget": _forgotten_dataset,
    "PUT /federation": _loaded,
    "POST /federation/rollback": _rolled_back,
    "PUT /restrictions/{kind}/{name}": Scene.drained,
    "DELETE /restrictions/{kind}/{name}": _opened,
    "POST /tokens": _posted("/tokens", {"name": "bob", "role": "operator"}, "olga"),
    "DELETE /tokens/{token}": lambda scene: scene.olga.delete(f"/tokens/{scene.token()}"),
    "POST /tokens/{token}/rotate": lambda scene: scene.olga.post(
        f"/tokens/{scene.token()}/rotate", json={"overlap": 60}
    ),
    "POST /secrets": _kept,
    "DELETE /secrets/{name}": _with_secret,
    "PUT /notifications/settings": lambda scene: scene.alice.put(
        "/notifications/settings", json={"notify": [{"url": "https://a.example/hook?key=sesame"}]}
    ),
    "POST /notifications/secret": _posted("/notifications/secret", None),
    "POST /notifications/test": _posted(
        "/notifications/test", {"notify": [{"url": "https://a.example/hook?key=sesame"}]}
    ),
    "PUT /quotas": _limited,
    "POST /quotas/lift": _unlimited,
    "POST /people/close": lambda scene: (
        scene.task() and scene.olga.post("/people/close", json={"name": "alice", "because": "left"})
    ),
    f"POST {TES_PREFIX}/tasks": lambda scene: _of_tes(scene, "/tasks", {"executors": [EXECUTOR]}),
    f"POST {TES_PREFIX}/tasks/{{task}}:cancel": _tes_cancelled,
}
"""For each audited route of the API, what it needs, and a call of it that succeeds."""


def test_each_audited_route_of_the_api_has_a_scene() -> None:
    assert SCENES.keys() == AUDITED.keys() & routes_for_people()


@pytest.fixture
def scene(house: House, tmp_path: Path) -> Scene:
    return Scene(house, SecretKeys(tmp_path / FILE))


BESIDE = {
    "POST /breakers/lift",
    "POST /files/scan",
    "POST /tasks/{task}/publish",
}
"""Routes whose scene changes nothing in the store, so that the record is not part of a change."""


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    with serving(IdentityProvider(keys=[RSA])) as served:
        yield served


@pytest.mark.parametrize("key", sorted(SCENES))
def test_each_change_leaves_exactly_one_record(
    scene: Scene, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside: list[NewAuditRecord] = []
    add = Audit.add

    def watched(audit: Audit, *new: NewAuditRecord) -> None:
        beside.extend(new)
        add(audit, *new)

    monkeypatch.setattr(Audit, "add", watched)
    answer = SCENES[key](scene)
    assert answer.status_code < 400, answer.text
    assert answer.request.url.path.count("/") == key.count("/") + 2 * (TES_PREFIX not in key)
    made = records(scene.house)
    assert len(made) == scene.changes, made
    (record, *_) = made
    assert record.verb
    assert not {"sesame", "scratch"} & {*re.findall(r"\w+", repr(record))}
    client = scene.olga if record.person == "olga" else scene.alice
    assert (record.token, record.address) == (scene.token_of(client), "testclient")
    assert (key in BESIDE) == bool(beside), beside


def test_a_record_has_who_what_why_and_the_state_before_and_after(scene: Scene) -> None:
    task = scene.task()
    scene.alice.post(f"/tasks/{task}/cancel", headers={WHY: "wrong%20input%0A"})
    (record, submission) = records(scene.house)
    assert (submission.verb, submission.record, submission.after) == (
        "submit",
        f"task {task}",
        {"new tasks": 1},
    )
    assert (record.verb, record.record, record.why) == ("cancel", f"task {task}", "wrong input")
    assert (record.role, record.person, record.vo) == ("user", "alice", "atlas")
    assert (record.owner, record.owner_vo) == ("alice", "atlas")
    assert record.before[f"task {task}"] == "registered"
    assert record.after[f"task {task}"] == "cancelled"


def test_changed_fields_and_reasons_are_shown(scene: Scene) -> None:
    task = scene.task(ram=700)
    scene.of_task("set", task, changes={"ram": 900})
    scene.drained()
    scene.olga.delete("/restrictions/storage/north-disk")
    (opened, drained, changed, _) = records(scene.house)
    assert (changed.before["ram"], changed.after["ram"]) == (700, 900)
    assert (drained.verb, drained.record, drained.why) == ("drain", "storage north-disk", "old")
    assert (opened.verb, opened.record) == ("open", "storage north-disk")
    assert "drain" in str(opened.before["restriction"])


def test_dry_runs_questions_and_refused_requests_leave_no_record(scene: Scene) -> None:
    task = scene.task()
    made = records(scene.house)
    stranger = scene.house.as_("user", BOB)
    for client, path, body in (
        (scene.alice, f"/tasks/{task}/delete", {"dry_run": True}),
        (scene.alice, f"/tasks/{task}/set", {"changes": {"ram": 900}, "dry_run": True}),
        (scene.alice, f"/tasks/{task}/set", {"changes": {"ram": -1}}),
        (scene.alice, f"/tasks/{task}/delete", {}),
        (scene.alice, f"/tasks/{task}/what-if", {"task": {"ram": 1}}),
        (scene.alice, f"/tasks/{task}/renew", {"lease": 86400}),
        (scene.alice, "/tasks", {"tasks": [{"name": "work", "ram": -1}]}),
        (scene.alice, "/tokens", {"name": "mallory", "role": "operator"}),
        (stranger, f"/tasks/{task}/cancel", None),
        (scene.house.client(), f"/tasks/{task}/cancel", None),
    ):
        client.post(path, json=body)
    assert scene.olga.delete("/tokens/3f1c09aa7be2").status_code == 404
    assert scene.alice.delete("/secrets/NONE").status_code == 404
    assert records(scene.house) == made


def test_calls_of_pilots_leave_no_record(scene: Scene) -> None:
    job = scene.job()
    made = records(scene.house)
    _, pilot = scene.house.pilot()
    assert len(pilot.post("/pilot/match", json=OFFER).json()["works"]) == 1
    assert pilot.post("/pilot/report", json={"holding": [[job, 1]]}).status_code == 200
    assert pilot.post("/pilot/end", json={"reason": "idle"}).status_code == 204
    assert records(scene.house) == made


def test_without_its_record_nothing_is_changed(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    task = scene.task()
    monkeypatch.setattr(table, "write", full)
    for path in (f"/tasks/{task}/cancel", f"/tasks/{task}/publish"):
        assert scene.alice.post(path).status_code == 500
    details = scene.house.store.queries.task(task)
    assert details
    assert details.state == "registered"
    assert scene.olga.post("/tokens", json={"name": "bob"}).status_code == 500
    assert [token.name for token in scene.house.store.tokens.people()].count("bob") == 0


def test_an_operator_s_reads_of_others_are_recorded_once_an_hour(scene: Scene) -> None:
    task = scene.task()
    for _ in range(3):
        assert scene.olga.get(f"/tasks/{task}").status_code == 200
        assert scene.olga.get("/tasks").status_code == 200
        assert scene.alice.get(f"/tasks/{task}").status_code == 200
        assert scene.olga.get("/queues").status_code == 200
    reads = records(scene.house, verb="read")
    assert {(one.person, one.record, one.owner, one.after["path"]) for one in reads} == {
        ("olga", f"task {task}", "alice", f"{PREFIX}/tasks/{task}"),
        ("olga", "", "", f"{PREFIX}/tasks"),
    }
    assert len(reads) == 2
    own = submit_to(scene.olga)
    scene.olga.get(f"/tasks/{own}")
    assert len(records(scene.house, verb="read")) == 2


def test_an_operator_s_reads_of_files_and_datasets_name_them(scene: Scene) -> None:
    scene.dataset()
    for client in (scene.olga, scene.alice, scene.olga):
        for query in ({"file": "atlas:runs/1"}, {"file": "atlas:runs/2"}):
            client.get("/files/describe", params=query)
        assert client.get("/datasets/versions", params={"dataset": "atlas:runs"}).status_code == 200
    reads = records(scene.house, verb="read")
    assert [(record.person, record.record) for record in reads] == [
        ("olga", "dataset atlas:runs"),
        ("olga", "file atlas:runs/1"),
    ]


def test_people_see_their_own_and_nobody_changes_any(scene: Scene) -> None:
    task = scene.task()
    scene.olga.post(f"/tasks/{task}/hold")
    submit_to(scene.house.as_("user", BOB))
    listed = scene.alice.get("/audit").json()
    assert [(one["person"], one["verb"]) for one in listed["records"]] == [
        ("olga", "hold"),
        ("alice", "submit"),
    ]
    assert len(scene.olga.get("/audit").json()["records"]) == 3
    (found,) = scene.olga.get("/audit", params={"verb": "hold", "record": f"task {task}"}).json()["records"]
    assert found["person"] == "olga"
    page = scene.olga.get("/audit", params={"limit": 1, "oldest_first": True}).json()
    assert page["next"] == str(page["records"][0]["id"])
    assert scene.olga.get("/audit", params={"since": 2, "until": 1}).status_code == 422
    assert scene.alice.get("/audit/check").status_code == 403
    scene.house.store.audit.link()
    assert scene.olga.get("/audit/check").json()["records"] == 3
    of_audit = [
        route for room in ROUTERS for route in room.router.routes if "/audit" in cast(Any, route).path
    ]
    assert {method for route in of_audit for method in cast(Any, route).methods} == {"GET"}


def test_refused_tokens_are_counted_with_their_reason(scene: Scene) -> None:
    stranger = scene.house.client("sesame-sesame-sesame")
    for _ in range(5):
        assert stranger.get("/tasks").status_code == 401
    assert scene.house.client().get("/tasks").status_code == 401
    scene.house.store.add_measurements()
    (record,) = records(scene.house)
    assert (record.verb, record.address, record.times, record.why) == (
        "sign-in refused",
        "testclient",
        5,
        UNKNOWN,
    )
    assert "sesame" not in repr(record)


def test_the_first_use_of_a_provider_s_token_is_a_sign_in(scene: Scene, provider: IdentityProvider) -> None:
    door = Door(scene.house, provider)
    token = door.token()
    for _ in range(3):
        assert scene.house.client(token).get("/queues").status_code == 200
    submit_to(scene.house.client(token))
    (submission, sign_in) = records(scene.house)
    assert (sign_in.verb, sign_in.person, sign_in.vo) == ("sign in", "ada", "atlas")
    assert (sign_in.token, sign_in.after) == (token_id(token), {"issuer": provider.url})
    assert (submission.verb, submission.token) == ("submit", token_id(token))
    assert scene.house.client(door.token(aud="other")).get("/queues").status_code == 401
    scene.house.store.add_measurements()
    (refused,) = records(scene.house, verb="sign-in refused")
    assert "audience" in refused.why
    assert not {*token.split(".")} & {*re.findall(r"[\w-]+", repr(records(scene.house)))}


def test_nobody_hides_a_change_behind_words_of_a_question(scene: Scene) -> None:
    """A query that the route does not have, or another type of body, changes nothing of the record."""
    task = scene.task()
    query = {"dry_run": "true", "name": "other", "because": "x"}
    assert scene.alice.post(f"/tasks/{task}/cancel", params=query).status_code == 200
    assert scene.olga.post("/tokens", params=query, json={"name": "bob"}).status_code == 201
    large = {"name": "TOKEN", "value": "x" * 100_000}
    scene.house.runtime.secret_keys = scene.keys
    assert scene.alice.post("/secrets", params=query, json=large).status_code in (201, 413, 422)
    (token, cancel) = [record for record in records(scene.house) if record.verb in ("cancel", "make token")]
    assert (cancel.record, cancel.why) == (f"task {task}", "")
    assert (token.record, token.why) == ("person bob", "")


def test_what_could_not_be_recorded_is_recorded_when_the_request_comes_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = scene.task()
    with monkeypatch.context() as patched:
        patched.setattr(table, "write", full)
        assert scene.olga.get(f"/tasks/{task}").status_code == 500
    assert scene.olga.get(f"/tasks/{task}").status_code == 200
    assert [record.person for record in records(scene.house, verb="read")] == ["olga"]


def full(*_: Any) -> None:
    raise OSError("no space left")
