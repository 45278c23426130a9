"""Every route has a policy, and the policy holds: no token, another role, somebody else's token."""

import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.testclient import TestClient

from pilotage.model.records.states import JobState
from pilotage.model.values.durations import KNOWN_FOR
from pilotage.model.values.identity import Credential, Identity, Role
from pilotage.server.api import PREFIX
from pilotage.server.api.app import ROUTERS
from pilotage.server.api.edge.access import UNKNOWN, RoleCheck
from pilotage.server.api.edge.dependencies import TES_PREFIX
from pilotage.store import TaskPage

from .conftest import ALICE, BOB, OTHER_ALICE, House, Submit, copied, submit_to
from .tes_task import EXECUTOR, submit_tes
from .test_usage import run

Route = tuple[str, str]

OPEN = {("GET", "/sign-in"), ("GET", "/health"), ("GET", "/health/live"), ("GET", "/health/ready")}
OPERATORS = {
    ("PUT", "/federation"),
    ("GET", "/federation/history"),
    ("POST", "/federation/rollback"),
    ("GET", "/world"),
    ("GET", "/servers"),
    ("GET", "/stuck"),
    ("GET", "/worlds"),
    ("GET", "/attempts"),
    ("GET", "/audit/check"),
    ("GET", "/simulation"),
    ("POST", "/people/close"),
    ("POST", "/storages/{storage}/move"),
    ("GET", "/transfers"),
    ("GET", "/transfers/progress"),
    ("POST", "/tokens"),
    ("GET", "/tokens"),
    ("DELETE", "/tokens/{token}"),
    ("POST", "/tokens/{token}/rotate"),
}
SITE_ADMINS = {
    ("POST", "/breakers/lift"),
    ("PUT", "/restrictions/{kind}/{name}"),
    ("DELETE", "/restrictions/{kind}/{name}"),
    ("GET", "/pilots"),
    ("GET", "/pilots/{pilot}"),
    ("GET", "/pilots/{pilot}/explain"),
    ("GET", "/pilots/{pilot}/logs"),
    ("POST", "/queues/{queue}/test"),
    ("DELETE", "/sites/{site}/ad"),
}
MANAGERS = {("PUT", "/quotas"), ("POST", "/quotas/lift"), ("POST", "/transfers/priorities")}
SITES = {("PUT", "/sites/{site}/ad")}
PILOTS = {
    ("POST", "/pilot/match"),
    ("POST", "/pilot/report"),
    ("POST", "/pilot/end"),
    ("POST", "/pilot/left"),
    ("POST", "/pilot/left/{job}/{attempt}"),
    ("GET", "/pilot/payload/{task}"),
    ("GET", "/pilot/specification/{job}"),
    ("POST", "/pilot/access"),
    ("GET", "/pilot/content/{job}/{attempt}"),
    ("PUT", "/pilot/content/{job}/{attempt}"),
}
ENROLMENT = {("POST", "/pilot/enrol")}
EVERYBODY = {
    ("GET", "/whoami"),
    ("GET", "/notifications"),
    ("GET", "/notifications/settings"),
    ("PUT", "/notifications/settings"),
    ("POST", "/notifications/secret"),
    ("POST", "/notifications/test"),
    ("GET", "/secrets"),
    ("POST", "/secrets"),
    ("DELETE", "/secrets/{name}"),
    ("POST", "/tasks"),
    ("POST", "/plan/broker"),
    ("GET", "/tasks"),
    ("GET", "/events"),
    ("POST", "/workflows"),
    ("GET", "/workflows"),
    ("GET", "/quotas"),
    ("GET", "/grants"),
    ("POST", "/grants"),
    ("POST", "/grants/revoke"),
    ("GET", "/queues"),
    ("GET", "/pilots/waits"),
    ("GET", "/queues/{queue}/explain"),
    ("GET", "/shares"),
    ("GET", "/shares/history"),
    ("GET", "/failures"),
    ("GET", "/usage"),
    ("GET", "/audit"),
    ("GET", "/storages"),
    ("GET", "/breakers"),
    ("GET", "/sites"),
    ("GET", "/sites/{site}/ad"),
    ("GET", "/federation"),
    ("GET", "/restrictions"),
    ("GET", "/datasets"),
    ("POST", "/datasets"),
    ("GET", "/datasets/files"),
    ("POST", "/datasets/forget"),
    ("GET", "/datasets/versions"),
    ("GET", "/files"),
    ("POST", "/files"),
    ("GET", "/files/content"),
    ("PUT", "/files/content"),
    ("GET", "/files/describe"),
    ("POST", "/files/forget"),
    ("POST", "/files/scan"),
    ("POST", "/files/compare"),
    ("GET", "/transfers/{transfer}/explain"),
}
OWNERS = {
    ("GET", "/tasks/{task}"),
    ("POST", "/tasks/{task}/cancel"),
    ("POST", "/tasks/{task}/delete"),
    ("POST", "/tasks/{task}/retry"),
    ("POST", "/tasks/{task}/set"),
    ("POST", "/jobs/{job}/set"),
    ("POST", "/tasks/{task}/hold"),
    ("POST", "/tasks/{task}/release"),
    ("POST", "/tasks/{task}/finish"),
    ("POST", "/tasks/{task}/publish"),
    ("POST", "/tasks/{task}/renew"),
    ("GET", "/tasks/{task}/jobs"),
    ("GET", "/tasks/{task}/failures"),
    ("GET", "/tasks/{task}/queues"),
    ("GET", "/tasks/{task}/logs"),
    ("GET", "/tasks/{task}/outputs"),
    ("GET", "/tasks/{task}/outputs/archive"),
    ("GET", "/tasks/{task}/manifest"),
    ("GET", "/tasks/{task}/explain"),
    ("GET", "/tasks/{task}/queues/{queue}/explain"),
    ("GET", "/tasks/{task}/sites"),
    ("GET", "/jobs/{job}"),
    ("POST", "/jobs/{job}/retry"),
    ("POST", "/jobs/{job}/cancel"),
    ("GET", "/jobs/{job}/explain"),
    ("GET", "/jobs/{job}/logs"),
    ("POST", "/tasks/{task}/what-if"),
    ("POST", "/jobs/{job}/what-if"),
}
TES = {
    ("GET", f"{TES_PREFIX}/service-info"),
    ("GET", f"{TES_PREFIX}/tasks/service-info"),
    ("GET", f"{TES_PREFIX}/tasks"),
    ("POST", f"{TES_PREFIX}/tasks"),
}
UNDOCUMENTED = {("GET", f"{TES_PREFIX}/tasks/service-info")}
"""Clients of TES 1.0 ask for it; the document shows TES 1.1 alone."""
OWNERS_OF_TES_TASKS = {
    ("GET", f"{TES_PREFIX}/tasks/{{task}}"),
    ("POST", f"{TES_PREFIX}/tasks/{{task}}:cancel"),
}
OWNERS_OF_WORKFLOWS = {
    ("GET", "/workflows/{workflow}"),
    ("GET", "/workflows/{workflow}/explain"),
    ("POST", "/workflows/{workflow}/delete"),
}
"""Their tests are beside those of workflows."""
VERBS = {
    *(("POST", f"/tasks/{{task}}/{verb}") for verb in ("retry", "hold", "release", "finish", "delete")),
    *(("POST", f"/jobs/{{job}}/{verb}") for verb in ("retry", "cancel")),
}
FOR_AGENTS = {("GET", "/pilot/agent.pyz")}
CLOSED = sorted(
    OPERATORS
    | SITE_ADMINS
    | MANAGERS
    | SITES
    | PILOTS
    | EVERYBODY
    | OWNERS
    | OWNERS_OF_WORKFLOWS
    | FOR_AGENTS
    | ENROLMENT
    | TES
    | OWNERS_OF_TES_TASKS
)
BODIES: dict[Route, Any] = {
    ("POST", "/tasks"): {"tasks": [{"name": "work"}]},
    ("POST", f"{TES_PREFIX}/tasks"): {"executors": [EXECUTOR]},
    ("POST", "/plan/broker"): {"tasks": [{"name": "work"}]},
    ("POST", "/workflows"): {"name": "flow", "tasks": [{"name": "work"}]},
    ("POST", "/tasks/{task}/what-if"): {"task": {"ram": 1}, "queues": {"north-queue": {"cores": 2}}},
    ("POST", "/jobs/{job}/what-if"): {"task": {"memory": 1}},
    ("POST", "/tasks/{task}/set"): {"changes": {"ram": 1}},
    ("POST", "/jobs/{job}/set"): {"changes": {"ram": 1}},
    ("POST", "/tasks/{task}/renew"): {"lease": 86400},
    ("POST", "/grants"): {"kind": "task", "record": "1", "person": "bob"},
    ("POST", "/grants/revoke"): {"kind": "task", "record": "1", "person": "bob"},
    ("POST", "/secrets"): {"name": "TOKEN", "value": "a word"},
    ("POST", "/tokens"): {"name": "mallory", "role": "operator"},
    ("POST", "/tokens/{token}/rotate"): {},
    ("POST", "/storages/{storage}/move"): {"to": "south-disk"},
    ("PUT", "/quotas"): {"kind": "person", "name": "mallory", "jobs": 1, "because": "a test"},
    ("POST", "/quotas/lift"): {"kind": "person", "name": "mallory", "because": "a test"},
    ("POST", "/people/close"): {"name": "mallory", "because": "left"},
    ("POST", "/files"): {"files": [{"name": "a", "size": 1, "storages": ["north-disk"]}]},
    ("POST", "/datasets"): {"dataset": "runs", "files": ["a"]},
    ("POST", "/datasets/forget"): {"dataset": "runs"},
    ("POST", "/files/compare"): {"files": [{"name": "a.dat", "size": 1}]},
    ("POST", "/files/scan"): {"storage": "north-disk", "match": "*.dat"},
    ("POST", "/files/forget"): {"file": "a"},
    ("POST", "/transfers/priorities"): {"priorities": [{"id": 1, "priority": 100}]},
    ("PUT", "/federation"): {},
    ("PUT", "/sites/{site}/ad"): {"ad": "[]"},
    ("POST", "/pilot/enrol"): {"nonce": "n" * 32},
    ("POST", "/pilot/match"): {"cores": 1, "memory": 1000, "walltime": 1000, "max_jobs": 1},
    ("POST", "/pilot/report"): {"holding": [], "reports": []},
    ("POST", "/pilot/end"): {"reason": "idle"},
    ("POST", "/pilot/left"): {"place": "a/left/b/1.1", "days": 1, "seal": "a" * 64, "manifest": "{}"},
    ("POST", "/pilot/access"): {"job": 1, "attempt": 1, "name": "a"},
}
PEOPLE: frozenset[Role] = frozenset(("user", "manager", "site-admin", "operator"))
"""Those who may change something; monitors only read."""
ROLES: tuple[Role, ...] = get_args(Role)
BOUND = ("pilot", "enrolment", "enrolled")


