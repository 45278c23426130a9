"""The computing element of kind ``slurm`` against a real Slurm on loopback."""

import dataclasses
import itertools
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pilotage.adapters.computing.batch.commands import Command, LocalRunner, Outcome
from pilotage.adapters.computing.batch.hosts import Host, Hosts
from pilotage.adapters.computing.contract import violations
from pilotage.adapters.computing.slurm import Slurm as SlurmElement
from pilotage.ports.computing import PilotOrder, PilotSize, PilotStatus
from tests.agent.fake_pilot_server import TOKEN, FakeServer
from tests.waiting import PATIENCE, wait_for

from .slurm import Slurm

Make = Callable[..., SlurmElement]


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer(idle=600).serving() as fake:
        yield fake


@pytest.fixture
def make(tmp_path: Path, slurm: Slurm) -> Make:
    def made(**options: Any) -> SlurmElement:
        return SlurmElement({"spool": str(tmp_path / "spool"), **options})

    return made


_numbers = itertools.count(1)


def orders(server: FakeServer, count: int, **changes: Any) -> list[PilotOrder]:
    """Pilots of names that no other test gives, in this process or another."""
    order = PilotOrder(pilot=1, name="", token=TOKEN, server_url=server.url, walltime=3600)
    numbers = [next(_numbers) for _ in range(count)]
    return [
        dataclasses.replace(order, pilot=n, name=f"here{os.getpid()}-pilot-{n}", **changes) for n in numbers
    ]


def submitted(element: SlurmElement, asked: list[PilotOrder]) -> list[str]:
    answers = element.submit(asked)
    assert [answer.error for answer in answers] == [""] * len(asked)
    return [answer.reference for answer in answers]


def ended(element: SlurmElement, reference: str) -> PilotStatus:
    """The status of a pilot at its end."""
    wait_for(lambda: element.poll([reference])[reference].state == "ended", "the pilot ends")
    return element.poll([reference])[reference]


def running(element: SlurmElement, *references: str) -> bool:
    return all(status.state == "running" for status in element.poll(references).values())


def test_it_keeps_the_contract_with_arrays_and_without(make: Make, server: FakeServer) -> None:
    options = {"spool": make()._options.spool}
    assert violations(SlurmElement, options, orders(server, 3)) == []
    assert violations(SlurmElement, {**options, "array": 1}, orders(server, 2)) == []


def test_m5_other_peoples_jobs_count_in_their_partition(make: Make, slurm: Slurm) -> None:
    job = ("--uid=nobody", "--output=/dev/null", "--wrap=sleep 300", "--chdir=/")
    begun = slurm.call("sbatch", "--parsable", "--partition=main", "--array=1-2", *job).strip()
    held = slurm.call("sbatch", "--parsable", "--partition=main", "--array=1-3", "--hold", *job).strip()
    try:
        wait_for(lambda: make(partition="main").capacity().running == 2, "the jobs of nobody run")
        capacity = make().capacity()
        assert (capacity.running, capacity.waiting, capacity.everybody) == (2, 3, True), "by default, too"
        assert make(partition="urgent").capacity().running == 0, "they are in another partition"
    finally:
        slurm.call("scancel", begun, held)


def test_pilots_of_an_array_call_home_each_with_its_own_token(
    make: Make, server: FakeServer, slurm: Slurm, tmp_path: Path
) -> None:
    element = make(environment={"PLACE": "it's here"}, gres="gpu:1")
    asked = orders(server, 2, cores=2, memory=500, slots=2)
    references = submitted(element, asked)
    assert [reference.split("/")[-1] for reference in references] == [order.name for order in asked]
    wait_for(lambda: len(server.matches) >= 2, "all ask for work")
    assert {name: server.matches[0][name] for name in ("cores", "memory", "max_jobs", "gpus")} == {
        "gpus": 1,
        "cores": 2,
        "memory": 500,
        "max_jobs": 2,
    }
    full = make(partition="main").capacity()
    assert (full.slots, full.running, full.waiting) == (16, 2, 0)
    assert make(partition="urgent").capacity().running == 0, "they are in another partition"
    (spool,) = (tmp_path / "spool").iterdir()
    assert list((spool / "tokens").iterdir()) == [], "each agent removed its token"
    assert spool.stat().st_mode & 0o077 == 0
    number = references[0].split("_")[0]
    script = slurm.call("scontrol", "write", "batch_script", number, "-")
    assert asked[1].name in script
    assert TOKEN not in script + slurm.call("scontrol", "show", "job", "-d", number)
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            told = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
        except OSError:
            continue
        assert TOKEN.encode() not in told


@pytest.mark.parametrize(
    ("partition", "size", "count"),
    [
        ("", {}, 16),
        ("", {"cores": 16, "memory": 64_000}, 1),
        ("", {"cores": 17}, 0),
        ("", {"memory": 64_001}, 0),
        ("main", {"walltime": 172_801}, 0),
        ("urgent", {"walltime": 3600}, 16),
        ("urgent", {"walltime": 3601}, 0),
        ("nowhere", {}, 0),
    ],
)
def test_p8_slurm_tells_what_it_would_run(
    make: Make, partition: str, size: dict[str, float], count: int
) -> None:
    asked = PilotSize(**{"cores": 1, "memory": 0, "walltime": 3600, **size})  # type: ignore[arg-type]
    assert make(partition=partition).resources(asked) == count


