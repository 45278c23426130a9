"""A payload runs inside the environments that its task declares, or says which its node lacks."""

import subprocess
from pathlib import Path

import pytest

from pilotage.model.records.spec import TaskSpec
from pilotage.model.rules.declared_environments import entered

SAY = ("sh", "-c", 'tool "$1"; echo "$LOADED|$CONDA_PREFIX"', "say", "a b")


def program(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


def run(spec: TaskSpec, path: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": f"{path}:/usr/bin:/bin"}
    return subprocess.run(entered(spec), env=environment, capture_output=True, text=True, check=False)


def test_programs_of_the_environment_come_first_and_arguments_stay_whole(tmp_path: Path) -> None:
    program(tmp_path / "rna" / "bin" / "tool", 'echo "of the environment: $1"')
    program(tmp_path / "node" / "tool", 'echo "of the node: $1"')
    done = run(TaskSpec(name="a", command=SAY, conda=f"{tmp_path}/rna"), tmp_path / "node")
    assert done.stdout == f"of the environment: a b\n|{tmp_path}/rna\n", done.stderr


def test_modules_are_loaded_in_their_order(tmp_path: Path) -> None:
    program(tmp_path / "module", f'echo "$*" >>{tmp_path}/calls')
    program(tmp_path / "tool", "true")
    spec = TaskSpec(name="a", command=SAY, modules=("gcc/12", "samtools"))
    assert run(spec, tmp_path).returncode == 0
    assert (tmp_path / "calls").read_text() == "load gcc/12\nload samtools\n"


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"conda": "/nowhere/env"}, "conda: no environment at /nowhere/env"),
        ({"modules": ("gcc/99",)}, "modules: gcc/99 cannot be loaded"),
    ],
)
def test_a_node_that_lacks_one_says_so(tmp_path: Path, fields: dict[str, object], told: str) -> None:
    program(tmp_path / "module", "exit 1")
    done = run(TaskSpec(name="a", command=SAY, **fields), tmp_path)  # type: ignore[arg-type]
    assert (done.returncode, done.stdout) == (127, "")
    assert told in done.stderr


def test_without_any_the_command_is_as_it_was() -> None:
    assert entered(TaskSpec(name="a", command=SAY)) == SAY
    assert entered(TaskSpec(name="a", modules=("gcc",))) == ()
