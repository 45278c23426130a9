"""Payloads in containers: which program and image, what both are given, real programs where there are any."""

import os
import shutil
from pathlib import Path

import pytest

from pilotage.agent.payload.attempt import VARIABLES, AttemptFailedError, ImageFailedError
from pilotage.agent.payload.containers import ContainerRuntime, choose, find_runtimes, write_variables
from pilotage.agent.payload.view import SitePaths
from tests.waiting import PATIENCE, wait_for

from .test_agent import Site, sh, site

__all__ = ["site"]

APPTAINER, PODMAN = ContainerRuntime("apptainer", "/bin/apptainer"), ContainerRuntime("podman", "/bin/podman")
CHARLIECLOUD = ContainerRuntime("ch-run", "/bin/ch-run")
EVERYTHING = (APPTAINER, PODMAN, CHARLIECLOUD)
NOWHERE = SitePaths()
BUSYBOX = shutil.which("busybox") or ""


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """The folder of an image with a shell, below one that payloads may read."""
    root = tmp_path / "images/small"
    for folder in ("bin", "dev", "etc", "proc", "sys", "tmp", "var/tmp", "usr", "root", "run", "home"):
        (root / folder).mkdir(parents=True)
    for name in ("passwd", "group", "hosts", "resolv.conf"):
        (root / "etc" / name).touch()
    if BUSYBOX:
        shutil.copy(BUSYBOX, root / "bin/busybox")
        for name in ("sh", "cat", "env", "ls", "sleep", "touch"):
            (root / "bin" / name).symlink_to("busybox")
    (root / "in-the-image").touch()
    return root


def test_a_name_goes_to_what_can_fetch_it_and_a_path_to_what_can_open_it(tmp_path: Path, image: Path) -> None:
    readable = SitePaths(readable=(str(tmp_path / "images"),))
    packed = image.parent / "image.sif"
    packed.touch()
    assert choose(("registry/small:1",), EVERYTHING, NOWHERE) == (APPTAINER, "registry/small:1")
    assert choose(("registry/small:1",), (CHARLIECLOUD, PODMAN), NOWHERE) == (PODMAN, "registry/small:1")
    assert choose((str(image), "small"), (CHARLIECLOUD,), readable) == (CHARLIECLOUD, str(image))
    assert choose((str(image),), (PODMAN,), SitePaths(readable=(str(image),))) == (PODMAN, str(image))
    assert choose((str(packed), "small"), EVERYTHING, readable) == (APPTAINER, str(packed))
    assert choose((str(packed), "small"), (PODMAN,), readable) == (PODMAN, "small")
    assert choose((str(image / "gone"), "small"), (PODMAN,), readable) == (PODMAN, "small")


@pytest.mark.parametrize("name", ["/", "/root", "/home", "/cvmfs/../home", "/proc/self/root", "/tmp"])
def test_no_folder_of_the_node_is_an_image_but_those_that_payloads_see(name: str) -> None:
    with pytest.raises(ImageFailedError, match="a path must lie in the system") as failed:
        choose((name,), EVERYTHING, NOWHERE)
    assert failed.value.exit_code == 125, "alike failures with an exit code stop the task"


def test_a_hidden_folder_is_no_image_nor_what_holds_one(tmp_path: Path, image: Path) -> None:
    site = SitePaths(readable=(str(tmp_path),), hidden=(str(image / "etc"),))
    for path in (image, image / "etc", image.parent):
        with pytest.raises(AttemptFailedError):
            choose((str(path),), EVERYTHING, site)
    (tmp_path / "link").symlink_to("/root")
    with pytest.raises(AttemptFailedError):
        choose((str(tmp_path / "link"),), EVERYTHING, site)


def test_a_name_is_no_option_and_a_node_without_containers_says_so() -> None:
    with pytest.raises(AttemptFailedError, match="'--privileged' is not the name of an image"):
        choose(("--privileged",), EVERYTHING, NOWHERE)
    with pytest.raises(AttemptFailedError, match="none of apptainer, singularity, podman, ch-run works"):
        choose(("small",), (), NOWHERE)