@pytest.mark.slow
def test_a_pilot_of_which_the_time_is_over_and_one_that_was_preempted_end(
    make: Make, server: FakeServer, slurm: Slurm
) -> None:
    """The one that is over its time is a job of ours that heeds no limit of its own."""
    element = make(extra=["--signal=B:USR2@1"])
    (preempted,) = submitted(element, orders(server, 1, cores=10))
    wait_for(lambda: running(element, preempted), "it runs")
    slurm.call(
        "sbatch",
        "--output=/dev/null",
        "--partition=urgent",
        "--cpus-per-task=12",
        stdin="#!/bin/sh\nsleep 1\n",
    )
    assert ended(element, preempted).reason.startswith("PREEMPTED")
    late = slurm.call(
        "sbatch",
        "--output=/dev/null",
        "--parsable",
        "--job-name=late",
        "--time=0:01",
        stdin="#!/bin/sh\nexec sleep 300\n",
    ).strip()
    wait_for(lambda: running(element, f"{late}/late"), "it runs")
    slurm.call("scontrol", "update", f"job={late}", "EndTime=now+1", check=False)
    wait_for(lambda: element.poll([f"{late}/late"])[f"{late}/late"].state == "ended", "it ends")
    assert "TIMEOUT" in element.poll([f"{late}/late"])[f"{late}/late"].reason


def test_what_slurm_refuses_says_what_and_who_can_mend_it(make: Make, server: FakeServer) -> None:
    (answer,) = make(partition="nowhere").submit(orders(server, 1))
    assert "invalid partition" in answer.error
    assert "correct option partition" in answer.error
    assert "--partition=nowhere" in answer.error
    assert TOKEN not in answer.error
    (tokens,) = Path(make()._options.spool).glob("*/tokens")
    assert list(tokens.iterdir()) == [], "a pilot that was refused leaves no token"


def test_a_node_without_a_python_says_so(make: Make, server: FakeServer, tmp_path: Path) -> None:
    """A directory is put before all others of the PATH, whose every Python is too old."""
    for name in ("python3", *(f"python3.{n}" for n in range(9, 15))):
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    element = make(environment={"PATH": f"{tmp_path}:{os.environ['PATH']}"}, python="python3.99")
    (reference,) = submitted(element, orders(server, 1))
    status = ended(element, reference)
    assert "has no Python 3.9 or newer, which a pilot needs: name one with option python" in status.reason
    assert status.exit_code == 78


def test_a_job_of_the_same_number_is_not_taken_for_the_pilot(make: Make, slurm: Slurm) -> None:
    number = slurm.call(
        "sbatch", "--output=/dev/null", "--parsable", "--job-name=mine", stdin="#!/bin/sh\nsleep 600\n"
    ).strip()
    element = make()
    assert element.poll([f"{number}/mine"])[f"{number}/mine"].state in ("waiting", "running")
    assert element.poll([f"{number}/other"])[f"{number}/other"].state == "unknown"
    element.cancel([f"{number}/other"])
    assert element.poll([f"{number}/mine"])[f"{number}/mine"].state != "ended"


class Mute(LocalRunner):
    """Loses the answers to submissions, before or after they are done."""

    def __init__(self, done: bool) -> None:
        self.done = done
        self.submissions = 0

    def run(self, command: Command) -> Outcome:
        if command.argv[0] != "sbatch":
            return super().run(command)
        self.submissions += 1
        # The test's short limit is for the search alone: on a busy machine sbatch itself may take longer.
        patient = dataclasses.replace(command, time_limit=PATIENCE)
        if self.submissions > 1:
            return super().run(patient)
        if self.done:
            super().run(patient)
        return Outcome()


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("done", [True, False])
def test_a_lost_answer_submits_no_pilot_twice(
    make: Make, server: FakeServer, slurm: Slurm, monkeypatch: pytest.MonkeyPatch, done: bool, count: int
) -> None:
    monkeypatch.setattr("pilotage.adapters.computing.batch.system.SUBMIT_LIMIT", 1)
    monkeypatch.setattr("pilotage.adapters.computing.batch.system.LOOK_AGAIN", 0.2)
    runner, element = Mute(done), make()
    hosts = Hosts()
    monkeypatch.setattr(hosts, "host", lambda _: Host(runner))
    element.share(hosts)
    references = submitted(element, orders(server, count))
    assert runner.submissions == (1 if done else 2)
    assert len(slurm.call("squeue", "--me", "-r", "-h").splitlines()) == count
    assert all(status.state in ("waiting", "running") for status in element.poll(references).values())


def test_pilots_that_are_ordered_again_are_found(make: Make, server: FakeServer, slurm: Slurm) -> None:
    """Also those of an array, by an adapter that knows nothing of the first order, in another company."""
    asked = orders(server, 5)
    first = submitted(make(), asked[:4])
    again = submitted(make(), [asked[4], asked[2], asked[1]])
    assert again[1:] == [first[2], first[1]]
    assert len(slurm.call("squeue", "--me", "-r", "-h").splitlines()) == 5
    wait_for(lambda: len(server.matches) >= 5, "all call home")


