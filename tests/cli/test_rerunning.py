"""A manifest leads to the same task again, unless an input has changed, and to a comparison of outputs."""

import json
from pathlib import Path
from typing import Any

import pytest

from pilotage.client import crates

from .conftest import FakeServer, Pilotage

INPUT = {"name": "a b.fa", "size": 5, "checksum": "adler32:00000001", "replicas": ["north"], "scope": "atlas"}
TASK = {"name": "align", "command": ["x"], "inputs": [INPUT], "after": ["raw"], "on": "end", "seed": 7}
CHANGED = {"at": 0, "kind": "changed", "text": "it has 6 bytes now", "size": 6, "checksum": "adler32:2"}
GONE = {"at": 0, "kind": "gone", "text": "it is gone (north)", "size": 0, "checksum": ""}


def written(folder: Path, *entities: Any, task: Any = TASK) -> Path:
    """A manifest in a folder."""
    graph = [{"@id": crates.DOCUMENT, "text": json.dumps(task)}, *entities]
    (folder / crates.NAME).write_text(json.dumps({"@graph": graph}))
    return folder


def of_task(text: str) -> str:
    """A manifest with this text as the task."""
    return json.dumps({"@graph": [{"@id": crates.DOCUMENT, "text": text}]})


def of_file(**values: str) -> str:
    """A manifest with an output of these values."""
    file = {"@id": "1/x", "@type": "File", "name": "x", "contentSize": "1", **values}
    return json.dumps({"@graph": [{"@id": crates.DOCUMENT, "text": "{}"}, file]})


@pytest.fixture
def served(server: FakeServer) -> FakeServer:
    server.answers["POST /files/compare"] = {"differences": []}
    server.answers["POST /tasks"] = (201, {"tasks": [{"id": 13, "name": "align", "index": 0}], "refused": []})
    task = {"id": 13, "name": "align", "state": "finished", "jobs": {}, "error": "", "remarks": []}
    server.answers["GET /tasks/13"] = task
    return server


def submitted(served: FakeServer) -> list[Any]:
    """The tasks that were submitted."""
    return [task for call, body in served.requests if call == "POST /tasks" for task in body["tasks"]]


def test_the_task_of_a_folder_runs_again_and_waits_for_no_other(
    pilotage: Pilotage, served: FakeServer, tmp_path: Path
) -> None:
    told = pilotage("rerun", written(tmp_path))
    assert (told.exit_code, told.stdout) == (0, "13 align\n")
    assert submitted(served) == [{"name": "align", "command": ["x"], "inputs": [INPUT], "seed": 7}]


def test_a_changed_input_is_named_and_read_only_where_that_is_asked_for(
    pilotage: Pilotage, served: FakeServer, tmp_path: Path
) -> None:
    served.answers["POST /files/compare"] = {"differences": [CHANGED]}
    file = written(tmp_path) / crates.NAME
    told = pilotage("rerun", file)
    assert (told.exit_code, submitted(served)) == (1, [])
    assert told.stderr.splitlines() == [
        "a b.fa: it has 6 bytes now",
        "not submitted: 1 input changed or gone; --changed reads changed inputs as they are now",
    ]
    assert pilotage("rerun", file, "--changed").exit_code == 0
    (task,) = submitted(served)
    assert task["inputs"] == [{**INPUT, "size": 6, "checksum": "adler32:2"}]


def test_a_task_that_never_had_its_inputs_does_not_run_again(
    pilotage: Pilotage, served: FakeServer, tmp_path: Path
) -> None:
    """The names of tasks before it may mean other tasks now."""
    told = pilotage("rerun", written(tmp_path, task={**TASK, "inputs": [{"task": "raw", "match": "*"}]}))
    assert (told.exit_code, submitted(served)) == (1, [])
    assert "its task ended before it had the outputs of the tasks before it" in told.stderr


@pytest.mark.parametrize("secrets", [["ena"], [{"name": "ena", "file": "token"}]])
def test_a_manifest_reads_secrets_only_where_that_is_allowed(
    pilotage: Pilotage, served: FakeServer, tmp_path: Path, secrets: list[Any]
) -> None:
    manifest = written(tmp_path, task={**TASK, "command": ["curl", "-d", "@a b"], "secrets": secrets})
    answer = pilotage("rerun", manifest)
    assert (answer.exit_code, submitted(served)) == (1, [])
    assert "reads secrets of yours: ena; --secrets allows it. It runs: curl -d '@a b'" in answer.stderr
    assert pilotage("rerun", manifest, "--secrets").exit_code == 0
    (task,) = submitted(served)
    assert task["secrets"] == secrets


def test_an_input_that_is_gone_stops_it_in_any_case(
    pilotage: Pilotage, served: FakeServer, tmp_path: Path
) -> None:
    served.answers["POST /files/compare"] = {"differences": [GONE]}
    told = pilotage("rerun", written(tmp_path), "--changed")
    assert (told.exit_code, submitted(served)) == (1, [])
    assert told.stderr == "a b.fa: it is gone (north)\nnot submitted: 1 input changed or gone\n"


