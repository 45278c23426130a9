"""One record that is odd hides no other, and one format has one reader."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pilotage.adapters.computing.batch.profile import Reference
from pilotage.adapters.computing.gridengine import GridEngine, GridEngineOptions, GridEngineProfile
from pilotage.adapters.computing.lsf import LsfOptions, LsfProfile
from pilotage.adapters.computing.pbs import Pbs, PbsOptions, PbsProfile
from pilotage.adapters.computing.slurm import COLUMNS, Slurm, SlurmOptions, SlurmProfile
from pilotage.model.values.durations import slurm_seconds
from pilotage.ports.computing import PilotOrder, PilotStatus

from .stand_in_commands import commands, lines

SLURM, PBS = SlurmProfile(SlurmOptions()), PbsProfile(PbsOptions())
GRIDENGINE, LSF = GridEngineProfile(GridEngineOptions()), LsfProfile(LsfOptions())


def polled(
    kind: Any, tmp_path: Path, scripts: Mapping[str, str], *jobs: tuple[str, str]
) -> list[PilotStatus]:
    """The statuses of pilots, by job and name, as a batch system with these commands tells them."""
    made = kind({"commands": commands(tmp_path / "bin", scripts), "spool": str(tmp_path / "spool")})
    references = [str(Reference(job, name, name)) for job, name in jobs]
    found = made.poll(references)
    return [found[reference] for reference in references]


@pytest.mark.parametrize(
    "odd",
    [
        '"9.head":{"Job_Name":"x","Variable_List":{"A":005},"job_state":"R"}',
        '"9.head":{"Job_Name":"a&b","Variable_List":{"B":"x"y"},"job_state":"R"}',
        '"9.head":{"Job_Name":"a\x01b\tc","job_state":"R"}',
        '"9.head":{"Job_Name":"a\\x","job_state":"R"}',
        '"9.head":{"Job_Name":"x","Variable_List":{"A":NaN,"B":.5},"job_state":"R"',
        '"9.head":5',
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_pbs_tells_of_jobs_beside_one_that_is_no_json(odd: str, first: bool) -> None:
    good = '"12[3].head":{\n "Job_Name":"demo","job_state":"F","Exit_status":-3,"queue":"q"}'
    both = [odd, good] if first else [good, odd]
    found = PBS.listed('{"timestamp":1,"Jobs":{' + ",\n".join(both) + "}}")["12[3].head"]
    assert (found.name, found.state, found.exit_code, found.queue) == ("demo", "ended", None, "q")


@pytest.mark.parametrize("name", ["a&b", "a\x02b", "a<b", "&#1;", "\ufffe"])
def test_gridengine_tells_of_jobs_beside_one_that_is_no_xml(name: str) -> None:
    each = JOB.replace("<state>{}</state>", "<state>r</state>")
    text = (
        f"<job_info><queue_info>{each.format(9, name)}{each.format(12, 'demo&amp;')}</queue_info></job_info>"
    )
    assert GRIDENGINE.listed(text)["12"].name == "demo&"
    assert GRIDENGINE.listed(text)["12"].state == "running"


@pytest.mark.parametrize("break_", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\r"])
def test_what_only_python_takes_for_an_end_of_line_is_none(break_: str) -> None:
    """Else the rest of a name would be read as a record of its own."""
    row = "".join(
        f"{value:<{width}}"
        for value, (_, width) in zip(
            ("9", "PENDING", "0:0", "p", "None", f"a{break_}b"), COLUMNS, strict=True
        )
    )
    assert SLURM.listed(f"{row}\n").keys() == {"9"}
    assert SLURM.remembered(f"9|COMPLETED|0:0|p|a{break_}12|COMPLETED|0:0|p|demo\n").keys() == {"9"}
    assert LSF.listed(f"9|0|PEND|-|q|a|b{break_}12|0|DONE|-|q|demo|-\n").keys() == {"9"}


@pytest.mark.parametrize(
    ("job", "numbers"),
    [
        ("12_[1-3]", "12_1 12_2 12_3"),
        ("12_[1,3-4%2]", "12_1 12_3 12_4"),
        ("12_[1-9:4]", "12_1 12_5 12_9"),
        ("12_[7]", "12_7"),
        ("12_[0]", "12_0"),
        ("12_5", "12_5"),
        ("12", "12"),
        ("12_[1-3", "12_1 12_2 12_3"),
        ("12_[1,...]", "12_1"),
    ],
)
def test_ranges_mean_the_same_in_listing_and_history(job: str, numbers: str) -> None:
    row = "".join(
        f"{value:<{width}}"
        for value, (_, width) in zip((job, "PENDING", "0:0", "p", "None", "demo"), COLUMNS, strict=True)
    )
    assert " ".join(SLURM.listed(row)) == numbers
    assert " ".join(SLURM.remembered(f"{job}|CANCELLED by 1000|0:0|p|demo\n")) == numbers


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ("30", 1800),
        ("30:00", 1800),
        ("1:30:00", 5400),
        ("1-12", 129_600),
        ("1-12:30", 131_400),
        ("1-12:30:30", 131_430),
        ("2-00:00:00", 172_800),
        ("0", 0),
        ("infinite", None),
        ("UNLIMITED", None),
        ("n/a", None),
        ("", None),
        ("-1", None),
        ("1:2:3:4", None),
        ("1-", None),
    ],
)
def test_time_limits_are_read_in_one_way(limit: str, expected: int | None) -> None:
    assert slurm_seconds(limit) == expected


@pytest.mark.parametrize(
    ("state", "reason", "expected"),
    [
        ("PENDING", "Priority", "waiting"),
        ("PENDING", "Dependency", "waiting"),
        ("PENDING", "JobHeldUser", "stuck"),
        ("PENDING", "JobHeldAdmin", "stuck"),
        ("PENDING", "launch failed requeued held", "stuck"),
        ("PENDING", "BadConstraints", "stuck"),
        ("REQUEUE_HOLD", "None", "stuck"),
        ("OUT_OF_ME+", "None", "ended"),
        ("CANCELLED+", "None", "ended"),
        ("TURNED_INTO_A_FROG", "None", "unknown"),
    ],
)
def test_slurm_states_are_told_with_their_words(state: str, reason: str, expected: str) -> None:
    row = "".join(
        f"{value:<{width}}"
        for value, (_, width) in zip(("9", state, "0:0", "p", reason, "demo"), COLUMNS, strict=True)
    )
    job = SLURM.listed(row)["9"]
    assert job.state == expected
    assert state in job.reason
    assert job.excess == ("memory" if state == "OUT_OF_ME+" else "")


def test_a_state_that_is_not_known_holds_a_place_and_can_be_cancelled(tmp_path: Path) -> None:
    listing = "printf '%-60s%-20s%-12s%-60s%-60s%-300s\\n' 12 TURNED_INTO_A_FROG 0:0 p None demo-pilot-1"
    scripts = {"squeue": listing, "scancel": 'echo "$@" >>$S/cancelled', "sinfo": "true", "sacct": "true"}
    slurm = Slurm({"commands": commands(tmp_path / "bin", scripts), "spool": str(tmp_path / "spool")})
    status = slurm.poll(["12/demo-pilot-1"])["12/demo-pilot-1"]
    assert (status.state, status.reason) == ("unknown", "TURNED_INTO_A_FROG")
    assert slurm.capacity().waiting == 1
    slurm.cancel(["12/demo-pilot-1"])
    assert lines(tmp_path / "bin", "cancelled") == ["--quiet 12"]


@pytest.mark.parametrize(
    "refusal",
    [
        'echo "sacct: error: Invalid job id: $bad" >&2; exit 1',
        "echo 'sacct: error: no' >&2; exit 1",
        "exit 1",
    ],
)
@pytest.mark.parametrize("bad", ["666", "10", "12 666", "10 66"])
def test_ids_that_a_history_refuses_hide_no_others(tmp_path: Path, refusal: str, bad: str) -> None:
    asked = [10, 11, 12, 66, 665, 666, 667]
    refuse = "".join(f'case ",$jobs," in *,{one},*) bad={one}; {refusal};; esac; ' for one in bad.split())
    sacct = (
        'for a; do case "$a" in --jobs=*) jobs=${a#--jobs=};; --completion) exit 0;; esac; done; '
        + refuse
        + 'for j in $(echo "$jobs" | tr , " "); do echo "$j|COMPLETED|0:0|p|demo-$j"; done'
    )
    found = polled(
        Slurm, tmp_path, {"squeue": "true", "sacct": sacct}, *((str(n), f"demo-{n}") for n in asked)
    )
    states = {n: status.state for n, status in zip(asked, found, strict=True)}
    assert states == {n: "unknown" if str(n) in bad.split() else "ended" for n in asked}
    if "echo" in refusal:
        assert all("sacct: error" in status.reason for status in found if status.state == "unknown")


def test_a_history_that_is_not_there_is_not_asked_for_each(tmp_path: Path) -> None:
    sacct = "echo x >>$S/asked; echo 'Slurm accounting storage is disabled' >&2; exit 1"
    made = Slurm(
        {
            "commands": commands(tmp_path / "bin", {"squeue": "true", "sacct": sacct}),
            "spool": str(tmp_path / "spool"),
        }
    )
    references = [f"{n}/demo-{n}" for n in range(500)]
    for status in made.poll(references).values():
        assert (status.state, "disabled" in status.reason) == ("unknown", True)
    first = len(lines(tmp_path / "bin", "asked"))
    assert first < 50
    made.poll(references)
    assert len(lines(tmp_path / "bin", "asked")) <= first + 2


@pytest.mark.parametrize(
    ("submitted", "listed"),
    [("12.long.domain.example", "12.long"), ("12.long", "12.long.domain.example"), ("12", "12.long")],
)
def test_pbs_jobs_are_the_same_however_their_server_is_spelled(
    tmp_path: Path, submitted: str, listed: str
) -> None:
    other = '"12.other":{{"Job_Name":"x","job_state":"F"}}'
    each = '{{"Jobs":{{' + other + ',"{}":{{"Job_Name":"{}","job_state":"R"}}}}}}'
    scripts = {
        "qsub": f"cat >/dev/null; echo {submitted}",
        "qstat": f"echo '{each.format(listed, 'demo-pilot-1')}'",
        "qdel": 'echo "$@" >>$S/deleted',
    }
    made = Pbs({"commands": commands(tmp_path / "bin", scripts), "spool": str(tmp_path / "spool")})
    order = PilotOrder(pilot=1, name="demo-pilot-1", token="t" * 20, server_url="http://127.0.0.1:8970")
    (answer,) = made.submit([order])
    assert made.poll([answer.reference])[answer.reference].state == "running"
    made.cancel([answer.reference])
    assert len(lines(tmp_path / "bin", "deleted")) == 1


QSTAT = (
    'case "$*" in *-j*) cat <<X\n==============================================================\n'
    "job_number:                 7\nerror reason    1:          11/26/2026 can't chdir to /nowhere\n"
    'scheduling info:            queue instance "all.q@a" dropped because it is full\n'
    "==============================================================\n"
    "job_number:                 6\n"
    'scheduling info:            queue instance "all.q@a" dropped because it is full\n'
    "                            Job is in no queue that has room\nX\n;; *) cat <<X\n"
    "<job_info><queue_info/><job_info>\n{}\n</job_info></job_info>\nX\n;; esac"
)
JOB = "<job_list><JB_job_number>{}</JB_job_number><JB_name>{}</JB_name><state>{}</state></job_list>"


@pytest.mark.parametrize("state", ["Eqw", "Ehqw", "EhRqw"])
def test_a_gridengine_job_in_error_is_stuck_with_its_words(tmp_path: Path, state: str) -> None:
    scripts = {"qstat": QSTAT.format(JOB.format(7, "demo", state)), "qacct": "true"}
    (status,) = polled(GridEngine, tmp_path, scripts, ("7", "demo"))
    assert status.state == "stuck"
    assert "can't chdir to /nowhere" in status.reason


def test_a_gridengine_job_that_waits_says_why(tmp_path: Path) -> None:
    scripts = {"qstat": QSTAT.format(JOB.format(6, "demo", "qw")), "qacct": "true"}
    (status,) = polled(GridEngine, tmp_path, scripts, ("6", "demo"))
    assert status.state == "waiting"
    assert "dropped because it is full; Job is in no queue" in status.reason


def test_jobs_that_somebody_holds_are_stuck() -> None:
    held = JOB.format(6, "demo", "hqw")
    assert GRIDENGINE.listed(f"<job_info>{held}</job_info>")["6"].state == "stuck"
    waits = GridEngineProfile(GridEngineOptions(extra=("-hold_jid=3",)))
    assert waits.listed(f"<job_info>{held}</job_info>")["6"].state == "waiting"
    assert PBS.listed('{"Jobs":{"6.h":{"Job_Name":"demo","job_state":"H"}}}')["6.h"].state == "stuck"
    assert LSF.listed("6|0|PSUSP|-|q|demo|-|-\n")["6"].state == "stuck"


@pytest.mark.parametrize(
    ("failed", "status", "code"),
    [
        ("0", "0", 0),
        ("0", "3", 3),
        ("0", "137                  (Killed)", -9),
        ("100 : assumedly after job", "137", -9),
        ("37  : qmaster enforced h_rt, h_cpu, or h_vmem limit", "137", -9),
        ("27  : searching requested shell", "0", None),
        ("26  : opening input/output file", "0", None),
        ("1   : assumedly before job", "0", None),
        ("21  : in recognizing job", "0", None),
        ("0", "", None),
    ],
)
def test_a_gridengine_job_that_never_started_has_no_exit_code(
    failed: str, status: str, code: int | None
) -> None:
    block = "=====\njobname      demo\njobnumber    8\ntaskid       undefined\n"
    block += f"failed       {failed}\nexit_status  {status}  \n"
    assert GRIDENGINE.remembered(block)["8"].exit_code == code
    assert GRIDENGINE.remembered(block)["8"].state == "ended"
