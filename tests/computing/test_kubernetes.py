"""The computing element of kind ``kubernetes`` before a small server that speaks the API's paths."""

import base64
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pilotage.adapters.computing.contract import violations
from pilotage.adapters.computing.kubernetes import Kubernetes
from pilotage.adapters.computing.kubernetes.objects import KubernetesOptions, job, object_name
from pilotage.ports.computing import PilotOrder

from .kubernetes_api import Api, kubeconfig
from .web_server import WebServer


def order(name: str = "bed-pilot-1", **fields: Any) -> PilotOrder:
    return PilotOrder(pilot=1, name=name, token="the-secret", server_url="http://x", **fields)


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def server(api: Api) -> Iterator[WebServer]:
    with WebServer(api).serving() as server:
        yield server


@pytest.fixture
def options(server: WebServer, tmp_path: Path) -> dict[str, Any]:
    kubeconfig(file := tmp_path / "kubeconfig", server.url)
    return {"kubeconfig": str(file), "image": "python:3.12"}


@pytest.fixture
def element(options: dict[str, Any]) -> Kubernetes:
    return Kubernetes(options)


def submitted(element: Kubernetes, asked: PilotOrder) -> str:
    (answer,) = element.submit([asked])
    assert not answer.error
    return answer.reference


@pytest.mark.slow
def test_it_keeps_the_contract(options: dict[str, Any]) -> None:
    assert violations(Kubernetes, options, [order("bed-pilot-1"), order("Bed_2@x")]) == []


def test_the_token_is_in_the_secret_alone_which_the_job_owns(element: Kubernetes, api: Api) -> None:
    reference = submitted(element, order())
    secret = api.objects["secrets", "bed-pilot-1"]
    assert base64.b64decode(secret["data"]["token"]) == b"the-secret"
    assert [one["uid"] for one in secret["metadata"]["ownerReferences"]] == [reference.rpartition("/")[2]]
    others = [document for key, document in api.objects.items() if key[0] != "secrets"]
    assert "the-secret" not in str(others)
    assert base64.b64encode(b"the-secret").decode() not in str(others)


def test_a_name_that_is_taken_is_an_answer_that_was_lost(element: Kubernetes, api: Api) -> None:
    first = submitted(element, order())
    second = PilotOrder(pilot=1, name="bed-pilot-1", token="renewed", server_url="http://x")
    assert submitted(element, second) == first
    assert base64.b64decode(api.objects["secrets", "bed-pilot-1"]["data"]["token"]) == b"renewed"
    assert sum(kind == "jobs" for kind, _ in api.objects) == 1


def test_a_name_that_somebody_else_took_is_an_error(element: Kubernetes, api: Api) -> None:
    api.objects["jobs", "bed-pilot-1"] = {"metadata": {"name": "bed-pilot-1", "uid": "theirs"}}
    (answer,) = element.submit([order()])
    assert answer.error == "bed-pilot-1: another Job has the name default/bed-pilot-1"
    assert ("secrets", "bed-pilot-1") not in api.objects


@pytest.mark.parametrize("lost", [None, -500, -502, -503, -504])
def test_a_creation_whose_answer_is_lost_is_found_at_once(
    element: Kubernetes, api: Api, lost: int | None
) -> None:
    api.broken["POST jobs"] = lost
    reference = submitted(element, order())
    assert reference.endswith(api.objects["jobs", "bed-pilot-1"]["metadata"]["uid"])
    assert ("secrets", "bed-pilot-1") in api.objects


@pytest.mark.parametrize("lost", [None, -504, 504])
def test_a_creation_that_nobody_knows_of_comes_again(element: Kubernetes, api: Api, lost: int | None) -> None:
    api.broken |= {"POST jobs": lost, "GET jobs": 504}
    with pytest.raises(TimeoutError):
        element.submit([order()])
    api.broken.clear()
    reference = submitted(element, order())
    assert reference.endswith(api.objects["jobs", "bed-pilot-1"]["metadata"]["uid"])


def test_a_pilot_without_its_secret_is_deleted(element: Kubernetes, api: Api) -> None:
    api.broken["POST secrets"] = 403
    (answer,) = element.submit([order()])
    assert answer.error == "bed-pilot-1: 403 Forbidden: as told"
    assert {kind for kind, _ in api.objects} == {"configmaps"}


def test_a_cluster_that_is_down_raises(element: Kubernetes, api: Api) -> None:
    reference = submitted(element, order())
    api.broken["GET jobs"] = 500
    with pytest.raises(OSError, match="500"):
        element.poll([reference])
    api.broken["POST configmaps"] = 503
    with pytest.raises(OSError, match="503"):
        element.submit([order("bed-pilot-2")])


def test_no_cluster_is_no_fault_of_the_options(tmp_path: Path) -> None:
    element = Kubernetes({"image": "x", "kubeconfig": str(tmp_path / "none")})
    with pytest.raises(OSError, match="no cluster is known"):
        element.submit([order()])


ENDED = {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]}
COMPLETE = {"conditions": [{"type": "Complete", "status": "True"}]}
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}


def container(**state: Any) -> dict[str, Any]:
    named = {"name": "pilot", "image": "x", "imageID": "", "ready": False, "restartCount": 0}
    return {"containerStatuses": [{**named, "state": state}]}


