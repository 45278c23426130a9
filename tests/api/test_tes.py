"""GA4GH's TES 1.1: each call, its answers by the standard's schema, and refusals by field."""

import base64
from pathlib import Path
from typing import Any

import fsspec
import pytest
from starlette.testclient import TestClient

from pilotage.model.records.states import JobState, TaskState
from pilotage.model.values.identity import Credential
from pilotage.server.api.edge.dependencies import TES_PREFIX
from pilotage.server.api.tes.records import TesExecutor, TesInput, TesOutput, TesResources, TesTask
from pilotage.server.api.tes.states import NEVER, OF_JOBS, TesState, state_of
from pilotage.server.api.tes.submission import DOCUMENT, LABEL, name_of

from .conftest import ALICE, BOB, House, openapi, submit_to
from .tes_schema import LIST_PARAMETERS, RECORDS, ROUTES, STATES, VIEWS, check, check_whole
from .tes_task import BASE, EXECUTOR, submit_tes

WHOLE: dict[str, Any] = {
    "name": "align: sample (1)",
    "description": "two lines\nof text",
    "inputs": [{"name": "i", "path": "/data/in.txt", "content": "héllo"}],
    "outputs": [],
    "resources": {
        "cpu_cores": 2,
        "ram_gb": 1.5,
        "disk_gb": 2,
        "preemptible": True,
        "zones": ["north"],
        "backend_parameters": {"Pilotage_Priority": "600", "VmSize": "huge"},
    },
    "executors": [EXECUTOR | {"env": {"A": "b"}, "workdir": "/data", "ignore_error": True}],
    "volumes": ["/vol"],
    "tags": {"project": "rna", "empty": ""},
}


def ids(client: TestClient, **parameters: Any) -> list[str]:
    answer = client.get(f"{BASE}/tasks", params=parameters)
    assert answer.status_code == 200, answer.text
    check("TaskList", answer.json())
    return [task["id"] for task in answer.json()["tasks"]]


def refused(client: TestClient, **fields: Any) -> dict[str, str]:
    """The messages of a refused task, by field."""
    answer = client.post(f"{BASE}/tasks", json={"executors": [EXECUTOR], **fields})
    assert answer.status_code == 422, answer.text
    return {fault["field"]: fault["message"] for fault in answer.json()["detail"]}


def test_our_routes_parameters_and_fields_are_the_standards() -> None:
    document = openapi()
    routes = {
        (method, path.removeprefix(TES_PREFIX).replace("{task}", "{id}")): operation
        for path, operations in document["paths"].items()
        if path.startswith(TES_PREFIX)
        for method, operation in operations.items()
    }
    assert set(routes) == set(ROUTES)
    assert {one["name"] for one in routes["get", "/tasks"]["parameters"]} == LIST_PARAMETERS
    assert {state.value for state in TesState} == set(STATES)
    for kind, name in (
        (TesExecutor, "Executor"),
        (TesInput, "Input"),
        (TesOutput, "Output"),
        (TesResources, "Resources"),
    ):
        assert set(kind.model_fields) == set(RECORDS[name]["properties"])
    assert set(RECORDS["Task"]["properties"]) - set(TesTask.model_fields) == {
        *("id", "state", "logs", "creation_time")
    }


def test_service_info_names_storages_and_backend_parameters(alice: TestClient) -> None:
    info = alice.get(f"{BASE}/service-info").json()
    check("ServiceInfo", info)
    assert info["type"]["version"] == "1.1.0"
    assert "memory://south" in info["storage"]
    assert "pilotage_walltime" in info["tesResources_backend_parameters"]


def test_clients_of_tes_1_0_have_its_service_info(alice: TestClient) -> None:
    info = alice.get(f"{BASE}/tasks/service-info").json()
    assert set(info) == {"name", "doc", "storage"}
    assert "memory://south" in info["storage"]


def test_a_task_of_tes_is_a_task_of_one_job(house: House, alice: TestClient) -> None:
    number = submit_tes(alice, **WHOLE)
    task = house.store.queries.task(number)
    assert task
    spec = task.spec
    assert (spec.name, spec.planned_jobs, spec.max_attempts) == ("align:_sample__1_", 1, 1)
    assert (spec.cores, spec.memory, spec.work_disk, spec.priority) == (2, 1500, 2000, 600)
    assert (spec.queues, spec.container_name) == (("north-queue",), EXECUTOR["image"])
    assert spec.mounts == {"/data": "root/data", "/vol": "root/vol"}
    assert spec.labels == {"project": "rna", "empty": "", LABEL: "1.1"}
    (job,) = house.activate(number)
    assert house.job(job).task == number