def roles_of(route: Route) -> frozenset[Role]:
    roles = _roles_of(route)
    return roles | {"monitor"} if "operator" in roles and only_reads(route) else roles


def only_reads(route: Route) -> bool:
    return route[0] == "GET" or route[1].endswith(("/what-if", "/plan/broker", "/files/compare"))


def _roles_of(route: Route) -> frozenset[Role]:
    return next((roles for routes, roles in OTHER_ROLES if route in routes), PEOPLE)


OTHER_ROLES: tuple[tuple[Collection[Route], frozenset[Role]], ...] = (
    (FOR_AGENTS, PEOPLE | {"pilot", "enrolment"}),
    (ENROLMENT, frozenset(("enrolment", "enrolled"))),
    (PILOTS, frozenset(("pilot",))),
    (SITES, frozenset(("site", "site-admin", "operator"))),
    (SITE_ADMINS, frozenset(("site-admin", "operator"))),
    (MANAGERS, frozenset(("manager", "operator"))),
    (OPERATORS, frozenset(("operator",))),
)


def call(client: Any, route: Route, number: int = 1) -> Any:
    method, path = route
    path = f"http://testserver{path}" if path.startswith(TES_PREFIX) else path
    numbers = dict.fromkeys(("task", "job", "token", "pilot", "transfer", "attempt", "workflow"), number)
    return client.request(
        method,
        path.format(
            **numbers, queue="north-queue", site="north", storage="north-disk", kind="queue", name="TOKEN"
        ),
        json=BODIES.get(route),
    )


