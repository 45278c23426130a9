"""The page leads to the manifest of a task that has ended, and shows why stages of a workflow run."""

import re

from pilotage.model.documents.decision import Move
from pilotage.model.records.states import TaskState
from tests.api.conftest import ALICE, House

from .conftest import Submit, TestClient


def test_an_ended_task_has_a_manifest_to_download(house: House, alice: TestClient, submit: Submit) -> None:
    task = submit()
    assert "Manifest</a>" not in alice.get(f"/tasks/{task}").text
    move = Move(
        kind="task", ids=(task,), source=TaskState.REGISTERED, target=TaskState.CANCELLED, cause="test"
    )
    house.commit(move)
    (address,) = re.findall(r'href="([^"]*)" download>Manifest</a>', alice.get(f"/tasks/{task}").text)
    answer = alice.get(address)
    assert (answer.status_code, answer.json()["@graph"][0]["@id"]) == (200, "ro-crate-metadata.json")


def test_a_resumed_workflow_shows_why_its_stages_run(house: House, alice: TestClient) -> None:
    body = {"name": "flow", "tasks": [{"name": "align", "command": ["true"]}], "resume": True}
    made = house.as_("user", ALICE).post("/workflows", json=body)
    assert made.status_code == 201, made.text
    text = alice.get(f"/workflows/{made.json()['id']}").text
    assert "align runs: it has not run in a workflow of this name" in text
