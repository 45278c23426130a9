"""The server's home and store are its user's alone, and it loads what it needs."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from pilotage.server import process as server
from pilotage.store import Store
from tests.next_release import write_next_release


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


def test_a_token_that_the_store_does_not_know_is_replaced(tmp_path: Path) -> None:
    path, store = tmp_path / "token", Store.open("sqlite:///:memory:")
    try:
        path.write_text("of before the restore\n")
        server._first_token(store, path)
        token = path.read_text()
        found = store.tokens.find(token)
        assert found
        assert found.role == "operator"
        assert (tmp_path / "token.former").read_text() == "of before the restore\n"
        server._first_token(store, path)
        assert path.read_text() == token
    finally:
        store.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


FEDERATION = """
name: idle
sites: [{ name: north, nucleus: true }]
storages: [{ name: disk, site: north, url: "file://PLACE/disk", storage_min_free: 0 }]
queues: [{ name: q, site: north, storage: disk, computing_element: { options: { directory: PLACE/pilots } } }]
"""

ONLY_FOR_WORK = {
    *("numpy", "httpx", "requests", "asyncssh", "boto3", "alembic", "sqlalchemy.orm"),
    *("sqlalchemy.dialects.postgresql", "psycopg"),
    *("argparse", "html.parser", "tarfile", "urllib.request", "xml.etree.ElementTree"),
    *(
        "pilotage.agent.files.storage",
        "pilotage.policies.brokerage.production.cycle",
        "pilotage.adapters.computing.batch",
    ),
}


@pytest.mark.slow
def test_a_server_without_work_has_not_loaded_what_only_work_needs(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    declared = tmp_path / "federation.yaml"
    declared.write_text(FEDERATION.replace("PLACE", str(tmp_path)))
    url = f"sqlite:///{tmp_path}/store.db"
    Store.open(url).close()
    code = f"""
import sys
import pilotage.cli.app
from pathlib import Path
from pilotage.server import process as server
from pilotage.server.api import create_app
from pilotage.federation.documents import read
from pilotage.flow.calls.administration import acceptance
from pilotage.flow.step import take
from pilotage.model.records.federation import Federation
from pilotage.store import Store
assert "sqlite3" not in sys.modules, "of a store of another kind"
store = Store.open({url!r})
store.save_federation(read(Federation, {str(declared)!r}, acceptance.faults), "up")
runtime = server.runtime_of(store, server.STEPS, "http://127.0.0.1:1", Path({str(tmp_path)!r}))
create_app(runtime)
for step in filter(lambda step: step.has_loop, server.STEPS):
    take(step, runtime, runtime.begin(100))
print(*sys.modules)
"""
    found = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    assert ONLY_FOR_WORK & set(found.stdout.split()) == set()


@pytest.mark.slow
def test_what_migrations_need_is_not_kept(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    Store.open(url).close()
    source = write_next_release(tmp_path / "source")
    code = f"""
import sys
from pilotage.server import process as server
from pilotage.store import Store
assert not Store.is_current({url!r})
server._upgrade_apart({url!r})
assert Store.is_current({url!r})
Store.open({url!r}).close()
print(*({{"alembic", "mako"}} & sys.modules.keys()))
"""
    found = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.split() == []