def policies(dependant: Dependant) -> list[RoleCheck]:
    own = [dependant.call] if isinstance(dependant.call, RoleCheck) else []
    return own + [policy for inner in dependant.dependencies for policy in policies(inner)]


def test_every_route_has_a_policy_and_is_tested_here() -> None:
    found: dict[Route, set[frozenset[Role]]] = {}
    for room in ROUTERS:
        for route in room.router.routes:
            assert isinstance(route, APIRoute)
            for method in route.methods or ():
                found[method, route.path.removeprefix(PREFIX)] = {
                    policy.roles_at(method, route.path) for policy in policies(route.dependant)
                }
    assert found == {route: {roles_of(route)} for route in CLOSED}


@pytest.mark.parametrize("route", CLOSED)
def test_without_a_token_that_is_known_nothing_is_told(unchanged: House, route: Route) -> None:
    client = unchanged.client()
    for header in (None, "Bearer nonsense", "Basic YTpi", "Bearer"):
        client.headers = {"Authorization": header} if header else {}
        answer = call(client, route)
        assert answer.status_code == 401, header
        assert answer.headers["WWW-Authenticate"] == "Bearer", header
        assert answer.json() == {"detail": UNKNOWN}, header


@pytest.fixture(scope="module")
def clients(unchanged: House) -> dict[Role, TestClient]:
    """A client of each role, whose tokens are Alice's."""
    return {
        role: unchanged.as_(
            role, ALICE, 1 if role in BOUND else None, ["north"] if role == "site-admin" else []
        )
        for role in ROLES
    }


