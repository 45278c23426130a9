"""Slurm's words, read and written: recorded answers, and what may not be asked."""

import shutil
from pathlib import Path

import pytest

from pilotage.adapters.computing.batch.profile import BatchJob, CommandFault, Request
from pilotage.adapters.computing.slurm import COLUMNS, Slurm, SlurmOptions, SlurmProfile, fitting
from pilotage.ports.computing import PilotOrder, PilotSize

PROFILE = SlurmProfile(SlurmOptions(partition="main", gres="gpu:1", extra=("--nice=100",)))


def row(job: str, state: str, code: str, reason: str, name: str) -> str:
    """A line as squeue cuts it."""
    values = dict(
        zip(
            [column for column, _ in COLUMNS],
            (job, state, code, "main", reason, name),
            strict=True,
        )
    )
    return "".join(f"{values[column]:<{width}}"[:width] for column, width in COLUMNS)


def request(count: int = 1, **changes: object) -> Request:
    asked: dict[str, object] = {
        "name": "here-pilot-1",
        "count": count,
        "cores": 4,
        "memory": 500.2,
        "walltime": 3601,
        "log": "/s/100%/here.%a.log" if count > 1 else "/s/100%/here.log",
    }
    return Request(**(asked | changes))  # type: ignore[arg-type]


def test_the_command_says_all_that_was_asked() -> None:
    assert PROFILE.submit(request(3)) == (
        "sbatch",
        "--parsable",
        "--job-name=here-pilot-1",
        "--output=/s/100%%/here.%a.log",
        "--input=/dev/null",
        "--no-requeue",
        "--nodes=1",
        "--ntasks=1",
        "--cpus-per-task=4",
        "--mem=501M",
        "--time=61",
        "--array=1-3",
        "--partition=main",
        "--gres=gpu:1",
        "--nice=100",
    )
    alone = PROFILE.submit(request(memory=0))
    assert not any(option.startswith(("--array", "--mem")) for option in alone)


@pytest.mark.parametrize(
    ("answer", "number"), [("12\n", "12"), ("12;north\n", "12"), ("a warning\n7\n", "7")]
)
def test_the_number_is_read(answer: str, number: str) -> None:
    assert PROFILE.submitted(answer) == number


@pytest.mark.parametrize("answer", ["", "Submitted batch job", "12a"])
def test_an_answer_without_a_number_is_a_fault(answer: str) -> None:
    with pytest.raises(CommandFault, match="no job's number"):
        PROFILE.submitted(answer)


@pytest.mark.parametrize(
    ("line", "job"),
    [
        (
            row("1_4", "FAILED", "768", "NonZeroExitCode", "p"),
            BatchJob(name="p", state="ended", reason="FAILED (NonZeroExitCode)", exit_code=3, queue="main"),
        ),
        (
            row("1_4", "TIMEOUT", "15", "TimeLimit", "p"),
            BatchJob(
                name="p",
                state="ended",
                reason="TIMEOUT (TimeLimit)",
                exit_code=-15,
                queue="main",
                excess="walltime",
            ),
        ),
        (
            row("1_4", "PENDING", "0", "ReqNodeNotAvail, UnavailableNodes:a|b", "p|q r"),
            BatchJob(
                name="p|q r",
                state="waiting",
                reason="PENDING (ReqNodeNotAvail, UnavailableNodes:a|b)",
                queue="main",
            ),
        ),
        (
            row("1_4", "RUNNING", "0", "None", "p"),
            BatchJob(name="p", state="running", reason="RUNNING", queue="main"),
        ),
        (
            row("1_4", "UNHEARD_OF", "0", "None", "p"),
            BatchJob(name="p", state="unknown", reason="UNHEARD_OF", queue="main"),
        ),
    ],
)
def test_a_line_of_a_listing_is_read(line: str, job: BatchJob) -> None:
    assert PROFILE.listed(line) == {"1_4": job}


def test_what_waits_of_an_array_may_be_one_record() -> None:
    assert PROFILE.listed(row("7_[2,4-6%2]", "PENDING", "0", "None", "p")).keys() == {
        "7_2",
        "7_4",
        "7_5",
        "7_6",
    }


