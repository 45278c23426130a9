"""The agent runs anywhere: one deterministic file, the standard library, Python 3.9 and newer."""

import ast
import importlib
import io
import json
import runpy
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import MISSING, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter

import pilotage.agent
from pilotage.adapters.computing.agent_file import agent_file
from pilotage.agent import VERSION, wire
from pilotage.agent.files import spool_wire
from pilotage.agent.parsing import WireError, parse, serialise
from pilotage.flow import attempt_logs
from pilotage.flow.outside import left_manifests
from pilotage.model.documents import world
from pilotage.server.api.places import pilot_agent, pilot_files

ROOM = Path(pilotage.agent.__file__).parent
MODULES = sorted(ROOM.rglob("*.py"))
NEWER: dict[str, Callable[[Any], bool]] = {
    "zip(strict)": lambda node: _calls(node, "zip") and _has(node, "strict"),
    "isinstance(X | Y)": lambda node: _calls(node, "isinstance") and isinstance(node.args[1], ast.BinOp),
    "dataclass(slots)": lambda node: (
        _calls(node, "dataclass") and (_has(node, "slots") or _has(node, "kw_only"))
    ),
    "newer function": lambda node: any(
        _calls(node, name) for name in ("anext", "aiter", "pairwise", "timeout", "TaskGroup", "batched")
    ),
}
"""What Python 3.10 and 3.11 added that the grammar does not show."""


def _calls(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == name


def _has(node: ast.AST, keyword: str) -> bool:
    return isinstance(node, ast.Call) and any(one.arg == keyword for one in node.keywords)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_python_3_9_understands_each_module(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text, feature_version=(3, 9))
    assert [name for name, newer in NEWER.items() for node in ast.walk(tree) if newer(node)] == []
    annotated = any(isinstance(node, ast.FunctionDef | ast.AnnAssign) for node in ast.walk(tree))
    assert not annotated or "from __future__ import annotations" in text


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_only_the_standard_library_is_imported(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert {name.name.partition(".")[0] for name in node.names} <= sys.stdlib_module_names
        if isinstance(node, ast.ImportFrom) and not node.level:
            assert str(node.module).partition(".")[0] in sys.stdlib_module_names


def test_wire_types_need_nothing_that_python_3_9_lacks_when_they_are_evaluated() -> None:
    """Annotations of records are evaluated while they are parsed: ``X | None`` would fail there."""
    tree = ast.parse((ROOM / "wire.py").read_text())
    records = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    annotations = [item.annotation for one in records for item in one.body if isinstance(item, ast.AnnAssign)]
    assert len(annotations) > 30
    assert not [
        one for annotation in annotations for one in ast.walk(annotation) if isinstance(one, ast.BinOp)
    ]


def test_an_older_python_is_refused_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOM / "__main__.py").read_text()
    assert "annotations" not in text, "Python 3.6 does not know this import"
    monkeypatch.setattr(sys, "version_info", (3, 8, 18))
    with pytest.raises(SystemExit, match=r"needs Python 3\.9 or newer, and this one is older: .*python"):
        runpy.run_path(str(ROOM / "__main__.py"), run_name="__main__")


def test_the_agent_tells_the_version_of_the_package() -> None:
    assert version("pilotage") == VERSION


def test_the_file_is_the_same_bytes_each_time_and_holds_the_whole_room() -> None:
    first = agent_file()
    agent_file.cache_clear()
    assert agent_file() == first
    names = zipfile.ZipFile(io.BytesIO(first)).namelist()
    assert names == ["__main__.py", *sorted(f"agent/{path.relative_to(ROOM)}" for path in MODULES)]


def test_the_file_runs_by_itself(tmp_path: Path) -> None:
    (tmp_path / "agent.pyz").write_bytes(agent_file())
    told = subprocess.run(
        [sys.executable, "-I", "-S", "agent.pyz", "--help"], cwd=tmp_path, capture_output=True, check=True
    )
    assert b"--token-file" in told.stdout
    assert told.stderr == b""


@pytest.mark.parametrize(
    ("sent", "checked"),
    [
        (wire.Enrolment, pilot_agent.Enrolment),
        (wire.Reports, pilot_agent.Reports),
        (wire.Reason, pilot_agent.Reason),
        (wire.AttemptLogs, attempt_logs.AttemptLogs),
        (wire.Log, attempt_logs.Log),
        (wire.Report, world.Report),
        (wire.Output, world.Output),
        (wire.StorageFault, world.StorageFault),
        (wire.FileRequest, pilot_files.FileRequest),
        (spool_wire.SealedManifest, pilot_agent.SealedManifest),
        (spool_wire.LeftResults, left_manifests.LeftManifest),
        (spool_wire.LeftFile, left_manifests.LeftOutput),
    ],
)
def test_what_pilots_send_has_the_fields_that_the_server_checks(sent: Any, checked: Any) -> None:
    """The server's records have bounds; the agent's have none, because a node may lack pydantic."""
    assert _defaults(sent) == _defaults(checked)


def _defaults(record: Any) -> dict[str, Any]:
    """Return the default of each field; MISSING if a caller must give it."""
    if not issubclass(record, BaseModel):
        return {field.name: field.default for field in fields(record)}
    return {
        name: MISSING if field.is_required() else field.default for name, field in record.model_fields.items()
    }


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (b"[]", r"MatchAnswer: \[\] is not an object"),
        (b"{", "not JSON"),
        (b'{"lease": 1, "heartbeat": 1}', "MatchAnswer.idle is missing"),
        (b'{"lease": true, "heartbeat": 1, "idle": 1}', "MatchAnswer.lease: True is not of type float"),
        (
            b'{"lease": 1, "heartbeat": 1, "idle": 1, "works": [{"task": "x"}]}',
            r"works\[0\].task: 'x' is not",
        ),
        (b'{"lease": 1, "heartbeat": 1, "idle": 1, "works": {}}', "works: {} is not a list"),
    ],
)
def test_an_answer_that_is_not_one_is_refused_with_its_place(text: bytes, fault: str) -> None:
    with pytest.raises(WireError, match=fault):
        parse(wire.MatchAnswer, text)


