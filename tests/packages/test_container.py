"""The image: built and run without root's rights, on a Debian that mmdebstrap makes, and by compose.yaml.

They are in one file, so that one worker builds one image.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import locked_port
from tests.packages.namespaces import with_unified_groups
from tests.packages.places import MONITORED, ROOT, TOOLS, page_commands
from tests.packages.podman import Podman
from tests.packages.pythons import SERVICES, debian_root
from tests.packages.running import is_ready, run
from tests.waiting import wait_for

UNUSED = ("./var/lib/apt/lists/*", "./usr/share/doc", "./usr/share/locale")
"""What the image of the other services leaves out."""


@pytest.fixture
def server(podman: Podman) -> Iterator[tuple[str, int]]:
    """A running container, and its port: all of it that may be read-only is."""
    limits = ("--read-only", "--tmpfs", "/tmp", "--cap-drop", "all", "--security-opt", "no-new-privileges")
    with locked_port() as port:
        settings = ("--env", f"PILOTAGE_PORT={port}", "--env", f"PILOTAGE_URL=http://127.0.0.1:{port}")
        # The machine may offer no control groups, and no device for a network without root's rights.
        options = ("--detach", "--name", "server", "--cgroups=disabled", "--network", "host")
        podman("run", *options, *limits, *settings, "localhost/pilotage")
        try:
            wait_for(lambda: is_ready(port), "a server that answers")
            yield "server", port
        finally:
            podman("rm", "--force", "--time", "0", "--ignore", "server")


def test_the_image_names_its_user_and_its_health_check(podman: Podman) -> None:
    image = podman.inspect("localhost/pilotage")
    assert image["Config"]["User"] == "8470:8470"
    assert image["Config"]["Cmd"] == ["up"]
    assert image["Size"] < 900e6
    assert "health/live" in str(image["Healthcheck"])


def test_a_container_is_one_healthy_process_that_writes_only_its_own_files(
    podman: Podman, server: tuple[str, int]
) -> None:
    name, _ = server
    podman("healthcheck", "run", name)
    identity = podman("exec", name, "sh", "-c", "id -u; id -g; grep -E 'CapEff|NoNewPrivs' /proc/1/status")
    assert identity.split() == ["8470", "8470", "CapEff:", "0000000000000000", "NoNewPrivs:", "1"]
    processes = podman("exec", name, "sh", "-c", "cat /proc/[0-9]*/comm | sort").split()
    assert processes.count("pilotage") == 1
    assert set(processes) <= {"pilotage", "sh", "cat", "sort"}
    script = "for place in /opt/pilotage /etc /usr; do ! touch $place/x 2>/dev/null; done; touch /tmp/x"
    podman("exec", name, "sh", "-ec", script)


def test_the_image_has_what_backups_and_sites_need(podman: Podman, server: tuple[str, int]) -> None:
    name, _ = server
    output = podman("exec", name, "sh", "-ec", "pilotage store backup /tmp/b; pg_dump --version; ssh -V 2>&1")
    assert "MB" in output
    assert "pg_dump (PostgreSQL)" in output
    assert "OpenSSH" in output


def test_a_container_ends_by_itself_when_it_is_told_to(podman: Podman, server: tuple[str, int]) -> None:
    name, port = server
    podman("stop", "--time", "600", name)
    assert podman.inspect(name)["State"]["ExitCode"] == 0
    assert not is_ready(port)


def test_a_container_whose_store_is_away_ends_when_it_is_told_to(podman: Podman) -> None:
    store = "PILOTAGE_STORE=postgresql+psycopg://pilotage@127.0.0.1:9/pilotage"
    options = ("--detach", "--name", "waiting", "--cgroups=disabled", "--network", "none", "--env", store)
    # podman separates both outputs, and the log is the second one.
    command = ("--entrypoint", '["sh", "-c", "exec pilotage up 2>&1"]', "localhost/pilotage")
    podman("run", *options, *command)
    try:
        wait_for(lambda: "try 2" in podman("logs", "waiting"), "a server that waits for its store")
        podman("stop", "--time", "600", "waiting")
        assert podman.inspect("waiting")["State"]["ExitCode"] == 0
    finally:
        podman("rm", "--force", "--time", "0", "--ignore", "waiting")


def test_compose_starts_two_servers_that_prometheus_reads(tmp_path: Path, podman: Podman) -> None:
    if not all(Path("/usr/lib/podman", name).exists() for name in ("aardvark-dns", "netavark")):
        pytest.skip("aardvark-dns or netavark is not installed")
    services, image = tmp_path / "services.tar", podman.home / "image.tar"
    excluded = [f"--exclude={pattern}" for pattern in UNUSED]
    run("tar", "-C", debian_root("trixie", *SERVICES), *excluded, "-cf", services, ".")
    renamed = ("--transform", "s,^service.sh,usr/local/bin/service,")
    run("tar", "-C", ROOT / "tests" / "packages", *renamed, "-rf", services, "service.sh")
    image.unlink(missing_ok=True)
    podman("save", "--quiet", "--output", image, "localhost/pilotage")
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    shutil.copytree(ROOT / "examples" / "monitoring", tmp_path / "examples" / "monitoring")
    folder = tmp_path / "deploy" / "container"
    files, _, start = page_commands("together, in `deploy/container`:").rpartition("podman-compose up\n")
    assert start == ""
    run("sh", "-ec", f"cd {folder}\n{files}")
    environment = {f"{name}_IMAGE": "localhost/services" for name in ("POSTGRESQL", "PROMETHEUS")}
    environment["PILOTAGE_IMAGE"] = "localhost/pilotage"
    script = ROOT / "tests" / "packages" / "compose.sh"
    asking = ROOT / "tests" / "packages" / "monitoring.py"
    command = (script, tmp_path / "containers", folder, TOOLS, image, services, asking)
    try:
        output = run(*with_unified_groups("unshare", "--net", *command), environment=environment)
    finally:
        shutil.rmtree(tmp_path / "containers", ignore_errors=True)
    # Without a federation the servers have no metrics of it: the dashboards are another test's.
    assert MONITORED.partition("monitoring: dashboards")[0] in output
    assert output.count(" live ") == 2
