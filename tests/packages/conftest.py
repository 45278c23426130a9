"""The image of a server, which several tests run."""

import shutil
from collections.abc import Iterator

import pytest

from tests.packages.places import DIST, ROOT
from tests.packages.podman import Podman, missing_for_containers
from tests.packages.pythons import debian_root, download_wheels
from tests.packages.running import run


@pytest.fixture(scope="session")
def podman() -> Iterator[Podman]:
    """podman with the image, built as the page says from a release and the wheels that it needs."""
    if missing := missing_for_containers():
        pytest.skip(missing)
    podman = Podman()
    podman("system", "reset", "--force")
    context = podman.home / "context"
    shutil.rmtree(context, ignore_errors=True)
    shutil.copytree(DIST, context / "dist")
    shutil.copytree(download_wheels("3.13"), context / "dist", dirs_exist_ok=True)
    shutil.copytree(ROOT / "deploy", context / "deploy")
    run("tar", "-C", debian_root("trixie"), "-cf", podman.home / "base.tar", ".")
    podman("import", "--quiet", podman.home / "base.tar", "localhost/debian")
    # What the packages ask for comes from Debian, by the network of this machine.
    options = ("--quiet", "--layers=false", "--format", "docker", "--network", "host")
    arguments = ("--build-arg", "BASE=localhost/debian", "--build-arg", "PIP_NO_INDEX=1")
    file = context / "deploy" / "container" / "Dockerfile"
    podman(
        "build", *options, *arguments, "--tag", "localhost/pilotage", "--file", file, context, seconds=3000
    )
    yield podman
    podman("system", "reset", "--force")
    shutil.rmtree(context)
