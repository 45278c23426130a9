"""A real Rucio server on loopback, on SQLite: its Flask application under gunicorn."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.conftest import locked_port
from tests.waiting import PATIENCE, wait_for

HOME = Path(__file__).parents[2] / "build" / "rucio"
"""Where ``install.sh`` puts the server."""

LOGIN = {"account": "root", "username": "ddmlab", "password": "secret"}

CONFIGURATION = """\
[common]
logdir = {place}
[client]
rucio_host = {url}
auth_host = {url}
auth_type = userpass
username = ddmlab
password = secret
account = root
[database]
default = sqlite:///{place}/rucio.db
[bootstrap]
userpass_identity = ddmlab
userpass_pwd = secret
userpass_email = x@localhost
[alembic]
cfg = {place}/etc/alembic.ini
[policy]
permission = generic
schema = generic
lfn2pfn_algorithm_default = hash
[cache]
use_external_cache_for_auth_tokens = False
"""


@contextmanager
def rucio_server(place: Path) -> Iterator[str]:
    """Run a server until the end; yields its URL. Skips where none is installed."""
    if not (HOME / "bin" / "gunicorn").exists():
        pytest.skip("no Rucio server is installed; `make test-rucio` installs one into build/rucio")
    with locked_port() as port:
        yield from _served(place, port)


def _served(place: Path, port: int) -> Iterator[str]:
    url = f"http://127.0.0.1:{port}"
    _configure(place, url)
    environment = {"RUCIO_HOME": str(place), "PATH": f"{HOME}/bin:/usr/bin:/bin", "HOME": str(place)}
    tools = HOME / "rucio" / "tools" / "bootstrap.py"
    made = subprocess.run([HOME / "bin/python", tools], env=environment, capture_output=True, check=False)
    assert made.returncode == 0, made.stderr.decode()[-2000:]
    command = [str(HOME / "bin/gunicorn"), "--threads", "4", "--bind", f"127.0.0.1:{port}"]
    with (place / "log").open("wb") as log:
        server = subprocess.Popen(
            [*command, "rucio.web.rest.flaskapi.v1.main:application"], env=environment, stdout=log, stderr=log
        )
    try:
        _await(url, server, place / "log")
        yield url
    finally:
        server.terminate()
        server.wait(PATIENCE)


def _configure(place: Path, url: str) -> None:
    (place / "etc").mkdir(parents=True)
    (place / "etc" / "rucio.cfg").write_text(CONFIGURATION.format(place=place, url=url))
    package = next(HOME.glob("lib/python3*/site-packages/rucio/db/sqla/migrate_repo"))
    lines = (HOME / "rucio" / "etc" / "alembic.ini.template").read_text().splitlines()
    replaced = {
        "sqlalchemy.url": f"sqlalchemy.url = sqlite:///{place}/rucio.db",
        "script_location": f"script_location = {package}",
        "version_table_schema": "",
        "default": "",
    }
    text = "\n".join(replaced.get(line.partition("=")[0].strip(), line) for line in lines)
    (place / "etc" / "alembic.ini").write_text(text)


def _await(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    def answers() -> bool:
        assert server.poll() is None, log.read_text()[-2000:]
        with suppress(OSError), urlopen(f"{url}/ping", timeout=5):
            return True
        return False

    wait_for(answers, "Rucio answers")
