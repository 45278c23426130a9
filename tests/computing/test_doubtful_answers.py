"""An outcome in doubt is no refusal: sites print more than a number, and fail after they took a job."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pilotage.adapters.computing.batch.commands import Outcome
from pilotage.adapters.computing.gridengine import GridEngine
from pilotage.adapters.computing.lsf import Lsf
from pilotage.adapters.computing.pbs import Pbs
from pilotage.adapters.computing.slurm import Slurm
from pilotage.ports.computing import ComputingElementPort, PilotOrder

from .stand_in_commands import commands, lines

ORDER = PilotOrder(pilot=1, name="demo-pilot-1", token="t" * 20, server_url="http://127.0.0.1:8970")

# The job of 12 is taken, and listed under the name that was asked for.
TAKE = (
    "cat >/dev/null; echo took >>$S/submissions; "
    'while [ $# -gt 0 ]; do case "$1" in --job-name=*) echo "${1#--job-name=}" >$S/name;; '
    '-N|-J) echo "$2" >$S/name;; esac; shift; done; '
)
NAMED = "[ -e $S/name ] && read -r name <$S/name; "
SYSTEMS: Mapping[str, tuple[Any, str, str, str]] = {
    "slurm": (
        Slurm,
        "sbatch",
        "squeue",
        "[ -n \"$name\" ] && printf '%-60s%-20s%-12s%-60s%-60s%-300s\\n' 12 PENDING 0:0 p Priority $name",
    ),
    "gridengine": (
        GridEngine,
        "qsub",
        "qstat",
        "echo '<job_info><queue_info>'; [ -n \"$name\" ] && echo \"<job_list state='pending'>"
        '<JB_job_number>12</JB_job_number><JB_name>$name</JB_name><state>qw</state></job_list>"; '
        "echo '</queue_info></job_info>'",
    ),
    "pbs": (
        Pbs,
        "qsub",
        "qstat",
        '[ -z "$name" ] || printf \'{"Jobs":{"12.head":{"Job_Name":"%s","job_state":"Q"}}}\' "$name"',
    ),
    "lsf": (Lsf, "bsub", "bjobs", '[ -n "$name" ] && echo "12|0|PEND|-|normal|$name|-|-"'),
}
NUMBERS = {"slurm": "12", "gridengine": "12", "pbs": "12.head", "lsf": "12"}
SAID = {
    "slurm": "12",
    "gridengine": "12",
    "pbs": "12.head",
    "lsf": "Job <12> is submitted to queue <normal>.",
}


def element(system: str, tmp_path: Path, says: str, code: int, *, taken: bool = True) -> ComputingElementPort:
    kind, submit, listing, listed = SYSTEMS[system]
    scripts = {
        submit: f"{TAKE if taken else 'cat >/dev/null; echo took >>$S/submissions;'} {says}\nexit {code}",
        listing: f"{NAMED} {listed}\ntrue",
        "qselect": "echo 12.head",
        "qacct": "true",
        "sacct": "true",
    }
    made: ComputingElementPort = kind(
        {"commands": commands(tmp_path / "bin", scripts), "spool": str(tmp_path / "spool")}
    )
    return made


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pilotage.adapters.computing.batch.system.LOOK_AGAIN", 0.01)


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize(
    ("says", "code"),
    [
        ("echo {said}", 0),
        ("echo {said}; echo; echo 'Note: the project has used 81 % of its hours'", 0),
        ("echo {said}; echo 'Remaining hours: 40'", 0),
        ("echo {said}; echo 40", 0),
        ("echo 40; echo {said}", 0),
        ("echo 'Welcome to node 3'; echo {said}", 0),
        ("echo '*** '{said}' *** taken'", 0),
        ("true", 0),
        ("echo {said}; echo 'accounting hook failed' >&2", 1),
        ("echo 'error: Socket timed out on send/recv operation' >&2", 1),
        ("echo 'hook failed' >&2", 73),
    ],
)
def test_a_job_that_was_taken_is_found_whatever_was_said(
    system: str, tmp_path: Path, says: str, code: int
) -> None:
    made = element(system, tmp_path, says.replace("{said}", f'"{SAID[system]}"'), code)
    (answer,) = made.submit([ORDER])
    assert (answer.reference, answer.error) == (f"{NUMBERS[system]}/demo-pilot-1", "")
    assert lines(tmp_path / "bin", "submissions") == ["took"]


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_refusal_is_one_and_says_why(system: str, tmp_path: Path) -> None:
    made = element(system, tmp_path, "echo 'no: the moon is full' >&2", 1, taken=False)
    (answer,) = made.submit([ORDER])
    assert not answer.reference
    assert "the moon is full" in answer.error


@pytest.mark.parametrize(
    ("system", "says"),
    [
        ("slurm", "sbatch: error: Batch job submission failed: Requested node is in use"),
        ("gridengine", "Unable to run job: denied: host is no submit host. Exiting."),
        ("pbs", "qsub: Job violates queue and/or server resource limits"),
        ("lsf", "Cannot exceed queue's hard limit(s). Job not submitted."),
    ],
)
def test_words_that_always_refuse_are_a_refusal_whatever_the_exit_code(
    system: str, says: str, tmp_path: Path
) -> None:
    made = element(system, tmp_path, f'echo "{says}" >&2', 0, taken=False)
    (answer,) = made.submit([ORDER])
    assert not answer.reference
    assert says in answer.error
    there = element(system, tmp_path / "there", f'echo "{says}" >&2', 0)
    assert there.submit([ORDER])[0].reference == f"{NUMBERS[system]}/demo-pilot-1"
    lost = element(system, tmp_path / "lost", f'echo "{says}: request timed out" >&2', 0, taken=False)
    with pytest.raises(TimeoutError, match="may or may not be submitted"):
        lost.submit([ORDER])


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize(
    ("says", "code"),
    [("echo 'request timed out' >&2", 1), ("echo 40 41", 0), ("echo 39; echo 40", 0), ("echo thanks", 0)],
)
def test_a_job_that_nobody_knows_of_comes_again(system: str, tmp_path: Path, says: str, code: int) -> None:
    """Neither a number that may be a note's is taken, nor is the pilot given up: its order comes again."""
    made = element(system, tmp_path, says, code, taken=False)
    with pytest.raises(TimeoutError, match="may or may not be submitted"):
        made.submit([ORDER])
    assert lines(tmp_path / "bin", "submissions") == ["took"]