def sibling_path(pilot: dict[str, Any], **state: Any) -> dict[str, Any]:
    """A pod with a container that the cluster added, whose status comes first."""
    (first,), (own,) = (container(**one)["containerStatuses"] for one in (state, pilot))
    return {"containerStatuses": [{**first, "name": "istio-proxy"}, own]}


@pytest.mark.parametrize(
    ("job_status", "pod", "state", "reason", "code"),
    [
        ({}, {}, "waiting", "", None),
        ({}, {"conditions": [UNSCHEDULABLE]}, "waiting", "Unschedulable: 0/3 nodes", None),
        ({}, container(waiting={"reason": "ImagePullBackOff"}), "waiting", "ImagePullBackOff", None),
        ({"active": 1}, container(running={}), "running", "", None),
        (COMPLETE, container(terminated={"exitCode": 0, "reason": "Completed"}), "ended", "", 0),
        (ENDED, container(terminated={"exitCode": 137, "reason": "OOMKilled"}), "ended", "OOMKilled", 137),
        (ENDED, {}, "ended", "BackoffLimitExceeded", None),
        (
            ENDED,
            {"reason": "Evicted", "message": "The node was low on resource: ephemeral-storage."},
            "ended",
            "Evicted: The node was low on resource: ephemeral-storage.",
            None,
        ),
        ({"active": 1}, sibling_path({"running": {}}, terminated={"exitCode": 1}), "running", "", None),
        (
            ENDED,
            sibling_path({"terminated": {"exitCode": 3}}, terminated={"exitCode": 0}),
            "ended",
            "BackoffLimitExceeded",
            3,
        ),
        (
            {"active": 1},
            sibling_path({"terminated": {"exitCode": 137, "reason": "OOMKilled"}}, running={}),
            "ended",
            "it has ended, but other containers of its pod still run",
            137,
        ),
        (
            ENDED,
            container(terminated={"exitCode": 78, "reason": "Error", "message": "no Python\n"}),
            "ended",
            "Error: no Python",
            78,
        ),
    ],
)
def test_a_job_and_its_pod_say_how_it_is(
    element: Kubernetes, api: Api, job_status: Any, pod: Any, state: str, reason: str, code: int | None
) -> None:
    reference = submitted(element, order())
    api.objects["jobs", "bed-pilot-1"]["status"] = job_status
    api.objects["pods", "bed-pilot-1-pod"]["status"] = pod
    status = element.poll([reference])[reference]
    assert (status.state, status.reason, status.exit_code) == (state, reason, code)
    assert status.excess == ("memory" if code == 137 else "")


def test_what_is_not_there_is_unknown_unless_it_was_deleted_here(
    element: Kubernetes, options: dict[str, Any]
) -> None:
    reference = submitted(element, order())
    element.cancel([reference])
    assert element.poll([reference])[reference].state == "ended"
    assert Kubernetes(options).poll([reference])[reference].state == "unknown"


def test_a_job_of_the_same_name_but_another_uid_is_left_alone(element: Kubernetes, api: Api) -> None:
    reference = submitted(element, order())
    other = f"{reference.rpartition('/')[0]}/another"
    element.cancel([other])
    assert ("jobs", "bed-pilot-1") in api.objects
    assert element.poll([other])[other].state == "unknown"


def test_a_refused_deletion_is_told_and_stops_no_other(element: Kubernetes, api: Api) -> None:
    references = [submitted(element, order("bed-pilot-1")), submitted(element, order("bed-pilot-2"))]
    api.broken["DELETE jobs bed-pilot-1"] = 403
    with pytest.raises(OSError, match="403"):
        element.cancel(references)
    assert [name for kind, name in api.objects if kind == "jobs"] == ["bed-pilot-1"]


def test_names_are_what_the_api_takes_and_differ() -> None:
    names = ["fed-pilot-1", "Fed-pilot-1", "fed_pilot@1", "x" * 200, "x" * 201, "@", "-a"]
    made = [object_name(name) for name in names]
    assert made[0] == names[0]
    assert len(set(made)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", name) for name in made)


def test_a_pilot_asks_for_what_it_needs_and_nothing_is_expanded() -> None:
    options = KubernetesOptions(image="x", resources={"nvidia.com/gpu": 1}, node_selector={"a": "b"})
    asked = PilotOrder(
        pilot=1, name="p", token="t", server_url="http://$(HOSTNAME)/';touch x", cores=4, memory=2000.5
    )
    pod = job(asked, options, "agent")["spec"]["template"]["spec"]
    (made,) = pod["containers"]
    assert made["resources"]["limits"] == {"cpu": "4", "memory": "2001M", "nvidia.com/gpu": 1}
    assert pod["automountServiceAccountToken"] is False
    assert pod["nodeSelector"] == {"a": "b"}
    assert not re.search(r"(?<!\$)\$\(", made["command"][2])
    script = made["command"][2].replace("$$(", "$(").replace("exec ", "exec printf '%s\\n' ")
    said = subprocess.run(["/bin/sh", "-c", script, "agent.pyz"], capture_output=True, text=True, check=False)
    assert "--url=http://$(HOSTNAME)/';touch x" in said.stdout.splitlines()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "image"),
        ({"image": "x", "namspace": "y"}, r"unknown options \['namspace'\]"),
        ({"image": "x", "namespace": "Not/One"}, "namespace"),
        ({"image": "--privileged"}, "image"),
        ({"image": "x", "resources": ["a"]}, "resources"),
    ],
)
def test_options_that_cannot_be_used_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Kubernetes(options)
