"""The page on production makes its services on a Debian that a real systemd boots, in a container."""

import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.next_release import COMMIT, turn_into_next_release
from tests.packages.namespaces import with_unified_groups
from tests.packages.places import DIST, MONITORED, production_commands, release_file, upgrade_commands
from tests.packages.pythons import SERVICES, debian_root, download_wheels, missing_for_roots

HERE = Path(__file__).parent
UNIT = """
[Unit]
After=postgresql.service
[Service]
Type=oneshot
ExecStart=/srv/test/boot.sh
"""


def _boot(root: Path, folders: dict[Path, str], seconds: float) -> str:
    """Boot a root until it powers itself off; its files change in memory alone. Return what it wrote."""
    binds = [f"--bind={folder}:{place}" for folder, place in folders.items()]
    options = ("--quiet", "--register=no", "--keep-unit", "--private-network", "--volatile=overlay", *binds)
    # All of it ends with this command.
    alone = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    container = ("systemd-nspawn", f"--directory={root}", *options, "--boot", "systemd.wants=boot.service")
    environment = {"PATH": os.environ["PATH"], "TERM": "dumb"}
    done = subprocess.run(
        with_unified_groups(*alone, *container),
        env=environment,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    return done.stdout + done.stderr


def _write_next_release(source: Path, folder: Path) -> None:
    """Write the wheel of a made-up next release into a folder."""
    wheel = release_file(".whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(source)
    turn_into_next_release(source / "pilotage")
    folder.mkdir()
    shutil.move(shutil.make_archive(str(source), "zip", source), folder / wheel.name)


def test_a_booted_debian_comes_to_production_as_the_page_says(tmp_path: Path) -> None:
    if missing := missing_for_roots() or (
        "" if shutil.which("systemd-nspawn") else "systemd-nspawn is not installed"
    ):
        pytest.skip(missing)
    root = debian_root("trixie", *SERVICES)
    out, test = tmp_path / "out", tmp_path / "test"
    out.mkdir()
    test.mkdir()
    for name in ("boot.sh", "monitoring.py", "submissions.py"):
        shutil.copy(HERE / name, test)
    files = {"page.sh": production_commands(), "upgrade.sh": upgrade_commands(), "boot.service": UNIT}
    _write_next_release(tmp_path / "source", test / "next")
    for name, text in files.items():
        (test / name).write_text(text)
    wheels = download_wheels("3.13")
    folders = {DIST: "/srv/dist", wheels: "/srv/wheels", test: "/srv/test", out: "/srv/out"}
    folders[test / "boot.service"] = "/etc/systemd/system/boot.service"
    console = _boot(root, folders, 3000)
    log = (out / "log").read_text() if (out / "log").exists() else console
    assert (out / "code").read_text() == "0\n", log
    assert (out / "notes").read_text().splitlines() == [
        "status serves requests",
        "user pilotage",
        "limits CapBnd: 0000000000000000 NoNewPrivs: 1 Seccomp: 2 ",
        "states active active active active active ",
        "backups 1",
        *MONITORED.splitlines(),
        "payload from a payload",
        "attempts finished 1.0",
        "submissions finished",
        f"versions 0.1.0+{COMMIT} 0.1.0+{COMMIT}",
        "restarted after: Watchdog timeout",
        "ends success success",
    ]