@pytest.mark.parametrize("system", SYSTEMS)
def test_where_nothing_is_listed_a_failure_is_in_doubt(system: str, tmp_path: Path) -> None:
    made = element(system, tmp_path, "echo 'hook failed' >&2", 1)
    (tmp_path / "bin" / SYSTEMS[system][2]).write_text("#!/bin/sh\necho down >&2\nexit 1\n")
    with pytest.raises(TimeoutError, match="hook failed"):
        made.submit([ORDER])


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("says", ["echo {said}", "echo Welcome; echo {said}; echo 'Remaining hours: 40'"])
@pytest.mark.parametrize("looks", [1, 9])
def test_a_number_that_was_told_is_no_refusal_where_the_listing_is_behind(
    system: str, tmp_path: Path, says: str, looks: int
) -> None:
    """The command fails after it told the number, and the listing shows the job late, or not yet."""
    made = element(system, tmp_path, says.replace("{said}", f'"{SAID[system]}"'), 1)
    listing = tmp_path / "bin" / SYSTEMS[system][2]
    behind = f"echo x >>$S/looks; [ $(wc -l <$S/looks) -gt {looks} ] && "
    listing.write_text(listing.read_text().replace(NAMED, behind + NAMED))
    if looks == 1:
        assert made.submit([ORDER])[0].reference == f"{NUMBERS[system]}/demo-pilot-1"
    else:
        with pytest.raises(TimeoutError, match="may or may not be submitted"):
            made.submit([ORDER])
    assert lines(tmp_path / "bin", "submissions") == ["took"]


def test_an_array_that_was_taken_is_found(tmp_path: Path) -> None:
    made = element("slurm", tmp_path, "echo 12; echo 'Remaining hours: 40'", 1)
    second = PilotOrder(pilot=2, name="demo-pilot-2", token="t" * 20, server_url=ORDER.server_url)
    assert [answer.reference for answer in made.submit([ORDER, second])] == [
        "12_1/demo-pilot-1+1/demo-pilot-1",
        "12_2/demo-pilot-1+1/demo-pilot-2",
    ]


def test_an_unanswered_command_is_no_listing() -> None:
    """Also where it complained of something harmless before it was ended."""
    from pilotage.adapters.computing.lsf import LsfOptions, LsfProfile
    from pilotage.adapters.computing.pbs import PbsOptions, PbsProfile

    assert not PbsProfile(PbsOptions()).is_listed(Outcome(stderr="qstat: Unknown Job Id 3"))
    assert not LsfProfile(LsfOptions()).is_listed(Outcome(stderr="No job found"))