@pytest.mark.parametrize("route", CLOSED)
def test_the_wrong_role_is_refused(clients: dict[Role, TestClient], route: Route) -> None:
    for role in (role for role in ROLES if role not in roles_of(route)):
        answer = call(clients[role], route)
        assert answer.status_code == 403, role
        assert answer.json()["detail"].endswith(f"your token has the role {role}")


@pytest.mark.parametrize("route", sorted(PILOTS))
def test_a_pilots_token_without_a_pilot_reaches_nothing(unchanged: House, route: Route) -> None:
    assert call(unchanged.as_("pilot", ALICE), route).status_code == 403


@pytest.fixture(scope="module")
def alices(template: Path) -> Iterator[tuple[House, int, int]]:
    """A house with a task of Alice's and its job, for tests that change neither."""
    for house in copied(template):
        task = submit_to(house.as_("user", ALICE))
        (job,) = house.activate(task)
        yield house, task, job


@pytest.mark.parametrize("route", sorted(OWNERS))
def test_somebody_elses_is_as_if_it_were_not_there(alices: tuple[House, int, int], route: Route) -> None:
    house, task, job = alices
    number = task if "{task}" in route[1] else job
    strangers = [
        house.as_("user", stranger)
        for stranger in (BOB, OTHER_ALICE, Identity(name="alice"), Identity(name="", vo="atlas"))
    ]
    others = [house.as_("manager", OTHER_ALICE), house.as_("site-admin", BOB, sites=["north", "south"])]
    for at, client in enumerate((*strangers, *others)):
        theirs, nobodys = call(client, route, number), call(client, route, 999)
        assert (theirs.status_code, nobodys.status_code) == (404, 404), at
        assert theirs.json()["detail"].replace(str(number), "999") == nobodys.json()["detail"], at
        assert [kept.state for kept in house.store.task_lists.page(TaskPage(limit=10))] == ["running"], at


@pytest.mark.parametrize("route", sorted(OWNERS_OF_TES_TASKS))
def test_a_task_of_tes_is_its_owners(house: House, route: Route) -> None:
    number = submit_tes(house.as_("user", ALICE))
    for stranger in (BOB, OTHER_ALICE, Identity(name="alice"), Identity(name="", vo="atlas")):
        client = house.as_("user", stranger)
        theirs, nobodys = call(client, route, number), call(client, route, 999)
        assert (theirs.status_code, nobodys.status_code) == (404, 404), stranger
        assert theirs.json()["detail"].replace(str(number), "999") == nobodys.json()["detail"], stranger
    alice, reader = house.as_("user", ALICE), house.as_("user", BOB)
    grant = {"kind": "task", "record": str(number), "person": "bob"}
    assert alice.post("/grants", json=grant).status_code == 200
    assert call(reader, route, number).status_code == (200 if route[0] == "GET" else 403)
    for client in (alice, house.as_("operator", Identity(name="olga"))):
        assert call(client, route, number).status_code == 200


