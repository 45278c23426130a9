"""Calls of Python functions that an executor gathers into one task."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from glob import escape
from typing import Any, NamedTuple

from .functions import Calls

PARAMETER = "file"
"""What parameters begin with that are names of the files that a call reads."""


class CatalogueFile(NamedTuple):
    """A file of the catalogue."""

    scope: str
    path: str


@dataclass
class CallBatch:
    """Calls with equal fields that become one task, with their futures and the files that each reads.

    It began at ``begun`` on the monotonic clock.
    """

    fields: Mapping[str, Any]
    calls: Calls = field(default_factory=Calls)
    futures: "list[Future[Any]]" = field(default_factory=list)
    files: list[Sequence[CatalogueFile]] = field(default_factory=list)
    begun: float = field(default_factory=time.monotonic)

    def add(
        self,
        future: "Future[Any]",
        function: Callable[..., Any],
        args: Sequence[Any],
        keywords: Mapping[str, Any],
        files: Sequence[CatalogueFile],
    ) -> bool:
        """Add a call. Return whether it still fits. Raises ``Refused`` for one that fits into no task."""
        if not self.calls.add(function, args, keywords):
            return False
        self.futures.append(future)
        self.files.append(files)
        return True

    @property
    def name(self) -> str:
        """What it is called."""
        return str(self.fields.get("name", self.calls.name))

    @property
    def same(self) -> str:
        """What is equal for tasks that the same queues can run."""
        return json.dumps(self.fields, sort_keys=True, default=str)

    def example(self) -> dict[str, Any]:
        """Return a task of one such job, to ask whether any queue can run it."""
        return {"name": "function", **self.fields, "command": ["true"], "scouts": 0}

    def document(self) -> dict[str, Any]:
        """Return the task."""
        document = self.calls.document(self.fields)
        if not any(self.files):
            return document
        # Each call reads its own files: their names are parameters of its row.
        del document["jobs"]
        names = [f"{PARAMETER}_{number}" for number in range(len(self.files[0]))]
        rows = [
            {name: escape(file.path) for name, file in zip(names, files, strict=True)} for files in self.files
        ]
        inputs = [
            {"glob": f"{{{name}}}", "scope": file.scope}
            for name, file in zip(names, self.files[0], strict=True)
        ]
        each = {"files_per_job": len(names), "parameters": rows}
        return {**document, **each, "inputs": [*document.get("inputs", ()), *inputs]}


def batch_key(fields: Mapping[str, Any], files: Sequence[CatalogueFile]) -> str:
    """Return what calls of one task have in common: their fields, and the scopes of the files they read."""
    return json.dumps([fields, [file.scope for file in files]], sort_keys=True, default=str)


def catalogue_file(identifier: str) -> CatalogueFile:
    """Return a file by its identifier, ``scope:name``."""
    scope, _, path = identifier.partition(":")
    return CatalogueFile(scope, path)