def test_an_answer_may_have_fields_of_a_newer_server() -> None:
    text = b'{"lease": 1, "heartbeat": 2, "idle": 3, "mood": "good", "works": []}'
    assert parse(wire.MatchAnswer, text) == wire.MatchAnswer(1, 2, 3)


def test_records_come_back_from_their_text() -> None:
    report = wire.Report(1, 2, "done", exit_code=0, outputs=(wire.Output("a", 1, "adler32:00000001"),))
    told = wire.Reports(holding=((1, 2), (3, 4)), reports=(report,))
    assert parse(wire.Reports, serialise(told)) == told


def test_a_record_leaves_out_what_is_empty_so_that_earlier_servers_understand_it() -> None:
    text = serialise(wire.Report(1, 2, "failed", kind="disk"))
    assert json.loads(text) == {"job": 1, "attempt": 2, "state": "failed", "kind": "disk"}
    assert "kind" not in json.loads(serialise(wire.Report(1, 2, "failed")))


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        (wire.Enrolment, pilot_agent.Enrolment),
        (wire.Reports, pilot_agent.Reports),
        (wire.Report, world.Report),
        (wire.Reason, pilot_agent.Reason),
        (wire.FileRequest, pilot_files.FileRequest),
        (wire.AttemptLogs, attempt_logs.AttemptLogs),
        (wire.Log, attempt_logs.Log),
    ],
)
def test_the_server_has_the_same_defaults_as_the_agent(sent: type[Any], read: type[Any]) -> None:
    schema = TypeAdapter(read).json_schema()
    for one in fields(sent):
        if one.default is not MISSING:
            assert one.name not in schema.get("required", ()), one.name
            given = schema["properties"][one.name].get("default", one.default)
            assert given == (list(one.default) if one.default == () else one.default), one.name


def test_every_module_is_importable_on_its_own() -> None:
    for path in MODULES:
        if path.stem != "__main__":
            name = ".".join(path.relative_to(ROOM).with_suffix("").parts)
            importlib.import_module(f"pilotage.agent.{name}")