@pytest.mark.parametrize("route", sorted(OWNERS))
def test_the_owner_their_manager_and_an_operator_are_let_in(
    house: House, submit: Submit, route: Route
) -> None:
    task = submit()
    (job,) = house.activate(task)
    number = task if "{task}" in route[1] else job
    same = Identity(name="alice", vo="atlas", group="other")
    people = [
        house.as_("user", same),
        house.as_("manager", MONA),
        house.as_("operator", Identity(name="olga")),
    ]
    for client in (*people, *([house.as_("monitor", Identity(name="mo"))] if only_reads(route) else [])):
        # Verbs let them in, and say what is in the way: nothing has failed yet, or another one came first.
        right = (200, 409) if route in {*VERBS, MANIFEST} else (200,)
        assert call(client, route, number).status_code in right


MONA = Identity(name="mona", vo="atlas")
MANIFEST: Route = ("GET", "/tasks/{task}/manifest")
READING = {route for route in OWNERS | OWNERS_OF_WORKFLOWS if route[0] == "GET" or "what-if" in route[1]}
"""What a grant lets others do: a what-if changes nothing."""
HOLDERS: dict[str, tuple[dict[str, str], Identity]] = {
    "person": ({"person": "bob"}, BOB),
    "group": ({"group": "higgs"}, BOB),
    "other VO": ({"person": "alice", "vo": "belle"}, OTHER_ALICE),
}


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("route", sorted(OWNERS | OWNERS_OF_WORKFLOWS))
def test_whoever_has_a_grant_reads_and_changes_nothing(
    workflows: tuple[House, int, int, int], route: Route, holder: str
) -> None:
    house, workflow, task, job = workflows
    number = workflow if "{workflow}" in route[1] else task if "{task}" in route[1] else job
    reader, identity = HOLDERS[holder]
    alice, client = house.as_("user", ALICE), house.as_("user", identity)
    for grant in ({"kind": "workflow", "record": str(workflow)}, {"kind": "task", "record": str(task)}):
        if "{workflow}" in route[1] and grant["kind"] == "task":
            continue
        assert call(client, route, number).status_code == 404
        assert alice.post("/grants", json={**grant, **reader}).status_code == 200
        answer = call(client, route, number)
        # A reader learns that the task has not ended.
        allowed = 409 if route == MANIFEST else 200
        assert answer.status_code == (allowed if route in READING else 403), answer.text
        assert client.post("/grants", json={**grant, **reader}).status_code == 403, "nor grants it further"
        assert alice.post("/grants/revoke", json={**grant, **reader}).status_code == 200
        assert call(client, route, number).status_code == 404


@pytest.fixture(scope="module")
def workflows(template: Path) -> Iterator[tuple[House, int, int, int]]:
    """A house with a workflow of Alice's, its task and its job, for tests that change neither."""
    for house in copied(template):
        made = house.as_("user", ALICE).post("/workflows", json={"name": "flow", "tasks": [{"name": "work"}]})
        task = made.json()["tasks"][0]["id"]
        (job,) = house.activate(task)
        yield house, made.json()["id"], task, job


@pytest.mark.parametrize("route", sorted(OWNERS_OF_WORKFLOWS))
def test_a_workflow_by_role(workflows: tuple[House, int, int, int], route: Route) -> None:
    house, workflow, _, _ = workflows
    others = [house.as_("manager", OTHER_ALICE), house.as_("site-admin", BOB, sites=["north", "south"])]
    assert [call(client, route, workflow).status_code for client in others] == [404, 404]
    if only_reads(route):
        readers = [house.as_("manager", MONA), house.as_("monitor", Identity(name="mo"))]
        assert [call(client, route, workflow).status_code for client in readers] == [200, 200]


LISTS = {
    "/tasks": "tasks",
    "/workflows": "workflows",
    "/grants": "grants",
    "/notifications": "notifications",
    "/usage?by=person&since=1": "rows",
    "/failures": "failures",
}


@pytest.fixture(scope="module")
def everybodys(template: Path) -> Iterator[tuple[House, list[int]]]:
    """A house where each of three people, two of one VO, has a workflow, a task, a failure and a grant."""
    for house in copied(template):
        tasks = []
        for person in (ALICE, BOB, OTHER_ALICE):
            client = house.as_("user", person)
            flow = {"name": "flow", "tasks": [{"name": "work", "command": ["true"]}]}
            task = client.post("/workflows", json=flow).json()["tasks"][0]["id"]
            run(house, task, 60, JobState.FAILED)
            grant = {"kind": "task", "record": str(task), "person": "carol", "vo": ""}
            assert client.post("/grants", json=grant).status_code == 200
            receivers = {"notify": [{"url": "https://example.org/news"}]}
            assert client.post("/notifications/test", json=receivers).status_code == 202
            tasks.append(task)
        yield house, tasks


