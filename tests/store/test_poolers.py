"""A connection pooler between servers and PostgreSQL: what works, and how the doctor finds what does not."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import make_url

from pilotage.server.doctor.checks import all_checks
from pilotage.server.doctor.examination import examined
from pilotage.server.doctor.installation import Installation
from pilotage.settings import Settings
from pilotage.store import Store
from pilotage.store.database.errors import SessionsShared
from tests.waiting import PATIENCE, wait_for

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
SETTINGS = """
[databases]
* = host={socket} port={port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = trust
auth_file = {place}/users.txt
pool_mode = {mode}
default_pool_size = 60
logfile = {place}/log
"""

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.skipif(PROGRAM is None, reason="there is no pgbouncer"),
]

Pooled = Callable[[str], str]


@pytest.fixture
def pooled(postgresql_url: str, free_port: int) -> Iterator[Pooled]:
    """Start a pooler of a mode before a new store, and return the store's address there."""
    # Not below pytest's own folder, which the pooler's user may not enter.
    place = Path(tempfile.mkdtemp(prefix="pilotage-pooler-"))
    url = make_url(postgresql_url)
    socket, started = Path(str(url.query["host"])), list[subprocess.Popen[bytes]]()

    def start(mode: str) -> str:
        (place / "users.txt").write_text(f'"{url.username}" ""\n')
        file = place / "pgbouncer.ini"
        file.write_text(
            SETTINGS.format(socket=socket, port=url.port or 5432, listen=free_port, place=place, mode=mode)
        )
        owner = socket.stat().st_uid
        if os.getuid() != owner:
            for path in (place, *place.iterdir()):
                os.chown(path, owner, -1)
        user = ("-u", pwd.getpwuid(owner).pw_name)
        started.append(subprocess.Popen([str(PROGRAM), "-q", *user, str(file)]))
        log = place / "log"
        wait_for(lambda: log.exists() and "process up" in log.read_text(), "the pooler", 30)
        at = url.set(host="127.0.0.1", port=free_port, query={})
        return at.render_as_string(hide_password=False)

    yield start
    for process in started:
        process.terminate()
        process.wait(PATIENCE)
    shutil.rmtree(place)


def faults(home: Path, url: str) -> list[str]:
    """What the doctor finds of poolers."""
    known = Installation(Settings.read(home=str(home), store=url, url="http://127.0.0.1:1"))
    wanted = [one for one in all_checks() if one.first or one.name == "database pooler"]
    try:
        return [
            finding.what
            for one in examined(known, wanted)
            if one.check == "database pooler"
            for finding in one.findings
        ]
    finally:
        known.close()


def test_servers_share_a_store_through_a_pooler_of_sessions(pooled: Pooled, tmp_path: Path) -> None:
    url = pooled("session")
    names = "SELECT DISTINCT application_name FROM pg_stat_activity WHERE datname = current_database()"
    settings = "SELECT current_setting('lock_timeout'), current_setting('enable_seqscan')"
    with closing(Store.open(url, server="one")) as one, closing(Store.open(url, server="two")) as two:
        assert two.database.run(settings, {}) == [("30s", "off")]
        assert {name for (name,) in two.database.run(names, {})} >= {"pilotage one", "pilotage two"}
        with closing(two.notices.listen()) as heard:
            one.notices.send("wake up")
            assert next(iter(heard.receive(PATIENCE))) == "wake up"
    assert faults(tmp_path, url) == []


def test_a_server_refuses_a_pooler_of_transactions_and_the_doctor_finds_it(
    pooled: Pooled, tmp_path: Path
) -> None:
    url = pooled("transaction")
    with pytest.raises(SessionsShared, match="pool_mode = session"):
        Store.open(url, server="one")
    (what,) = faults(tmp_path, url)
    assert what == "a pooler gives the database's sessions to others after each transaction"
