"""What requests find: a federation without batch systems, and records of most kinds."""

import json
from pathlib import Path

import httpx

LOOPS = ("chain", "split", "broker", "lift", "rebind", "finish", "watch")
"""Loops that reach nothing outside: nobody runs or sends what a fuzzed request asks for."""


def write_federation(place: Path) -> Path:
    """Write a federation; return its file."""
    storages = []
    for site in ("north", "south"):
        folder = place / site
        (folder / "raw").mkdir(parents=True)
        (folder / "raw" / "a.dat").write_bytes(b"a" * 1000)
        storages.append(
            {"name": f"{site}-disk", "site": site, "url": f"file://{folder}", "storage_min_free": 0}
        )
    file = place / "federation.yaml"
    element = {"kind": "process", "max_pilots": 1}
    document = {
        "name": "fuzz",
        "sites": [{"name": "north", "nucleus": True}, {"name": "south"}],
        "storages": storages,
        "queues": [
            {"name": f"{site}-queue", "site": site, "storage": f"{site}-disk", "computing_element": element}
            for site in ("north", "south")
        ],
        "links": [{"source": "north", "destination": "south", "closeness": 2}],
    }
    file.write_text(json.dumps(document))
    return file


def fill(url: str, headers: dict[str, str]) -> None:
    """Submit work as a caller, and name files, datasets and secrets."""
    command = ["true"]
    inputs = [{"name": "raw/a.dat", "size": 1000, "replicas": ["north-disk"]}]
    tasks = [{"name": name, "command": command, "inputs": inputs} for name in ("one", "two")]
    stages = [{"name": "a", "command": command}, {"name": "b", "command": command, "after": ["a"]}]
    with httpx.Client(base_url=f"{url}/api/v1", headers=headers, timeout=60) as client:
        for path, body in (
            ("/tasks", {"tasks": tasks}),
            ("/workflows", {"name": "chain", "tasks": stages}),
            ("/secrets", {"name": "WORD", "value": "a secret value"}),
            ("/datasets", {"dataset": "data", "files": ["raw/a.dat"]}),
        ):
            answer = client.post(path, json=body)
            assert answer.is_success, f"{path}: {answer.text}"