@pytest.mark.parametrize("path", LISTS)
def test_a_list_has_what_the_role_sees(everybodys: tuple[House, list[int]], path: str) -> None:
    house, _ = everybodys
    olga = Identity(name="olga")
    sizes = {
        "user": house.as_("user", ALICE),
        "site-admin": house.as_("site-admin", ALICE, sites=["north"]),
        "manager": house.as_("manager", MONA),
        "monitor": house.as_("monitor", olga),
        "operator": house.as_("operator", olga),
        "stranger": house.as_("user", olga),
    }
    lists = {who: client.get(path).json()[LISTS[path]] for who, client in sizes.items()}
    # Failures of several people are one row.
    found = {
        who: sum(row["attempts"] if path == "/failures" else 1 for row in rows) for who, rows in lists.items()
    }
    assert found == {"user": 1, "site-admin": 1, "manager": 2, "monitor": 3, "operator": 3, "stranger": 0}


def test_another_pilot_reaches_nothing_of_a_pilots_jobs(house: House, submit: Submit) -> None:
    """P9."""
    task = submit(payload_files={"secret.txt": "a\nb\n"})
    (job,) = house.activate(task)
    _, mine = house.pilot()
    _, other = house.pilot(owner=BOB)
    match = BODIES["POST", "/pilot/match"]
    assert mine.post("/pilot/match", json=match).json()["works"][0]["jobs"][0]["job"] == job
    assert other.post("/pilot/match", json=match).json()["works"] == []
    assert mine.get(f"/pilot/payload/{task}").json() == {"files": {"secret.txt": "a\nb\n"}}
    assert other.get(f"/pilot/payload/{task}").status_code == 404
    stolen = {"reports": [{"job": job, "attempt": 1, "state": "done"}]}
    assert other.post("/pilot/report", json=stolen).json()["stop"] == [[job, 1]]
    assert house.job(job).state == "sent"


def test_health_is_open(house: House) -> None:
    answer = house.client().get("/health")
    assert answer.status_code == 200
    assert answer.json()["status"] == "ok"


def test_a_token_that_expires_is_refused_at_once_though_it_was_believed(house: House) -> None:
    house.now = time.time()
    credential = Credential(role="user", identity=ALICE, expires=house.now + 1000)
    client = house.client(house.store.tokens.create(credential))
    assert client.get("/tasks").status_code == 200
    house.now += 1000
    assert client.get("/tasks").status_code == 401


