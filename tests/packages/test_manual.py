"""The wheel has a man page for each command, and completion for three shells."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from generators.manual import COMPLETIONS
from pilotage.cli.commands import ENTRIES
from tests.packages.places import release_file
from tests.packages.running import run

WITH_PILOTAGE = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


@pytest.fixture(scope="module")
def share(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder ``share`` of the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    with zipfile.ZipFile(release_file(".whl")) as wheel:
        wheel.extractall(folder)
    (data,) = folder.glob("*.data")
    return data / "data" / "share"


def _require(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"{program} is not installed")
    return path


def test_every_command_has_a_page_that_formats_without_a_warning(share: Path) -> None:
    formatter = _require("groff")
    pages = sorted((share / "man" / "man1").iterdir())
    names = {page.stem for page in pages}
    assert {f"pilotage-{name}" for name in ENTRIES} <= names
    assert {"pilotage", "pilotage-store-backup", "pilotage-queues-drain"} <= names
    command = [formatter, "-man", "-Tutf8", "-ww", *map(str, pages)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "MANWIDTH": "80"}
    )
    assert done.stderr == ""
    text = re.sub(r"\x1b\[[0-9;]*m|.\x08", "", done.stdout)
    assert "pilotage store backup [OPTIONS] {file}" in text
    assert "--because" in text


def test_the_page_of_a_command_has_its_options_and_its_example(share: Path) -> None:
    page = (share / "man" / "man1" / "pilotage-queues-drain.1").read_text()
    for part in (".SH NAME", ".SH SYNOPSIS", r"\fB\-\-because", "Example: pilotage queues drain", "(1)"):
        assert part in page


def test_bash_completes_commands(share: Path) -> None:
    script = f"""
        source {share / COMPLETIONS["bash"]}
        COMP_WORDS=(pilotage store b) COMP_CWORD=2
        "$(complete -p pilotage | sed 's/.*-F \\([^ ]*\\).*/\\1/')" pilotage
        echo "${{COMPREPLY[*]}}"
    """
    output = run("bash", "-ec", script, environment=WITH_PILOTAGE)
    assert output == "backup\n"


def test_fish_completes_commands(share: Path, tmp_path: Path) -> None:
    script = f"source {share / COMPLETIONS['fish']}; complete -C 'pilotage store b'"
    environment = {**WITH_PILOTAGE, "HOME": str(tmp_path)}
    assert run(_require("fish"), "-c", script, environment=environment).startswith("backup")


def test_zsh_loads_the_completion_from_its_folder(share: Path, tmp_path: Path) -> None:
    folder = (share / COMPLETIONS["zsh"]).parent
    script = f"""
        fpath=({folder} $fpath); autoload -U compinit; compinit -D -u
        print $_comps[pilotage]
        functions[_describe]=''; _arguments() {{ print -l -- "$@" }}
        words=(pilotage store b); CURRENT=3
        _pilotage
    """
    environment = {**WITH_PILOTAGE, "HOME": str(tmp_path)}
    output = run(_require("zsh"), "-fc", script, environment=environment).splitlines()
    assert output[0] == "_pilotage"
    assert any('"backup"' in line for line in output)
