"""A payload's modules, by the node's real module command."""

import subprocess
from pathlib import Path

import pytest

from pilotage.model.records.spec import TaskSpec
from pilotage.model.rules.declared_environments import entered

pytestmark = pytest.mark.skipif(
    not Path("/etc/profile.d/modules.sh").exists(), reason="Environment Modules is not installed"
)


def run(place: Path, *modules: str) -> subprocess.CompletedProcess[str]:
    spec = TaskSpec(name="a", command=("sh", "-c", "echo $TOOL_HOME"), modules=modules)
    environment = {"PATH": "/usr/bin:/bin", "MODULEPATH": str(place)}
    return subprocess.run(entered(spec), env=environment, capture_output=True, text=True, check=False)


def test_a_module_is_loaded_and_one_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "tool").mkdir()
    (tmp_path / "tool" / "1.2").write_text("#%Module1.0\nsetenv TOOL_HOME /opt/tool\n")
    done = run(tmp_path, "tool/1.2")
    assert (done.returncode, done.stdout) == (0, "/opt/tool\n"), done.stderr
    missing = run(tmp_path, "tool/1.2", "tool/9")
    assert (missing.returncode, missing.stdout) == (127, "")
    assert "modules: tool/9 cannot be loaded on this node" in missing.stderr
