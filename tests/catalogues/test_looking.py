"""Whoever only looks changes nothing in a catalogue, whatever its kind.

A plan and a submission look files and datasets up; a submission asks what would be in the way of its outputs.
A new kind fails here until its answers are among ``LOOKS``.
"""

import json
import re
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import requests

from pilotage.adapters.catalogues.loader import installed, load
from pilotage.ports.catalogue import CataloguePort
from tests.flow.house import federation

from .contract import SCOPE, A
from .test_rucio import declared, record

REPLICA = {**record(A), "rses": {"SOUTH": [f"file://localhost/rse/SOUTH/{A.name}"]}}
DATASET = {"scope": SCOPE, "name": "runs", "type": "DATASET", "open": False, "did_type": "DATASET"}
ANSWERS: Mapping[str, Any] = {
    "GET /ping": {"version": "41"},
    "GET /scopes/": [SCOPE],
    f"GET /dids/{SCOPE}/dids/search": A.name,
    f"GET /dids/{SCOPE}/runs": DATASET,
    f"GET /dids/{SCOPE}/runs/files": {"scope": SCOPE, "name": A.name},
    "POST /replicas/list": REPLICA,
    "GET /rses/SOUTH": {"deterministic": True, "rse": "SOUTH"},
}


def rucio(place: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[CataloguePort, list[str]]:
    """An adapter, and the requests that it makes; all that read are answered."""
    asked: list[str] = []

    def send(_: object, request: requests.PreparedRequest, **options: object) -> requests.Response:
        line = f"{request.method} {re.sub(r'[?].*', '', request.path_url)}"
        asked.append(line)
        answer = requests.Response()
        answer.request, answer.url = request, request.url or ""
        answer.status_code = 200
        answer.headers["X-Rucio-Auth-Token"] = "of-a-test"
        answer.headers["Content-Type"] = "application/x-json-stream"
        answer.raw = BytesIO(json.dumps(ANSWERS.get(line, "")).encode())
        return answer

    monkeypatch.setattr(requests.Session, "send", send)
    return load(declared("http://rucio.test"), federation(place)), asked


LOOKS: Mapping[str, tuple[Callable[..., tuple[CataloguePort, list[str]]], str]] = {
    "rucio": (rucio, "GET .*|POST /replicas/list")
}
"""By kind: an adapter whose requests are noted, and those that only read."""


@pytest.mark.parametrize("kind", sorted(installed()))
def test_whoever_looks_registers_nothing(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make, reads = LOOKS[kind]
    catalogue: Any
    catalogue, asked = make(tmp_path, monkeypatch)
    assert [one.file.name for one in catalogue.matching(SCOPE, "**")] == [A.name]
    assert [one.file.name for one in catalogue.dataset(SCOPE, "runs").files] == [A.name]
    with pytest.raises(LookupError, match="runs is closed"):
        catalogue.check_output(SCOPE, "runs", ["south-disk"])
    assert len(asked) > 5
    assert [line for line in asked if not re.fullmatch(reads, line)] == []