def test_views_have_what_the_standard_says(alice: TestClient) -> None:
    number = submit_tes(alice, **WHOLE)
    minimal, basic, full = (
        alice.get(f"{BASE}/tasks/{number}", params={"view": view}).json() for view in VIEWS
    )
    assert minimal == {"id": str(number), "state": "QUEUED"}
    check_whole(basic)
    check_whole(full)
    assert [item.pop("content") for item in full["inputs"]] == ["héllo"]
    assert full == basic
    sent = {name: value for name, value in WHOLE.items() if name != "inputs"}
    kept = {**WHOLE["resources"], "backend_parameters": {"Pilotage_Priority": "600"}}
    assert {name: full[name] for name in sent if name not in ("resources", "executors")} == {
        name: value for name, value in sent.items() if name not in ("resources", "executors")
    }
    assert {name: full["resources"][name] for name in kept} == kept
    assert full["executors"][0]["env"] == {"A": "b"}
    assert alice.get(f"{BASE}/tasks", params={"view": "FULL"}).json()["tasks"][0]["name"] == WHOLE["name"]


def test_lists_have_pages_and_filters(alice: TestClient) -> None:
    first = submit_tes(alice, name="a: one", tags={"k": "1", "x": "y"})
    second = submit_tes(alice, name="a_ two", tags={"k": "2"})
    submit_to(alice)
    unnamed = submit_tes(alice)
    alice.post(f"{BASE}/tasks/{unnamed}:cancel")
    assert ids(alice, page_size=1) == [str(unnamed)]
    assert ids(alice, name_prefix="tes") == [], "that is our name of a task without one"
    assert alice.post(f"/tasks/{unnamed}/delete").status_code == 200
    for number, expected in ((1, [str(second)]), (2, [str(second), str(first)])):
        assert ids(alice, page_size=number) == expected
    token = alice.get(f"{BASE}/tasks", params={"page_size": 1}).json()["next_page_token"]
    assert ids(alice, page_size=1, page_token=token) == [str(first)]
    assert ids(alice, name_prefix="a: ") == [str(first)]
    assert ids(alice, name_prefix="a") == [str(second), str(first)]
    assert ids(alice, name_prefix="a_") == [str(second)]
    assert ids(alice, tag_key="k") == [str(second), str(first)]
    assert ids(alice, tag_key="k", tag_value="1") == [str(first)]
    assert ids(alice, tag_key=["k", "x"], tag_value=["1", ""]) == [str(first)]
    assert ids(alice, tag_key="not a key") == []
    alice.post(f"{BASE}/tasks/{first}:cancel")
    assert ids(alice, state="CANCELED") == [str(first)]
    assert ids(alice, state="QUEUED") == [str(second)]
    assert ids(alice, state="UNKNOWN") == []


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"page_token": "nonsense"}, "page_token"),
        ({"page_size": 0}, "page_size"),
        ({"page_size": 2048}, "page_size"),
        ({"view": "ALL"}, "view"),
        ({"state": "DONE"}, "state"),
        ({"tag_value": "1"}, "tag_value"),
    ],
)
def test_a_wrong_parameter_is_named(alice: TestClient, parameters: dict[str, Any], field: str) -> None:
    answer = alice.get(f"{BASE}/tasks", params=parameters)
    assert answer.status_code == 422
    assert [fault["field"] for fault in answer.json()["detail"]] == [field]


def test_a_cancelled_task_stays_so(alice: TestClient) -> None:
    number = submit_tes(alice)
    for _ in range(2):
        answer = alice.post(f"{BASE}/tasks/{number}:cancel")
        assert (answer.status_code, answer.json()) == (200, {})
        assert alice.get(f"{BASE}/tasks/{number}").json()["state"] == "CANCELED"


def test_a_repeated_key_makes_no_second_task(house: House, alice: TestClient) -> None:
    tags = {"idempotency_key": "run-7/align"}
    number = submit_tes(alice, name="a", tags=tags)
    assert submit_tes(alice, name="a", tags=tags) == number
    assert submit_tes(house.as_("user", BOB), name="a", tags=tags) != number
    answer = alice.post(f"{BASE}/tasks", json={"executors": [EXECUTOR], "name": "b", "tags": tags})
    assert answer.status_code == 409