def test_many_queues_are_seen_by_one_listing(
    make: Make, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[str] = []

    class Counting(LocalRunner):
        def run(self, command: Command) -> Outcome:
            commands.append(command.argv[0])
            return super().run(command)

    monkeypatch.setattr("pilotage.adapters.computing.batch.hosts.LocalRunner", Counting)
    monkeypatch.setattr("pilotage.adapters.computing.batch.hosts.FRESH", 60)
    hosts, elements = Hosts(), [make(partition="main"), make(partition="urgent")]
    references = []
    for element in elements:
        element.share(hosts)
    for element, order in zip(elements, orders(server, 2), strict=True):
        references += submitted(element, [order])
    for element, reference in zip(elements, references, strict=True):
        assert element.poll([reference])[reference].state in ("waiting", "running")
    assert commands.count("squeue") == 1


@pytest.mark.slow
def test_a_slurm_that_is_down_ends_nothing(make: Make, server: FakeServer, slurm: Slurm) -> None:
    element = make()
    (reference,) = submitted(element, orders(server, 1))
    wait_for(lambda: running(element, reference), "it runs")
    slurm.stop_controller()
    try:
        with pytest.raises(OSError, match="wait: Slurm is down"):
            element.cancel([reference])
        (answer,) = element.submit(orders(server, 2)[1:])
        assert "Slurm is down" in answer.error
    finally:
        slurm.start_controller()
        slurm.until_ready()
    status = element.poll([reference])[reference]
    assert status.state == "running", f"{status}\n{slurm.words()}"


def test_two_pilots_of_one_name_on_one_node_share_no_directory(
    make: Make, server: FakeServer, tmp_path: Path
) -> None:
    (order,) = orders(server, 1)
    first, other = make(), SlurmElement({"spool": str(tmp_path / "other")})
    references = [submitted(element, [order])[0] for element in (first, other)]
    node = Path(os.environ.get("TMPDIR", "/tmp"))
    wait_for(lambda: len(list(node.glob(f"{order.name}.*"))) == 2, "each has a directory")
    first.cancel(references[:1])
    assert ended(first, references[0])
    assert running(other, references[1])


def test_a_full_spool_is_said(make: Make, server: FakeServer, tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("in the way")
    with pytest.raises(OSError, match=r"cannot be kept in the spool directory.*can mend it"):
        make().submit(orders(server, 1))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    place = tmp_path / "home"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", place], check=False).returncode:
        pytest.skip("a file system can be mounted only as root")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


def test_a_full_home_directory_submits_nothing_and_is_used_again(
    small_disk: Path, slurm: Slurm, server: FakeServer
) -> None:
    element = SlurmElement({"spool": str(small_disk / "spool")})
    asked = orders(server, 2)
    (small_disk / "mine").write_bytes(bytes(2_000_000))
    with pytest.raises(OSError, match=r"cannot be kept in the spool directory.*can mend it"):
        element.submit(asked)
    assert slurm.call("squeue", "--me", "-h") == ""
    (small_disk / "mine").unlink()
    references = submitted(element, asked)
    wait_for(lambda: len(server.matches) >= 2, "both call home")
    with pytest.raises(OSError, match="No space left"):
        (small_disk / "mine").write_bytes(bytes(3_000_000))
    assert running(element, *references), "what runs is seen with a full disk"


def test_what_a_slow_slurm_did_not_take_in_time_is_submitted_later_and_nothing_twice(
    make: Make, server: FakeServer, slurm: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    element, asked = make(array=1), orders(server, 8)
    with monkeypatch.context() as patch:
        patch.setattr("pilotage.adapters.computing.batch.element.LONGEST_SUBMISSION", 0.02)
        answers = element.submit(asked)
    refused = [answer.error for answer in answers if answer.error]
    assert refused
    assert set(refused) == {"this host is too slow"}
    assert len(slurm.call("squeue", "--me", "-h").splitlines()) == len(asked) - len(refused)
    references = submitted(element, asked)
    assert [answer.reference for answer in answers if answer.reference] == references[: -len(refused)]
    assert len(slurm.call("squeue", "--me", "-h").splitlines()) == len(asked)


def test_a_pilot_that_slurm_forgot_is_unknown(make: Make, slurm: Slurm) -> None:
    status = make().poll(["4711/gone"])["4711/gone"]
    assert status.state == "unknown"


def test_the_script_is_sound(make: Make, server: FakeServer, tmp_path: Path) -> None:
    from pilotage.adapters.computing.batch.script import pilot_script
    from pilotage.adapters.computing.batch.spool import SpoolPaths

    element = make(environment={"A": "'; touch x; '"}, directory="$HOME/it's")
    text = pilot_script(
        orders(server, 2), "stem", SpoolPaths("/s p", "agent"), element._options, "INDEX", "http://x"
    )
    assert subprocess.run(["sh", "-n"], input=text, text=True, check=False).returncode == 0
    assert TOKEN not in text
