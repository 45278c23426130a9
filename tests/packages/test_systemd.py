"""The units for systemd: their syntax, and what they may not do."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.packages.places import ROOT

UNITS = ROOT / "deploy" / "systemd"
SERVICES = ("pilotage.service", "pilotage@8471.service", "pilotage-backup.service")
TEMPLATES = ("pilotage.service", "pilotage@.service", "pilotage-backup.service")
MOST_EXPOSED = 30
"""Tenths: systemd's own measure is 0 for a service that may do nothing, and 10 for one that may do all."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with this machine's units and those of Pilotage, installed as the page says."""
    if not shutil.which("systemd-analyze") or not Path("/lib/systemd/system").is_dir():
        pytest.skip("systemd is not installed")
    root = tmp_path_factory.mktemp("root")
    shutil.copytree("/lib/systemd/system", root / "usr/lib/systemd/system", symlinks=True)
    units = root / "etc/systemd/system"
    units.mkdir(parents=True)
    for file in UNITS.glob("pilotage*"):
        shutil.copy(file, units)
    for name in TEMPLATES:
        (units / f"{name}.d").mkdir()
        shutil.copy(UNITS / "hardening.conf", units / f"{name}.d")
    for program in ("opt/pilotage/bin/pilotage", "bin/sh", "usr/bin/find"):
        (root / program).parent.mkdir(parents=True, exist_ok=True)
        (root / program).touch(mode=0o755)
    return root


def _analyze(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = ["systemd-analyze", *words, f"--root={root}", "--no-pager"]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.parametrize("unit", [*SERVICES, "pilotage-backup.timer"])
def test_systemd_verifies_the_unit(root: Path, unit: str) -> None:
    done = _analyze(root, "verify", "--man=no", unit)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_systemd_finds_a_fault_in_a_unit(root: Path) -> None:
    text = (UNITS / "pilotage.service").read_text()
    (root / "etc/systemd/system/wrong.service").write_text(
        text.replace("WatchdogSec=60", "WatchdogSec=often")
    )
    assert "Failed to parse" in _analyze(root, "verify", "--man=no", "wrong.service").stderr


@pytest.mark.parametrize("unit", SERVICES)
def test_a_service_may_do_little(root: Path, unit: str) -> None:
    done = _analyze(root, "security", "--offline=true", f"--threshold={MOST_EXPOSED}", unit)
    assert done.returncode == 0, done.stdout + done.stderr
    (exposure,) = re.findall(r"exposure level for \S+: ([\d.]+)", done.stdout)
    assert float(exposure) < 3.0


def test_both_servers_have_the_same_settings() -> None:
    first, second = ((UNITS / name).read_text() for name in ("pilotage.service", "pilotage@.service"))
    lines = [
        {line for line in text.partition("[Service]")[2].splitlines() if line and not line.startswith("#")}
        for text in (first, second)
    ]
    assert len(lines[0]) > 15
    assert {line.replace("pilotage-%i", "pilotage").replace(" --port %i", "") for line in lines[1]} == lines[
        0
    ]