def test_outputs_are_compared_by_the_place_of_their_job(
    pilotage: Pilotage, served: FakeServer, tmp_path: Path
) -> None:
    def entity(job: int, index: int, digits: str) -> dict[str, Any]:
        place = {"@id": f"{job}/o%201.txt", "@type": "File", "name": "o 1.txt", "position": index}
        return {**place, "contentSize": "4", "adler32": digits}

    def output(job: int, index: int, digits: str) -> dict[str, Any]:
        name = f"tasks/f/13/{job}/o 1.txt"
        made = {"name": name, "file": f"user.a:{name}", "kind": "normal", "replicas": [], "job": job}
        return {**made, "index": index, "size": 4, "checksum": f"adler32:{digits}"}

    folder = written(tmp_path, entity(8, 0, "00000001"), entity(9, 1, "00000002"), entity(10, 2, "00000003"))
    outputs = [output(91, 1, "00000002"), output(90, 0, "00000001"), output(92, 2, "00000003")]
    served.answers["GET /tasks/13/outputs"] = {"files": outputs}
    told = pilotage("rerun", folder, "--compare", "13")
    assert (told.exit_code, told.stdout) == (0, "task 13: 3 outputs equal to the manifest\n")
    served.answers["GET /tasks/13/outputs"] = {"files": [output(90, 0, "0000000f"), outputs[0]]}
    told = pilotage("rerun", folder, "--compare", "13")
    assert (told.exit_code, told.stderr.splitlines()) == (
        1,
        [
            "o 1.txt of job 0 has 4 bytes, adler32:0000000f, and had 4 bytes, adler32:00000001",
            "o 1.txt of job 2 is missing",
            "task 13: 2 outputs unlike the manifest",
        ],
    )
    assert submitted(served) == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("name: align", "it is no JSON"),
        ("[" * 100_000, "it is no JSON"),
        ("[]", "it is no RO-Crate"),
        ('{"@graph": [1, {"@id": "#task-document", "text": 3}]}', "no entity #task-document with a task"),
        ('{"@graph": [{"@id": "#task-document", "text": "{"}]}', "its entity #task-document is no JSON"),
        (
            '{"@graph": [{"@id": "#task-document", "text": "{}"}, {"@id": "1/x", "@type": "File"}]}',
            "its file 1/x has no number as size",
        ),
        (of_file(contentSize="9" * 5000), "its file 1/x has no number as size"),
        (of_file(name="x\ntask 13: 1 output equal to the manifest"), "its file 1/x has no name"),
        (of_file(sha256="0\n1"), "its file 1/x has a checksum with other characters"),
        (of_task('{"inputs": 5}'), "the inputs of the task in #task-document are no list"),
        (of_task('{"inputs": [{"size": NaN}]}'), "NaN is not a finite number"),
        (of_task('{"name": "\\ud800"}'), "is no JSON"),
        (of_task('{"a": ' * 100_000), "is no JSON"),
        ('{"@graph": {"text": "{}"}}', "it is no RO-Crate"),
    ],
)
def test_what_is_no_manifest_is_refused_with_its_fault(
    pilotage: Pilotage, served: FakeServer, tmp_path: Path, content: str, reason: str
) -> None:
    file = tmp_path / "edited.json"
    file.write_text(content)
    told = pilotage("rerun", file)
    assert f"{file}: " in told.stderr
    assert (told.exit_code, len(told.stderr.splitlines())) == (2, 1)
    assert reason in told.stderr
    assert served.requests == []


def test_a_pipe_or_device_in_place_of_a_manifest_is_not_read(
    pilotage: Pilotage, served: FakeServer, tmp_path: Path
) -> None:
    (tmp_path / crates.NAME).symlink_to("/dev/zero")
    told = pilotage("rerun", tmp_path)
    assert (told.exit_code, "it is no file" in told.stderr) == (2, True)
    assert served.requests == []


def test_a_folder_without_a_manifest_names_those_in_it(pilotage: Pilotage, tmp_path: Path) -> None:
    (tmp_path / "flow" / "align").mkdir(parents=True)
    written(tmp_path / "flow" / "align")
    told = pilotage("rerun", tmp_path / "flow")
    assert (told.exit_code, "these folders in it have one: align" in told.stderr) == (2, True)


def test_a_file_that_is_too_large_is_not_read(
    pilotage: Pilotage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crates, "LARGEST_MANIFEST", 1 << 20)
    with (tmp_path / crates.NAME).open("wb") as file:
        file.truncate((1 << 20) + 1)
    told = pilotage("rerun", tmp_path)
    assert (told.exit_code, "has more than 1 MiB" in told.stderr) == (2, True)