def test_nonsense_is_no_listing() -> None:
    assert PROFILE.listed("\n\x00\nslurm is fine\n") == {}


def test_the_accounting_and_the_file_of_completed_jobs_are_read() -> None:
    accounting = "12_1|CANCELLED by 1000|0:15|main|here-pilot-1\n13|COMPLETED|0:0|main|a|b\n"
    assert PROFILE.remembered(accounting) == {
        "12_1": BatchJob(
            name="here-pilot-1", state="ended", reason="CANCELLED by 1000", exit_code=-15, queue="main"
        ),
        "13": BatchJob(name="a|b", state="ended", reason="COMPLETED", exit_code=0, queue="main"),
    }
    completed = "4|0|w|urgent|1|vm|COMPLETED|2026-11-22T09:57:35\n"
    assert PROFILE.remembered(completed) == {
        "4": BatchJob(name="w", state="ended", reason="COMPLETED", queue="urgent")
    }


def test_slots_are_those_of_the_partition() -> None:
    answer = "main*|1/15/4/20\nurgent|1/15/0/16\n"
    assert SlurmProfile(SlurmOptions()).slots(answer) == 16
    assert SlurmProfile(SlurmOptions(partition="urgent")).slots("urgent|1/15/0/16\n") == 16
    assert SlurmProfile(SlurmOptions(partition="x")).slots("") is None


SINFO = """\
main*|up|1-00:00:00|idle|3|16|64000
main*|up|1-00:00:00|down*|5|16|64000
main*|up|1-00:00:00|mixed|1|64|512000
short|up|30:00|idle|9|16|64000
closed|down|infinite|idle|9|16|64000
ever|up|infinite|alloc|1|8|64000
"""


@pytest.mark.parametrize(
    ("partitions", "size", "count"),
    [
        ((), {}, 112),
        ((), {"cores": 16}, 7),
        ((), {"cores": 16, "memory": 100_000}, 4),
        ((), {"cores": 65}, 0),
        ((), {"walltime": 90_000}, 0),
        (("short",), {}, 0),
        (("short",), {"walltime": 1800}, 144),
        (("closed",), {}, 0),
        (("ever",), {"walltime": 9e6}, 8),
        (("main", "short"), {}, 112),
        (("nowhere",), {}, 0),
    ],
)
def test_p8_resources_are_what_nodes_hold(
    partitions: tuple[str, ...], size: dict[str, float], count: int
) -> None:
    asked = PilotSize(**{"cores": 1, "memory": 0, "walltime": 3600, **size})  # type: ignore[arg-type]
    assert fitting(SINFO, partitions, asked) == count
    assert fitting("nonsense\n|||\n", partitions, asked) == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"partition": "a b"}, "partition"),
        ({"partition": "a\nb"}, "partition"),
        ({"account": "--wrap=x"}, "account"),
        ({"extra": ["--wrap=touch x"]}, "the adapter sets itself"),
        ({"extra": ["--wra=touch x"]}, "the adapter sets itself"),
        ({"extra": ["-Jother"]}, "the adapter sets itself"),
        ({"extra": ["nice"]}, "extra"),
        ({"extra": ["--comment=a\nb"]}, "extra"),
        ({"environment": {"A B": "x"}}, "is no variable"),
        ({"environment": {"A=B": "x"}}, "is no variable"),
        ({"spool": "relative"}, "spool"),
        ({"ssh": "-oProxyCommand=x"}, "ssh"),
        ({"tunnel": True}, "tunnel needs ssh"),
        ({"array": 0}, "array"),
        ({"no_such": 1}, r"unknown options \['no_such'\]"),
    ],
)
def test_options_that_are_none_are_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Slurm(options)


def test_a_host_without_slurm_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sh", "mkdir", "chmod", "tar", "mv", "find", "rm", "cat"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(tmp_path))
    order = PilotOrder(pilot=1, name="here-pilot-1", token="secret", server_url="http://x")
    (answer,) = Slurm({"spool": str(tmp_path / "spool")}).submit([order])
    assert "name the directory of sbatch with option commands" in answer.error
    with pytest.raises(OSError, match="name the directory of squeue"):
        Slurm({"spool": str(tmp_path / "spool")}).poll(["12/here-pilot-1"])
