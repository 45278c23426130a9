"""podman-compose starts PostgreSQL, two servers and Prometheus, in a network of their own."""

import shutil
from pathlib import Path

import pytest

from tests.packages.namespaces import with_unified_groups
from tests.packages.places import MONITORED, ROOT, TOOLS, page_commands
from tests.packages.podman import Podman
from tests.packages.pythons import SERVICES, debian_root
from tests.packages.running import run

pytestmark = pytest.mark.xdist_group("podman")
UNUSED = ("./var/lib/apt/lists/*", "./usr/share/doc", "./usr/share/locale")


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
    assert MONITORED in output
    assert output.count(" live ") == 2