@pytest.mark.parametrize("runtime", EVERYTHING)
def test_nothing_of_a_payloads_environment_changes_the_program(
    runtime: ContainerRuntime, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", "/home/pilot")
    told = {"LD_PRELOAD": "./evil.so", "HOME": "/job", "PATH": "/evil"}
    given = runtime.environment(told)
    assert "LD_PRELOAD" not in given
    assert given["HOME"] == "/home/pilot"
    assert given["PATH"] == os.environ["PATH"]
    write_variables(tmp_path, told)
    assert (tmp_path / VARIABLES).read_text() == "LD_PRELOAD=./evil.so\nHOME=/job\n"


def test_podman_leaves_a_container_in_the_control_group_of_its_payload_where_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a stand-in: the real one works for no root, and beside runc only without the option."""
    program = tmp_path / "bin/podman"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho $* >> {tmp_path}/calls\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    assert ContainerRuntime("podman", str(program)) in find_runtimes(tmp_path)
    program.write_text('#!/bin/sh\ncase "$*" in *--cgroups=disabled*) echo no crun >&2; exit 125;; esac\n')
    assert ContainerRuntime("podman", str(program), regrouped=True) in find_runtimes(tmp_path)
    assert "run --cgroups=disabled --rm" in (tmp_path / "calls").read_text()


def test_a_variable_with_a_line_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AttemptFailedError, match="'A' has a line end"):
        write_variables(tmp_path, {"A": "b\nLD_PRELOAD=./evil.so"})


@pytest.mark.slow
def test_a_task_in_a_container_runs_in_it(site: Site, image: Path) -> None:
    """By what this machine has: it sees the image, its directory, and nothing of the node."""
    site.place.mkdir()
    if not find_runtimes(site.place) or not BUSYBOX:
        pytest.skip("needs busybox, and Apptainer, Podman or Charliecloud that this user can run")
    assert list(site.place.iterdir()) == []
    (site.root / "secret").touch()
    script = (
        "echo wrong >&2; ls / > out; env | cat >> out; [ -e inputs.txt ] && echo inputs >> out; "
        f"[ -e {site.root}/secret ] && echo secret >> out; true"
    )
    site.server.idle = 20
    work = site.work(*sh(script), outputs=["out"], images=[str(image)], readable=[str(image.parent)])
    with site.agent() as agent:
        wait_for(lambda: any(match["containers"] for match in site.server.matches), "it tells")
        site.server.works = [[work]]
        wait_for(lambda: "done" in site.server.states() or "failed" in site.server.states(), "it ran")
        assert site.server.last().error == ""
        agent.terminate()
        agent.wait(PATIENCE)
    out = (site.scratch() / "out").read_text().splitlines()
    assert {"in-the-image", "inputs", f"HOME={site.place}/1.1", f"MARK={site.mark}"} <= set(out)
    assert "secret" not in out


@pytest.mark.slow
def test_a_node_without_containers_is_not_asked_for_any_and_refuses_them(site: Site, tmp_path: Path) -> None:
    for name in ("sh", "env", "python3"):
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or "")
    site.server.works = [[site.work("true", images=["small"])]]
    site.run(PATH=str(tmp_path / "bin"))
    assert not any(match["containers"] for match in site.server.matches)
    assert "works at this node" in site.server.last().error


@pytest.mark.slow
def test_an_image_that_no_program_can_run_ends_the_attempt_with_an_exit_code(
    site: Site, tmp_path: Path
) -> None:
    podman = tmp_path / "bin" / "podman"
    podman.parent.mkdir()
    podman.write_text("#!/bin/sh\nexit 0\n")  # it stands for one that works
    podman.chmod(0o755)
    site.server.idle = 20
    with site.agent(PATH=f"{podman.parent}:{os.environ['PATH']}") as agent:
        wait_for(lambda: any(match["containers"] for match in site.server.matches), "it tells")
        site.server.works = [[site.work("true", images=["/nowhere/none.sif"])]]
        wait_for(lambda: "failed" in site.server.states(), "it is refused")
        agent.terminate()
        agent.wait(PATIENCE)
    assert "is an image that podman can run here" in site.server.last().error
    assert (site.server.last().exit_code, site.server.last().kind) == (125, "container")
