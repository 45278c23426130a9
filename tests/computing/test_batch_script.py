"""The script that a batch system starts, run by a shell with a stand-in for Python."""

import subprocess
from pathlib import Path

import pytest

from pilotage.adapters.computing.batch.options import BatchOptions
from pilotage.adapters.computing.batch.script import pilot_script
from pilotage.adapters.computing.batch.spool import SpoolPaths
from pilotage.ports.computing import PilotOrder

PYTHON = """#!/bin/sh
case "$1" in -c) exit 0 ;; esac
for word; do case "$word" in --directory=*) mkdir "${word#--directory=}/4.1" ;; esac; done
__END__
"""


@pytest.mark.parametrize(
    ("end", "code", "left"),
    [("kill -9 $$", 137, []), ("exit 3", 3, ["4.1"]), ("rmdir */4.1; exit 0", 0, [])],
)
def test_a_killed_agent_leaves_no_files_of_its_attempts(
    tmp_path: Path, end: str, code: int, left: list[str]
) -> None:
    work, python = tmp_path / "work", tmp_path / "python"
    work.mkdir()
    python.write_text(PYTHON.replace("__END__", end))
    python.chmod(0o755)
    (tmp_path / "tokens").mkdir()
    for name in ("tokens/p", "agent"):
        (tmp_path / name).touch()
    order = PilotOrder(pilot=1, name="p", token="the-secret", server_url="http://x")
    options = BatchOptions(python=str(python), directory=str(work), spool=str(tmp_path))
    text = pilot_script([order], "", SpoolPaths(str(tmp_path), "agent"), options, "INDEX", order.server_url)
    done = subprocess.run(["sh"], input=text, text=True, cwd=work, check=False)
    assert done.returncode == code
    assert [path.name for path in work.glob("*/*")] == left
