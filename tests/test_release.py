"""The version names the commit, in a clone, in an archive that git wrote, and in a package."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pilotage.release import full_version

ROOT = Path(__file__).parents[1]


def _printed_version(source: Path) -> str:
    command = [sys.executable, "-c", "from pilotage.release import full_version; print(full_version())"]
    answer = subprocess.run(
        command, env={"PYTHONPATH": str(source), "PATH": ""}, capture_output=True, text=True, check=True
    )
    return answer.stdout.strip()


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this folder is no clone")
def test_a_clone_names_its_commit() -> None:
    command = ["git", "rev-parse", "--short=12", "HEAD"]
    commit = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    assert full_version() == f"0.1.0+{commit}"


@pytest.mark.parametrize(
    ("packaged", "version"), [("0123456789abcdef", "0.1.0+0123456789ab"), ("$Format:%H$", "0.1.0")]
)
def test_a_copy_without_git_has_what_its_file_names(tmp_path: Path, packaged: str, version: str) -> None:
    package = tmp_path / "pilotage"
    package.mkdir()
    for name in ("__init__.py", "release.py"):
        shutil.copy(ROOT / "src" / "pilotage" / name, package)
    (package / "commit.txt").write_text(f"{packaged}\n")
    assert _printed_version(tmp_path) == version


@pytest.mark.slow
def test_a_wheel_has_the_commit_and_the_synchronous_client(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    shutil.unpack_archive(wheel, tmp_path / "installed", "zip")
    assert re.fullmatch(r"0\.1\.0\+[0-9a-f]{12}|0\.1\.0", _printed_version(tmp_path / "installed"))
    assert _printed_version(tmp_path / "installed") == full_version()
    client = Path("pilotage", "client", "_sync", "client.py")
    assert (tmp_path / "installed" / client).read_bytes() == (ROOT / "src" / client).read_bytes()
