"""Parts of the executor for Snakemake that need no server."""

import os
import random
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from snakemake_executor_plugin_pilotage.batches import (
    MOST_BYTES,
    MOST_ROWS,
    Row,
    batches,
    plain_name,
    shared_parts,
)
from snakemake_executor_plugin_pilotage.resources import task_fields
from snakemake_interface_common.exceptions import WorkflowError

from pilotage.client.session import is_hopeless


def row(command: str) -> Row:
    """Return a row with a command."""
    return Row(job=None, name="job", target=command, definition="", command=command)


def no_queues(sites: Iterable[str]) -> list[str]:
    """Return the queues of sites, in a federation that has one."""
    return ["north-long"] if "north" in sites else []


def test_fifty_thousand_jobs_are_tasks_of_a_bounded_size() -> None:
    rows = [
        ("each", {"cores": 1}, row(f"cd /work && python -m snakemake --target {at}")) for at in range(50_000)
    ]
    made = list(batches(rows))
    assert len(made) == 50
    assert [row.target for batch in made for row in batch.rows] == [row.target for _, _, row in rows]
    assert all(len(batch.document("label", False)["parameters"]) <= MOST_ROWS for batch in made)
    assert len({batch.key for batch in made}) == 50
    large = list(batches(("each", {}, row("x" * 50_000 + str(at))) for at in range(1000)))
    assert all(sum(len(row.command) for row in batch.rows) <= MOST_BYTES for batch in large)
    assert sum(len(batch.rows) for batch in large) == 1000


def test_rules_and_resources_that_differ_are_different_tasks() -> None:
    rows = [
        ("a", {"ram": 1}, row("1")),
        ("a", {"ram": 2}, row("2")),
        ("b", {"ram": 1}, row("3")),
        ("a", {"ram": 1}, row("4")),
    ]
    assert [[row.target for row in batch.rows] for batch in batches(rows)] == [["1", "4"], ["2"], ["3"]]


@pytest.mark.parametrize("seed", range(5))
def test_the_script_runs_each_command_as_it_was(seed: int, tmp_path: Path) -> None:
    """Quotes, braces, umlauts and line breaks; long ones fill several parameters."""
    signs = random.Random(seed)
    texts = ["".join(signs.choices("ab ä'\"$\\{}\n;&%", k=signs.choice((0, 5, 3000)))) for _ in range(4)]
    commands = [f"printf %s {quoted(text)} > out.txt" for text in texts]
    (batch,) = batches(("each", {}, row(command)) for command in commands)
    document = batch.document("label", False)
    for text, parameters in zip(texts, document["parameters"], strict=True):
        pieces = {name: value for name, value in parameters.items() if name.startswith("command_")}
        assert all(len(value.encode()) <= 4096 for value in pieces.values())
        (tmp_path / "run.sh").write_text(document["payload_files"]["run.sh"])
        names = {f"PILOTAGE_PARAMETER_{name}": value for name, value in pieces.items()}
        subprocess.run(["sh", "run.sh"], cwd=tmp_path, env={**os.environ, **names}, check=True)
        assert (tmp_path / "out.txt").read_text() == text


def quoted(text: str) -> str:
    """Return a text as one word of a shell."""
    return "'" + text.replace("'", "'\"'\"'") + "'"


def test_shared_parts_do_not_overlap() -> None:
    assert shared_parts(["abab", "ab"]) == ("ab", ["ab", ""], "")
    assert shared_parts(["one"]) == ("one", [""], "")
    assert shared_parts(["a1z", "a22z"]) == ("a", ["1", "22"], "z")


def test_resources_become_fields() -> None:
    resources = {
        "mem_mb": 2000,
        "runtime": 30,
        "disk_mb": 500,
        "gpu": 1,
        "tmpdir": "/tmp",
        "pilotage_share": "ours",
    }
    assert task_fields("align", 4, resources, no_queues, queue="a, b") == {
        "cores": 4,
        "ram": 2000,
        "ram_unit": "MB",
        "walltime": 1800,
        "work_disk": 500,
        "gpus": 1,
        "share": "ours",
        "queues": ["a", "b"],
    }
    assert task_fields("tiny", 1, {"mem_mb": 5}, no_queues)["ram"] == 500
    assert task_fields("far", 1, {"pilotage_site": "north"}, no_queues)["queues"] == ["north-long"]


@pytest.mark.parametrize(
    "resources", [{"mem_mb": "much"}, {"runtime": -1}, {"gpu": float("nan")}, {"disk_mb": [1]}]
)
def test_a_resource_that_is_no_number_is_refused_with_its_rule(resources: dict[str, object]) -> None:
    with pytest.raises(WorkflowError, match="rule align: the resource"):
        task_fields("align", 1, resources, no_queues)


def test_a_queue_outside_the_sites_is_refused() -> None:
    with pytest.raises(WorkflowError, match="rule align: none of the queues south is at north"):
        task_fields("align", 1, {"pilotage_queue": "south", "pilotage_site": "north"}, no_queues)


def test_only_what_no_queue_can_ever_run_is_hopeless() -> None:
    mine = {"mend": "user", "queues": ["a"]}
    theirs = {"mend": "operator", "queues": ["b"]}
    assert is_hopeless({"considered": 1, "refusals": [mine]})
    assert not is_hopeless({"considered": 2, "refusals": [mine, theirs]})
    assert is_hopeless({"considered": 2, "refusals": [mine, {"mend": "user", "queues": ["b"]}, theirs]})
    assert not is_hopeless({"considered": 0, "refusals": []})


def test_names_of_rules_are_names_of_tasks() -> None:
    assert plain_name("größe") == "gr__e"
    assert plain_name("_x") == "x"
    assert plain_name("ß") == "rule"
