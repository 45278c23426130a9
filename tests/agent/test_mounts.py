"""Mounts: a payload sees folders of its directory at absolute paths, in each way that this machine has."""

import os
import shutil
from pathlib import Path

import pytest

from pilotage.agent.payload.attempt import AttemptFailedError
from pilotage.agent.payload.containers import ContainerRuntime
from pilotage.agent.payload.view import SYSTEM, WITHOUT_MOUNTS, SitePaths, check_mounts, view

from .test_containment import run, way

__all__ = ["way"]

SITE = SitePaths(readable=("/data/reference",), writable=("/shared/",))


def test_a_payload_reads_and_writes_below_its_mounts_and_the_node_gets_nothing(
    tmp_path: Path, way: str
) -> None:
    if way in WITHOUT_MOUNTS:
        pytest.skip(f"{way} mounts nothing")
    job, folder = tmp_path / "job", f"/pilotage-test-{os.getpid()}"
    mounts = {f"{folder}/in here": "root/in", "/tmp/pilotage-test": "root/tmp"}
    for source in mounts.values():
        (job / source).mkdir(parents=True)
    (job / "root/in/a.txt").write_text("hello")
    seen = view(way, shutil.which("bwrap") or "", job, SitePaths(), mounts=mounts)
    script = f"cp '{folder}/in here/a.txt' /tmp/pilotage-test/b.txt && cd '{folder}/in here' && pwd > where"
    assert run(job, seen, "sh", "-c", script).error == ""
    assert (job / "root/tmp/b.txt").read_text() == "hello"
    assert (job / "root/in/where").read_text() == f"{folder}/in here\n"
    assert not Path(folder).exists()
    assert not Path("/tmp/pilotage-test").exists()


@pytest.mark.parametrize("mechanism", WITHOUT_MOUNTS)
def test_a_way_that_mounts_nothing_is_named(mechanism: str) -> None:
    with pytest.raises(
        AttemptFailedError, match=f"contained by {mechanism} here, which cannot mount; name a"
    ):
        check_mounts({"/data": "data"}, mechanism, SitePaths())
    check_mounts({}, mechanism, SITE)


@pytest.mark.parametrize("target", ["/data/reference", "/data/reference/x", "/shared/mine"])
@pytest.mark.parametrize("mechanism", ["", "namespaces"])
def test_a_mount_makes_no_folder_in_what_the_queue_gives_to_payloads(target: str, mechanism: str) -> None:
    with pytest.raises(AttemptFailedError, match=f"mount {target}: payloads see /"):
        check_mounts({target: "x"}, mechanism, SITE)


def test_only_an_image_has_room_below_the_system() -> None:
    mounts = {f"{SYSTEM[0]}/share/new": "x"}
    check_mounts(mounts, "", SITE)
    with pytest.raises(AttemptFailedError, match="payloads see /usr of the node"):
        check_mounts(mounts, "bubblewrap", SITE)


def test_a_mount_is_a_path_without_steps_upwards() -> None:
    with pytest.raises(AttemptFailedError, match=r"may be empty, \. or \.\."):
        check_mounts({"/data/../etc": "x"}, "", SitePaths())


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("apptainer", "run-it exec --bind /job/root/data:/data:rw --containall"),
        ("podman", "run-it run --cgroups=disabled --volume /job/root/data:/data:rw --rm"),
        ("ch-run", "run-it --bind /job/root/data:/data --private-tmp"),
    ],
)
def test_each_program_for_containers_gets_the_mounts(kind: str, words: str) -> None:
    runtime = ContainerRuntime(kind, "run-it")
    command = runtime.command("small", Path("/job"), ["true"], [], gpus=False, mounts={"/data": "root/data"})
    assert " ".join(command).startswith(words)
