"""Ended attempts for accounting elsewhere: formats, and files that neither lose nor double an attempt."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pilotage.cli.errors import BadInput, CommandFailure
from pilotage.cli.work.attempt_files import Checkpoint, export_files
from pilotage.cli.work.attempt_formats import apel, auditor, jsonl

from .conftest import FakeServer, Pilotage


def attempt(number: int = 1, **values: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {
        "id": number,
        "job": 10 + number,
        "attempt": 2,
        "task": 3,
        "person": "alice",
        "vo": "ligo",
        "group": "cbc",
        "share": "default",
        "queue": "north-queue",
        "site": "north",
        "node": "n1",
        "cores": 4,
        "gpus": 0,
        "memory": 2000.0,
        "max_rss": 1500.4,
        "started": 1_700_000_000.2,
        "ended": 1_700_000_100.9,
        "seconds": 99.6,
        "cpu_seconds": 350.2,
        "core_power": 12.5,
        "read_bytes": 5,
        "written_bytes": 6,
        "outcome": "finished",
        "cause": "",
        "culprit": "",
    }
    return {**usual, **values}


def test_apel_gets_job_records_of_its_format() -> None:
    assert apel([attempt()], "fed").splitlines() == [
        "APEL-individual-job-message: v0.3",
        "Site: north",
        "SubmitHost: fed",
        "MachineName: fed",
        "Queue: north-queue",
        "LocalJobId: 11.2",
        "LocalUserId: alice",
        "GlobalUserName: alice",
        "VO: ligo",
        "VOGroup: cbc",
        "WallDuration: 100",
        "CpuDuration: 350",
        "Processors: 4",
        "NodeCount: 1",
        "StartTime: 1700000000",
        "EndTime: 1700000100",
        "InfrastructureDescription: Pilotage",
        "InfrastructureType: grid",
        "MemoryReal: 1500400",
        "ServiceLevelType: hepscore23",
        "ServiceLevel: 12.5",
        "%%",
    ]


def test_names_break_no_record() -> None:
    evil = attempt(queue="q\n%%\nSite: other", person="a%%b", group="", site="", max_rss=0.0)
    lines = apel([evil, attempt(2)], "fed").splitlines()
    assert lines.count("%%") == 2
    assert [line for line in lines if line.startswith("Site")] == ["Site: unknown", "Site: north"]
    assert "Queue: q  % Site: other" in lines
    assert not any(line.startswith(("MemoryReal: 0", "VOGroup: \n")) for line in lines)
    (record,) = auditor([attempt(queue='a/b"{c}', node="")], "fe/d").splitlines()
    assert json.loads(record)["meta"]["queue"] == ["a_b__c_"]
    assert json.loads(record)["record_id"] == "pilotage-fe_d-11-2"


def test_auditor_gets_records_of_its_interface() -> None:
    record = json.loads(auditor([attempt()], "fed"))
    assert record["start_time"] == "2023-11-14T22:13:20Z"
    assert record["stop_time"] == "2023-11-14T22:15:00Z"
    assert record["meta"]["site_id"] == ["north"]
    assert "cause" not in record["meta"]
    cores, *more = record["components"]
    assert cores == {"name": "Cores", "amount": 4, "scores": [{"name": "HEPscore23", "value": 12.5}]}
    assert {one["name"]: one["amount"] for one in more} == {
        "Memory": 2000,
        "MaxRSS": 1500,
        "TotalCPU": 350,
        "Walltime": 100,
    }


def test_a_later_loss_is_no_further_job_elsewhere() -> None:
    lost = attempt(outcome="lost", cause="storage")
    assert apel([lost], "fed") == auditor([lost], "fed") == ""
    assert json.loads(jsonl([lost], "fed"))["outcome"] == "lost"


class Server:
    """A server with some attempts, three on a page. A new one ends after each page that it gives."""

    def __init__(self, count: int) -> None:
        self.attempts = [attempt(number) for number in range(1, count + 1)]

    def read(self, after: int) -> Any:
        page = [one for one in self.attempts if one["id"] > after][:3]
        self.attempts.append(attempt(len(self.attempts) + 1)) if len(self.attempts) < 12 else None
        return {
            "attempts": page,
            "next": page[-1]["id"] if page else after,
            "more": len(page) == 3,
            "forgotten": 0,
        }


class Interrupted(Exception):
    """The run was killed."""


def numbers(attempts: Sequence[Any]) -> str:
    return "".join(f"{one['id']}\n" for one in attempts)


@pytest.mark.parametrize("step", range(1, 24))
def test_whenever_a_run_is_interrupted_each_attempt_is_in_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    server, folder, checkpoint = Server(8), tmp_path / "out", tmp_path / "checkpoint"
    syncs = iter(range(1, 10_000))
    sync = os.fsync

    def interrupted(file: int) -> None:
        if next(syncs) == step:
            raise Interrupted
        sync(file)

    monkeypatch.setattr(os, "fsync", interrupted)
    for _ in range(2):
        try:
            export_files(folder, "txt", checkpoint, server.read, numbers)
        except Interrupted:
            continue
    export_files(folder, "txt", checkpoint, server.read, numbers)
    files = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    told = [int(line) for path in files for line in path.read_text().split()]
    assert told == [one["id"] for one in server.attempts] == [*range(1, 13)]
    assert export_files(folder, "txt", checkpoint, server.read, numbers) == (0, 0)


def test_a_checkpoint_of_deleted_attempts_or_of_something_else_is_refused(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    Checkpoint(5, 0).write(checkpoint)

    def read(after: int) -> Any:
        return {"attempts": [attempt(9)], "next": 9, "more": False, "forgotten": 8}

    with pytest.raises(CommandFailure, match="attempts 6 to 8 are deleted"):
        export_files(tmp_path / "out", "txt", checkpoint, read, numbers)
    for text in ("", "[]", '{"after": "1", "last": 0}', '{"after": -1, "last": 0}'):
        checkpoint.write_text(text)
        with pytest.raises(BadInput, match="is no checkpoint"):
            Checkpoint.read(checkpoint)


def test_attempts_are_printed_or_written_into_a_folder(
    pilotage: Pilotage, server: FakeServer, tmp_path: Path
) -> None:
    server.answers["GET /federation"] = {"name": "fed"}
    server.answers["GET /attempts"] = {
        "attempts": [attempt(), attempt(2)],
        "next": 2,
        "more": False,
        "forgotten": 0,
    }
    shown = pilotage("usage", "export", "--since", "2023-11-15", "--until", "2023-11-16")
    assert shown.exit_code == 0
    assert [json.loads(line) for line in shown.stdout.splitlines()] == [
        {"instance": "fed", **attempt()},
        {"instance": "fed", **attempt(2)},
    ]
    assert server.requests[-1][0] == "GET /attempts?after=0&since=1700006400.0&until=1700092800.0"
    to = ("--to", tmp_path / "out", "--checkpoint", tmp_path / "checkpoint")
    told_files = pilotage("usage", "export", "--format", "apel", *to, "--json")
    assert json.loads(told_files.stdout) == {"attempts": 2, "files": 1}
    (message,) = (tmp_path / "out").iterdir()
    assert message.name == "attempts-000000000001-000000000002.apel"
    assert message.read_text() == apel([attempt(), attempt(2)], "fed")
    for words, told in {
        ("--format", "xml"): "--format xml: choose from jsonl, apel, auditor",
        ("--to", str(tmp_path)): "--to and --checkpoint belong together",
        ("--json",): "--json needs --to",
        ("--since", "1d", "--until", "2d"): "--since 1d is after --until 2d",
    }.items():
        refused = pilotage("usage", "export", *words)
        assert refused.exit_code == 2
        assert told in " ".join(refused.stderr.split())
