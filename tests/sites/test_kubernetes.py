"""Pilots at a real Kubernetes API server, whose controllers make pods of Jobs; the test is their kubelet."""

from typing import Any

import pytest

from pilotage.adapters.computing.contract import violations
from pilotage.adapters.computing.kubernetes import Kubernetes
from pilotage.ports.computing import PilotOrder
from tests.waiting import wait_for

pytestmark = pytest.mark.slow


def order(name: str) -> PilotOrder:
    return PilotOrder(
        pilot=1, name=name, token="the-secret", server_url="http://x", cores=2, memory=1000, walltime=3600
    )


def test_it_keeps_the_contract(kubernetes_options: dict[str, Any]) -> None:
    asked = [order("bed-pilot-1"), order("Bed_pilot@2")]
    assert violations(Kubernetes, kubernetes_options, asked) == []


def test_a_pilots_secret_goes_with_its_job(kubernetes_options: dict[str, Any]) -> None:
    element = Kubernetes(kubernetes_options)
    (answer,) = element.submit([order("bed-pilot-3")])
    assert [again.reference for again in element.submit([order("bed-pilot-3")])] == [answer.reference]
    secrets = element._core().list_namespaced_secret
    assert [one.metadata.name for one in secrets("default").items] == ["bed-pilot-3"]
    element.cancel([answer.reference])
    wait_for(lambda: not secrets("default").items, "the Secret is collected")
    assert element.poll([answer.reference])[answer.reference].state == "ended"


def test_what_the_kubelet_writes_is_what_is_told(kubernetes_options: dict[str, Any]) -> None:
    element = Kubernetes(kubernetes_options)
    (answer,) = element.submit([order("bed-pilot-4")])

    def state() -> str:
        return element.poll([answer.reference])[answer.reference].state

    wait_for(lambda: list(element._pods()), "the controller makes a pod")
    (pod,) = element._pods()
    named = {"name": "pilot", "image": "x", "imageID": "", "ready": True, "restartCount": 0}

    def write(phase: str, container: dict[str, Any]) -> None:
        status = {"phase": phase, "containerStatuses": [{**named, "state": container}]}
        element._core().patch_namespaced_pod_status(pod.metadata.name, "default", {"status": status})

    write("Running", {"running": {}})
    wait_for(lambda: state() == "running", "it is seen to run")
    write("Failed", {"terminated": {"exitCode": 78, "reason": "Error", "message": "no Python"}})
    wait_for(lambda: state() == "ended", "it is seen to end")
    status = element.poll([answer.reference])[answer.reference]
    assert (status.exit_code, status.reason) == (78, "Error: no Python")
    element.cancel([answer.reference])
