"""The server's home and store are its user's alone, and it loads what it needs."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from pilotage import server
from pilotage.store import Store


def test_a_store_that_is_a_file_is_readable_by_its_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "home" / "store.db"
    url = f"sqlite:///{path}"
    server._keep_private(url)
    store = Store.open(url)
    try:
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    finally:
        store.close()
    assert set(modes.values()) == {0o600}, modes
    path.chmod(0o644)
    server._keep_private(url)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.slow
def test_a_server_without_work_has_not_loaded_what_only_work_needs() -> None:
    code = (
        "import sys, pilotage.server; print(*({'numpy', 'httpx', 'asyncssh', 'boto3'} & sys.modules.keys()))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []


@pytest.mark.slow
def test_what_the_first_start_needs_for_the_tables_is_not_kept(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    code = f"""
import sys
from pilotage import server
from pilotage.store import Store
assert not Store.is_current({url!r})
server._upgrade_apart({url!r})
assert Store.is_current({url!r})
Store.open({url!r}).close()
print(*({{"alembic", "mako"}} & sys.modules.keys()))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []
