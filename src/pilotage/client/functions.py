"""Python functions as payloads: pickled calls, and their results. It needs the extra ``functions``."""

import base64
import io
import json
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from pilotage.model.values.phrases import not_installed

from .errors import BadAnswer, CallFailed, Refused

RESULT = "result.bin"
"""The output that holds a call's result."""

RUNNER = "run_call.py"
MOST_BYTES = 1_000_000
"""Most bytes of one submission: functions, arguments, and what runs them there."""

MOST_CALLS = 10_000
"""Most calls of one task."""


@dataclass
class Calls:
    """Calls that become the jobs of one task, which has the name of the last function."""

    name: str = "function"
    functions: list[str] = field(default_factory=list)
    calls: list[tuple[int, str]] = field(default_factory=list)
    size: int = 0

    def add(self, function: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any]) -> bool:
        """Add a call. Return whether it still fits; one that does not is left out.

        Raises ``Refused`` for a call that is too large for any task.
        """
        code, arguments = _pack(function), _pack((tuple(args), dict(keywords)))
        is_new = code not in self.functions
        size = len(arguments) + 16 + (len(code) if is_new else 0)
        if size > MOST_BYTES - _overhead():
            raise Refused(
                f"the function and its arguments have {size} bytes, above {MOST_BYTES - _overhead()}: put "
                "large data on a storage, and name it as inputs"
            )
        if self.size + size > MOST_BYTES - _overhead() or len(self.calls) >= MOST_CALLS:
            return False
        if is_new:
            self.functions.append(code)
        self.calls.append((self.functions.index(code), arguments))
        self.size += size
        self.name = getattr(function, "__name__", self.name)
        return True

    def document(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the task that runs them, with further fields of a task."""
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        sent = {
            "python": version,
            "library": _library(),
            "functions": self.functions,
            "calls": self.calls,
        }
        files = {RUNNER: _runner(), "calls.json": json.dumps(sent) + "\n"}
        usual = {"name": task_name(self.name), "scouts": 0, "max_attempts": 1, "jobs": len(self.calls)}
        return {
            **usual,
            **fields,
            "command": ["python3", RUNNER],
            "payload_files": {**fields.get("payload_files", {}), **files},
            "outputs": [*fields.get("outputs", ()), RESULT],
        }


def arguments_of(
    parameters: "Mapping[str, Iterable[Any]] | Iterable[Any]",
) -> list[tuple[Sequence[Any], Any]]:
    """Return the arguments of each call: a grid's combinations or rows by name, anything else as it is."""
    if isinstance(parameters, Mapping):
        grid = [list(values) for values in parameters.values()]
        return [((), dict(zip(parameters, row, strict=True))) for row in product(*grid)]
    return [((), dict(value)) if isinstance(value, Mapping) else ((value,), {}) for value in parameters]


def rows_of(parameters: "Mapping[str, Iterable[Any]] | Iterable[Any]") -> Any:
    """Return the same as parameters of a task: a single value becomes the parameter ``value``."""
    if isinstance(parameters, Mapping):
        return {name: list(values) for name, values in parameters.items()}
    return [dict(value) if isinstance(value, Mapping) else {"value": value} for value in parameters]


def value_of(result: bytes) -> Any:
    """Return the result of a call, or raise its exception.

    The pickle comes from one of the caller's jobs: a person who can change its output can run code here.
    """
    import pickle  # only who reads results loads it

    head, _, pickled = result.partition(b"\n")
    try:
        kind = json.loads(head)["kind"]
        value = pickle.loads(pickled)
    except (ValueError, KeyError, TypeError, pickle.UnpicklingError, EOFError) as error:
        raise BadAnswer(f"the output is no result of a call: {error}") from error
    if kind == "raised":
        raise value
    return value


def failure_of(job: Any) -> CallFailed:
    """Return the error for a job that left no result."""
    reason = job.get("reason") or job.get("error") or ""
    return CallFailed(f"job {job['id']} {job['state']}{f': {reason}' if reason else ''}")


def _pack(value: object) -> str:
    return base64.b64encode(zlib.compress(_cloudpickle().dumps(value), 1)).decode()


def _cloudpickle() -> Any:
    try:
        import cloudpickle
    except ModuleNotFoundError:
        raise Refused(not_installed("cloudpickle", "functions")) from None
    return cloudpickle


@cache
def _library() -> str:
    """Return cloudpickle itself as an archive in base64: nodes need not have it."""
    import zipfile

    content = io.BytesIO()
    folder = Path(_cloudpickle().__file__).parent
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.glob("*.py")):
            archive.write(file, f"cloudpickle/{file.name}")
    return base64.b64encode(content.getvalue()).decode()


@cache
def _runner() -> str:
    return Path(__file__).with_name("call_runner.py").read_text()


def _overhead() -> int:
    return len(_library()) + len(_runner()) + 1000


def task_name(name: str) -> str:
    """Return a function's name in the signs that names of tasks have."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", name).strip("-._")[:60] or "function"
