"""pip, pipx and uv install the wheel from its file in empty environments, on each Python that is here."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from tests.packages.places import BUILD, DIST, TOOLS, release_file
from tests.packages.pythons import (
    DEBIAN,
    SERVICES,
    VERSIONS,
    debian_root,
    download_wheels,
    missing_for_roots,
    python,
)
from tests.packages.running import is_ready, run, run_in_root
from tests.waiting import wait_for

MOST_OF_BASE = 25
"""Packages of the base: it installs in seconds."""

OF_SERVERS = {"numpy", "sqlalchemy", "fastapi", "pydantic", "cryptography"}
"""Packages that the base leaves out."""


@pytest.fixture(params=VERSIONS)
def interpreter(request: pytest.FixtureRequest) -> Path:
    """A Python of each version that makes environments."""
    path = python(request.param)
    if path is None:
        pytest.skip(f"this machine has no Python {request.param} that makes environments")
    return path


def frozen(text: str) -> set[tuple[str, str]]:
    """The packages with their versions in lines such as ``pip freeze`` writes."""
    lines = re.findall(r"^([\w.-]+)==([^ ;\n]+)", text, re.MULTILINE)
    return {(canonicalize_name(name), version) for name, version in lines}


def _is_client(command: Path, folder: Path) -> None:
    """Check that a client is installed: its version, and its exit code where no server answers."""
    home = {"PILOTAGE_HOME": str(folder / "home"), "PILOTAGE_URL": "http://127.0.0.1:9"}
    assert run(command, "--version", environment=home).startswith("0.1.0+")
    environment = {**os.environ, **home}
    done = subprocess.run([command, "status"], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (3, False), done.stderr


def _is_server(command: Path, folder: Path, port: int) -> None:
    """Check that a server is installed: it starts on a new store, and answers."""
    home = {"PILOTAGE_HOME": str(folder / "home"), "PILOTAGE_URL": f"http://127.0.0.1:{port}"}
    environment, log = {**os.environ, **home}, folder / "log"
    with log.open("wb") as lines, subprocess.Popen([command, "up"], env=environment, stderr=lines) as server:
        try:
            wait_for(lambda: is_ready(port) or server.poll() is not None, "a server that answers")
            assert server.poll() is None, log.read_text()
            assert " live " in run(command, "servers", environment=home)
        finally:
            server.terminate()


def test_pip_installs_the_base_alone_and_then_the_server(
    tmp_path: Path, interpreter: Path, free_port: int
) -> None:
    run(interpreter, "-m", "venv", "--without-pip", tmp_path / "venv")
    programs, versions = tmp_path / "venv" / "bin", release_file(".constraints.txt")
    pip = (TOOLS / "pip", "--python", programs / "python")
    install = (*pip, "install", "--quiet", "--constraint", versions)
    run(*install, release_file(".whl"))
    names = {name for name, _ in frozen(run(*pip, "freeze"))}
    assert "httpx" in names
    assert not OF_SERVERS & names
    assert len(names) <= MOST_OF_BASE
    _is_client(programs / "pilotage", tmp_path)
    run(*install, f"{release_file('.whl')}[server]")
    assert frozen(run(*pip, "freeze", "--exclude", "pilotage")) <= frozen(versions.read_text())
    _is_server(programs / "pilotage", tmp_path, free_port)


def test_pipx_installs_the_server_and_shows_its_man_pages(
    tmp_path: Path, interpreter: Path, free_port: int
) -> None:
    places = {name: str(tmp_path / name) for name in ("PIPX_HOME", "PIPX_BIN_DIR", "PIPX_MAN_DIR")}
    # The environments of all Pythons share one pip.
    places["PIPX_SHARED_LIBS"] = str(BUILD / "pipx")
    server = f"{release_file('.whl')}[server]"
    run(TOOLS / "pipx", "install", "--quiet", "--python", interpreter, server, environment=places)
    assert (tmp_path / "PIPX_MAN_DIR" / "man1" / "pilotage-submit.1").exists()
    _is_client(tmp_path / "PIPX_BIN_DIR" / "pilotage", tmp_path)
    _is_server(tmp_path / "PIPX_BIN_DIR" / "pilotage", tmp_path, free_port)


def test_uv_installs_the_base_and_the_server(tmp_path: Path, interpreter: Path, free_port: int) -> None:
    places = {name: str(tmp_path / name) for name in ("UV_TOOL_DIR", "UV_TOOL_BIN_DIR")}
    command = (TOOLS / "uv", "tool", "install", "--quiet", "--no-python-downloads", "--python", interpreter)
    run(*command, release_file(".whl"), environment=places)
    _is_client(tmp_path / "UV_TOOL_BIN_DIR" / "pilotage", tmp_path)
    run(*command, "--force", f"{release_file('.whl')}[server]", environment=places)
    _is_server(tmp_path / "UV_TOOL_BIN_DIR" / "pilotage", tmp_path, free_port)


@pytest.mark.parametrize(("version", "release"), DEBIAN.items())
def test_debian_s_own_python_installs_it_without_a_network_and_runs_the_demonstration(
    version: str, release: str
) -> None:
    if missing := missing_for_roots():
        pytest.skip(missing)
    root = debian_root(release, *(SERVICES if release == "trixie" else ("python3-venv",)))
    wheels = download_wheels(version)
    script = """
        python3 --version
        export PIP_NO_INDEX=1 PIP_FIND_LINKS="/srv/wheels /srv/dist" PIP_QUIET=1 PIP_NO_COMPILE=1
        python3 -m venv /opt/pilotage
        /opt/pilotage/bin/pip install pilotage
        /opt/pilotage/bin/pip freeze --exclude pilotage
        /opt/pilotage/bin/pip install 'pilotage[server]'
        cd /root
        /opt/pilotage/bin/pilotage demo --json
    """
    output = run_in_root(root, script, {DIST: "/srv/dist", wheels: "/srv/wheels"})
    assert output.startswith(f"Python {version}.")
    names = {name for name, _ in frozen(output)}
    assert "httpx" in names
    assert not OF_SERVERS & names
