"""A task of TES with all that its clients send, and the way to send it."""

from typing import Any

from starlette.testclient import TestClient

from pilotage.server.api.edge.dependencies import TES_PREFIX

BASE = f"http://testserver{TES_PREFIX}"

EXECUTOR = {"image": "alpine:3.20", "command": ["cat", "/data/in.txt"]}


def submit_tes(client: TestClient, **fields: Any) -> int:
    """Submit a task by TES; return its number."""
    answer = client.post(f"{BASE}/tasks", json={"executors": [EXECUTOR], **fields})
    assert answer.status_code == 200, answer.text
    return int(answer.json()["id"])