def test_a_token_is_looked_up_once_in_a_while(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[str] = []
    find = house.store.tokens.find

    def counted(token: str) -> Credential | None:
        looked_up.append(token)
        return find(token)

    client = house.as_("user", ALICE)
    monkeypatch.setattr(house.store.tokens, "find", counted)
    for _ in range(3):
        assert client.get("/tasks").status_code == 200
    assert len(looked_up) == 1
    house.now += KNOWN_FOR
    assert client.get("/tasks").status_code == 200
    assert len(looked_up) == 2


def test_a_site_admin_changes_their_sites_alone(house: House) -> None:
    """Drains, advertisements, breakers, tests and pilots, each at their site and at another one."""
    submit_to(house.as_("user", ALICE))
    number, _ = house.pilot()
    other, _ = house.pilot(queue="south-queue")
    identity = Identity(name="sally", vo="belle")
    north, south = (house.as_("site-admin", identity, sites=[site]) for site in ("north", "south"))
    both = house.as_("site-admin", identity, sites=["north", "south"])
    drain = {"mode": "drain", "because": "new disks"}
    for kind, name in (("site", "north"), ("queue", "north-queue"), ("storage", "north-disk")):
        path = f"/restrictions/{kind}/{name}"
        answer = south.put(path, json=drain)
        assert (answer.status_code, answer.json()["detail"]) == (
            403,
            "this is at north, and you administer south",
        )
        assert south.delete(path).status_code == 403
        assert [north.put(path, json=drain).status_code, both.delete(path).status_code] == [200, 200]
        assert north.put(f"/restrictions/{kind}/nowhere", json=drain).status_code == 404
    ad = {"ad": "[ Ready = true ]"}
    assert south.put("/sites/north/ad", json=ad).status_code == 403
    assert south.delete("/sites/north/ad").status_code == 403
    assert [
        north.put("/sites/north/ad", json=ad).status_code,
        north.delete("/sites/north/ad").status_code,
    ] == [
        204,
        204,
    ]
    for name in ("north-queue", "north-disk"):
        assert south.post("/breakers/lift", json={"name": name}).status_code == 403
        assert north.post("/breakers/lift", json={"name": name}).status_code == 200
    assert south.post("/queues/north-queue/test").status_code == 403
    assert north.post("/queues/north-queue/test").status_code in (200, 409)
    for path in ("", "/explain", "/logs"):
        assert south.get(f"/pilots/{number}{path}").status_code == 404
        assert north.get(f"/pilots/{number}{path}").status_code == 200

    def listed(client: TestClient, query: str = "") -> set[int]:
        return {pilot["id"] for pilot in client.get(f"/pilots{query}").json()["pilots"]}

    assert (number in listed(north), other in listed(north)) == (True, False)
    assert (number in listed(both), other in listed(both)) == (True, True)
    assert listed(north, "?queue=south-queue") == set()
    assert north.get("/federation").json()["storages"][1]["options"] == {}


def test_roles_that_lack_something_are_refused(operator: TestClient) -> None:
    def refused(**fields: Any) -> Any:
        answer = operator.post("/tokens", json={"name": "sally", **fields})
        return answer.json()["detail"][0] if answer.status_code == 422 else answer.status_code

    assert refused(role="manager")["field"] == "vo"
    assert refused(role="site-admin")["field"] == "sites"
    assert refused(role="user", sites=["north"])["field"] == "sites"
    assert "nowhere, which is no site" in refused(role="site-admin", sites=["north", "nowhere"])["message"]
    assert refused(role="dean")["field"] == "role"
    assert refused(role="site-admin", sites=["north"]) == refused(role="manager", vo="atlas") == 201
    (manager, admin) = operator.get("/tokens?limit=2").json()["tokens"]
    assert (manager["role"], admin["role"], admin["sites"]) == ("manager", "site-admin", ["north"])


def test_managers_and_monitors_read_files_of_others_and_change_none(house: House) -> None:
    alice, mona, mo = (
        house.as_("user", ALICE),
        house.as_("manager", MONA),
        house.as_("monitor", Identity(name="mo")),
    )
    foreign = house.as_("manager", OTHER_ALICE)
    file = {"name": "a", "scope": "user.alice~atlas", "size": 1, "replicas": ["north-disk"]}
    assert alice.post("/files", json={"files": [file]}).status_code == 200
    dataset = {"dataset": "runs", "scope": "user.alice~atlas", "files": ["a"]}
    assert alice.post("/datasets", json=dataset).status_code == 200
    reading = (
        "/files?scope=user.alice~atlas",
        "/files/describe?file=user.alice~atlas:a",
        "/datasets?scope=user.alice~atlas",
        "/datasets/versions?dataset=user.alice~atlas:runs",
        "/datasets/files?dataset=user.alice~atlas:runs",
    )
    for path in reading:
        assert [client.get(path).status_code for client in (mona, mo, foreign)] == [200, 200, 403], path
    for path, body in (("/files/forget", {"file": "user.alice~atlas:a"}), ("/datasets", dataset)):
        assert [client.post(path, json=body).status_code for client in (mona, mo, foreign)] == [403] * 3, path
    worlds = [client.get("/world").content for client in (house.as_("operator", MONA), mo)]
    assert [b"auto_mkdir" in world for world in worlds] == [True, False], "a storage's options"


def test_events_are_of_the_tasks_that_the_role_sees(everybodys: tuple[House, list[int]]) -> None:
    house, (alices, bobs, others) = everybodys

    def tasks(role: Role, identity: Identity) -> set[int]:
        events = house.as_(role, identity).get("/events?after=0&kind=job").json()["events"]
        return {event["task"] for event in events}

    assert tasks("user", ALICE) == {alices}
    assert tasks("manager", MONA) == {alices, bobs}
    assert tasks("monitor", Identity(name="mo")) == {alices, bobs, others}
