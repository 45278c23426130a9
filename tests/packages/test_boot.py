"""The page's commands make a service on a Debian that a real systemd boots, in a container."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.packages.namespaces import with_unified_groups
from tests.packages.places import DIST, page_commands
from tests.packages.pythons import SERVICES, debian_root, download_wheels, missing_for_roots

HERE = Path(__file__).parent
SETTINGS = """
PILOTAGE_STORE=postgresql+psycopg://pilotage@/pilotage?host=/run/postgresql
PILOTAGE_FEDERATION=/etc/pilotage/federation.yaml
"""
FEDERATION = """
name: booted
sites: [{ name: here, nucleus: true }]
storages: [{ name: disk, site: here, url: "file:///var/lib/pilotage-data/disk", storage_min_free: 0 }]
queues:
  - name: local
    site: here
    storage: disk
    computing_element: { kind: process, options: { directory: /var/lib/pilotage-data/pilots } }
"""
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


def test_a_booted_debian_runs_the_services_as_the_page_says(tmp_path: Path) -> None:
    if missing := missing_for_roots() or (
        "" if shutil.which("systemd-nspawn") else "systemd-nspawn is not installed"
    ):
        pytest.skip(missing)
    root = debian_root("trixie", *SERVICES)
    out, test = tmp_path / "out", tmp_path / "test"
    out.mkdir()
    test.mkdir()
    shutil.copy(HERE / "boot.sh", test)
    files = {
        "pilotage.env": SETTINGS,
        "federation.yaml": FEDERATION,
        "page.sh": page_commands("## A server, by systemd"),
        "boot.service": UNIT,
    }
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
        "payload from a payload",
        "states active active active ",
        "backups 1",
        "restarted after: Watchdog timeout",
        "ends success success",
    ]