def test_only_tasks_of_tes_are_shown_and_only_to_their_owner(house: House, alice: TestClient) -> None:
    ours, other = submit_tes(alice), submit_to(alice)
    forged = submit_to(alice, labels={LABEL: "1.1"}, payload_files={DOCUMENT: '{"task": 1}'})
    bob = house.as_("user", BOB)
    assert ids(bob) == []
    for client, number in ((bob, ours), (alice, other), (alice, forged), (alice, 999)):
        for answer in (
            client.get(f"{BASE}/tasks/{number}"),
            client.post(f"{BASE}/tasks/{number}:cancel"),
        ):
            assert answer.status_code == 404, answer.text
    assert alice.get(f"{BASE}/tasks/abc").status_code == 404
    assert ids(alice, view="BASIC") == [str(ours)]
    assert alice.get(f"/tasks/{other}").json()["state"] != "cancelled"


def test_the_token_may_be_a_password_here_and_nowhere_else(house: House) -> None:
    token = house.store.tokens.create(Credential(role="user", identity=ALICE, expires=None))
    client = house.client()
    for user in ("", "anybody"):
        pair = base64.b64encode(f"{user}:{token}".encode()).decode()
        client.headers = {"Authorization": f"Basic {pair}"}
        assert client.get(f"{BASE}/service-info").status_code == 200
        assert client.post(f"{BASE}/tasks", json={"executors": [EXECUTOR]}).status_code == 200
        assert client.get("/tasks").status_code == 401
    for text in ("nonsense", base64.b64encode(token.encode()).decode(), "ü"):
        client.headers = {"Authorization": f"Basic {text}".encode("latin-1")}
        assert client.get(f"{BASE}/tasks").status_code == 401


def test_a_server_that_does_not_serve_tes_says_how_to_turn_it_on(house: House, alice: TestClient) -> None:
    house.app.state.tes = ""
    try:
        answer = alice.get(f"{BASE}/tasks")
        assert answer.status_code == 404
        assert "PILOTAGE_TES=containers" in answer.json()["detail"]
    finally:
        house.app.state.tes = "containers"


def test_all_faults_of_a_task_are_named_by_field(alice: TestClient) -> None:
    faults = refused(
        alice,
        executors=[
            {"image": "x", "command": ["a"], "stdin": "b"},
            {"image": "y", "command": ["", "\0"], "env": {"1": "2"}, "workdir": "/etc"},
        ],
        inputs=[
            {"path": "/a", "url": "s3://x/y"},
            {"path": "/d/b"},
            {"path": "/d/c", "url": "http://a/../b"},
            {"path": "/d:e/c", "content": "x"},
            {"path": "/d/f", "content": "x", "type": "DIRECTORY"},
            {"path": "/d/g", "url": "pilotage://nothing"},
        ],
        outputs=[
            {"path": "/d/*.txt", "url": "memory://south/x/"},
            {"path": "/d/*.txt", "path_prefix": "/e", "url": "memory://south/x/"},
            {"path": "/d/{index}.txt", "url": "memory://south/x/y"},
        ],
        resources={
            "zones": ["mars"],
            "backend_parameters": {"a": "1", "pilotage_gpus": "x"},
            "backend_parameters_strict": True,
        },
        tags={"a b": "c"},
    )
    begins = {
        "executors.0.stdin": "'b' is not absolute; give",
        "executors.1.image": "differs from executors.0.image, and a job runs in one image; give 'x'",
        "executors.1.command.0": "is empty; give the program",
        "executors.1": "holds a null character",
        "executors.1.env": "'1' is not the name of a variable",
        "executors.1.workdir": "lies in /etc; its mount would hide what programs need; take another",
        "inputs.0.path": "lies in /, which cannot be mounted; take a folder",
        "inputs.0.url": "'s3://x/y' lies below no storage of the federation; storages are at file:///",
        "inputs.1.url": "is missing; give a url, or the text as content",
        "inputs.2.url": "has .. in its path",
        "inputs.3.path": "lies in a folder with a colon",
        "inputs.4.type": "is that of a folder, but content makes a file",
        "inputs.5.url": "is no file of the catalogue; give pilotage://SCOPE/NAME",
        "outputs.0.path": "has wildcards, so path_prefix must",
        "outputs.1.path": "does not lie below path_prefix '/e'",
        "outputs.2.path": "has a placeholder of Pilotage",
        "tags": "'a b' cannot be the key of a tag",
        "resources.backend_parameters.a": "is no key that Pilotage has, and they are strict; known are pil",
        "resources.backend_parameters.pilotage_gpus": "'x' is no number",
        "resources.zones.0": "there is no site or queue 'mars'; sites are north, south",
    }
    assert set(faults) == set(begins)
    assert {name: faults[name][: len(begin)] for name, begin in begins.items()} == begins


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({"executors": []}, "executors", ""),
        ({"inputs": [{"path": "/d/a", "url": "memory://south/none"}]}, "inputs.0.url", "no file matches"),
        (
            {"outputs": [{"path": "/o/a", "url": "memory://south/w/a"}]},
            "outputs.0.url",
            "'w/a' is in no folder of south-disk that your tasks may deliver to; ask an operator to add",
        ),
        (
            {"resources": {"backend_parameters": {"pilotage_share": "none"}}},
            "resources.backend_parameters.pilotage_share",
            "there is no share 'none'",
        ),
        ({"resources": {"cpu_cores": -1}}, "resources.cpu_cores", ""),
        ({"tags": {"a": "two\nlines"}}, "tags", ""),
        ({"inputs": [{"path": "/d/a", "content": "x" * (1 << 21)}]}, "inputs", "have "),
    ],
)
def test_what_a_submission_refuses_is_named_by_the_standards_field(
    alice: TestClient, fields: dict[str, Any], field: str, message: str
) -> None:
    faults = refused(alice, **fields)
    assert list(faults) == [field]
    assert faults[field].startswith(message)


