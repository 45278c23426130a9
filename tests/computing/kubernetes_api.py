"""The few paths of Kubernetes' API that pilots need, over documents in memory, behind a real web server."""

import json
import re
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import yaml

from .web_server import Request

Document = dict[str, Any]
PATH = re.compile(r"/(?:api/v1|apis/batch/v1)/namespaces/([^/]+)/(\w+)(?:/([^/?]+))?(?:\?.*)?")


@dataclass
class Api:
    """Answers as an API server whose Jobs have a pod at once, which never starts."""

    objects: dict[tuple[str, str], Document] = field(default_factory=dict)
    broken: dict[str, int | None] = field(default_factory=dict)
    """By method and kind, or these and a name: a status that answers; a negative one answers after the deed,
    and None breaks the connection then."""
    _numbers: count = field(default_factory=lambda: count(1))  # type: ignore[type-arg]

    def __call__(self, asked: Request) -> tuple[int, bytes] | None:
        found = PATH.fullmatch(asked.path)
        assert found, asked.path
        _, kind, name = found.groups()
        line = f"{asked.method} {kind}"
        fault = self.broken.get(f"{line} {name}", self.broken.get(line, 200))
        if fault is not None and fault > 0 and fault != 200:
            return _failure(fault, "as told")
        status, document = self._answer(asked, kind, name)
        if fault is not None and fault < 0:
            return _failure(-fault, "as told, after the deed")
        return None if fault is None else (status, json.dumps(document).encode())

    def _answer(self, asked: Request, kind: str, name: str | None) -> tuple[int, Document]:
        body = json.loads(asked.body) if asked.body else {}
        if name is None and asked.method == "GET":
            items = [document for (of, _), document in self.objects.items() if of == kind]
            return 200, {"metadata": {}, "items": items}
        name = name or str(body["metadata"]["name"])
        there = self.objects.get((kind, name))
        if asked.method == "POST" and there is None:
            self._create(kind, name, body)
            return 201, self.objects[kind, name]
        if asked.method == "POST":
            return 409, _status(409, f"{kind} {name} already exists")
        if there is None:
            return 404, _status(404, f"{kind} {name} not found")
        if asked.method == "PATCH":
            there.update(body)
        if asked.method == "DELETE":
            if there["metadata"]["uid"] != body["preconditions"]["uid"]:
                return 409, _status(409, "another uid")
            self._delete(there)
        return 200, there

    def _create(self, kind: str, name: str, body: Document) -> None:
        uid = f"uid-{next(self._numbers)}"
        self.objects[kind, name] = {**body, "metadata": {**body["metadata"], "uid": uid}}
        if kind == "jobs":
            self.objects[kind, name]["status"] = {}
            owner = {"kind": "Job", "name": name, "uid": uid, "apiVersion": "batch/v1"}
            metadata = {"name": f"{name}-pod", "ownerReferences": [owner]}
            self.objects["pods", f"{name}-pod"] = {"metadata": metadata, "status": {}}

    def _delete(self, there: Document) -> None:
        uid = there["metadata"]["uid"]
        for key, document in list(self.objects.items()):
            owners = [one["uid"] for one in document["metadata"].get("ownerReferences", ())]
            if document is there or uid in owners:
                del self.objects[key]


def kubeconfig(file: Path, url: str) -> None:
    """Write the file that leads a client to a server."""
    told = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bed",
        "clusters": [{"name": "bed", "cluster": {"server": url}}],
        "users": [{"name": "bed", "user": {"token": "of-the-server"}}],
        "contexts": [{"name": "bed", "context": {"cluster": "bed", "user": "bed"}}],
    }
    file.write_text(yaml.safe_dump(told))


def _status(code: int, message: str) -> Document:
    return {"kind": "Status", "status": "Failure", "message": message, "code": code}


def _failure(code: int, message: str) -> tuple[int, bytes]:
    return code, json.dumps(_status(code, message), separators=(",", ":")).encode()