def test_another_file_of_the_same_name_is_not_forgotten(house: House, alice: TestClient) -> None:
    """Two storages have different files at the same path; only one that was replaced is forgotten."""
    memory, name = fsspec.filesystem("memory"), "work/atk.txt"
    memory.pipe(f"/south/{name}", b"south")
    north = Path(house.store.federation().storages[0].url.removeprefix("file://")) / name
    north.parent.mkdir(parents=True)
    north.write_bytes(b"abc")
    known = {"name": name, "size": 3, "replicas": ["north-disk"]}
    operator = house.as_("operator", ALICE)
    assert operator.post("/files", json={"files": [known]}).status_code == 200
    task = {"executors": [EXECUTOR], "inputs": [{"path": "/d/a", "url": f"memory://south/{name}"}]}
    answer = alice.post(f"{BASE}/tasks", json=task)
    assert answer.status_code in (409, 422), answer.text
    entry = house.store.catalogue.entry(f"atlas:{name}")
    assert entry
    north.unlink()
    assert (entry.file.size, [replica.storage for replica in entry.replicas]) == (3, ["north-disk"])
    assert operator.post("/files/forget", json={"file": f"atlas:{name}"}).status_code == 204
    number = submit_tes(alice, inputs=task["inputs"])
    alice.post(f"{BASE}/tasks/{number}:cancel")
    memory.pipe(f"/south/{name}", b"made again")
    submit_tes(alice, inputs=task["inputs"])


def test_every_state_of_a_job_has_one_in_the_table() -> None:
    assert set(OF_JOBS) == set(JobState)
    shown = {state_of(task, "", job, code) for task in TaskState for job in JobState for code in (None, 3)}
    assert shown == set(TesState) - NEVER
    assert state_of(TaskState.FAILED, "", JobState.FAILED, 125) is TesState.SYSTEM_ERROR
    assert state_of(TaskState.FAILED, "", JobState.FAILED, -9) is TesState.SYSTEM_ERROR
    assert state_of(TaskState.RUNNING, "olga", JobState.ACTIVATED, None) is TesState.PAUSED
    assert state_of(TaskState.RUNNING, "olga", JobState.RUNNING, None) is TesState.RUNNING
    assert state_of(TaskState.WAITING, "", None, None) is TesState.QUEUED


@pytest.mark.parametrize("name", ["", "größe", "a" * 300, "-x", "nf-core/rnaseq: STAR (1)"])
def test_a_prefix_of_a_name_is_a_prefix_of_ours(name: str) -> None:
    assert all(name_of(name).startswith(name_of(name[:length])) for length in range(1, len(name)))
