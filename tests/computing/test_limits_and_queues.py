"""Jobs that batch systems kill for a limit, hold, suspend, or pass on to other queues."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pilotage.adapters.computing.arc.element import _status as arc_status
from pilotage.adapters.computing.batch import BatchElement
from pilotage.adapters.computing.batch.profile import Reference
from pilotage.adapters.computing.gridengine import GridEngine
from pilotage.adapters.computing.gridengine import _state as gridengine_state
from pilotage.adapters.computing.htcondor.element import _status as htcondor_status
from pilotage.adapters.computing.kubernetes.pilot_states import job_status
from pilotage.adapters.computing.lsf import Lsf
from pilotage.adapters.computing.pbs import Pbs
from pilotage.adapters.computing.slurm import Slurm
from pilotage.ports.computing import PilotOrder, PilotStatus

from .stand_in_commands import commands, lines

NAME = "demo-pilot-1"
ORDER = PilotOrder(pilot=1, name=NAME, token="t", server_url="http://127.0.0.1:1", walltime=3600)


def status_of(kind: Callable[..., BatchElement], folder: Path, job: str, **scripts: str) -> PilotStatus:
    """Poll one pilot."""
    element = kind({"commands": commands(folder / "bin", scripts), "spool": str(folder / "spool")})
    (status,) = element.poll([str(Reference(job, NAME, NAME))]).values()
    return status


def pbs(exit_status: int) -> Mapping[str, str]:
    words = {"Job_Name": NAME, "job_state": "F", "Exit_status": exit_status, "queue": "q"}
    return {"qstat": f"cat <<'X'\n{json.dumps({'Jobs': {'7.srv': words}})}\nX"}


def gridengine(failed: str, code: int, used: str = "") -> Mapping[str, str]:
    fields = ("====", f"jobname {NAME}", "jobnumber 7", f"failed {failed}", f"exit_status {code}", "slots 2")
    request = "category -l h_rt=60,h_vmem=500M"
    words = "\n".join((*fields, request, *used.split(";")))
    return {"qstat": "echo '<job_info></job_info>'", "qacct": f"cat <<'X'\n{words}\nX"}


def lsf(code: int, reason: str) -> Mapping[str, str]:
    return {"bjobs": f"echo '7|0|EXIT|{code}|normal|{NAME}|-|{reason}'"}


def slurm(state: str) -> Mapping[str, str]:
    return {"squeue": "true", "sacct": f"echo '7|{state}|0:0|q|{NAME}'"}


@pytest.mark.parametrize(
    ("kind", "job", "scripts", "excess"),
    [
        (Slurm, "7", slurm("TIMEOUT"), "walltime"),
        (Slurm, "7", slurm("OUT_OF_MEMORY"), "memory"),
        (Slurm, "7", slurm("FAILED"), ""),
        (Pbs, "7.srv", pbs(-29), "walltime"),
        (Pbs, "7.srv", pbs(-27), "memory"),
        (Pbs, "7.srv", pbs(-26), "memory"),
        (Pbs, "7.srv", pbs(-3), ""),
        (Pbs, "7.srv", pbs(1), ""),
        (GridEngine, "7", gridengine("37  : qmaster enforced h_rt, h_cpu, or h_vmem limit", 137), "walltime"),
        (GridEngine, "7", gridengine("100 : assumedly after job", 137, "ru_wallclock 61s"), "walltime"),
        (GridEngine, "7", gridengine("100 : assumedly after job", 137, "maxvmem 1.2G"), "memory"),
        (GridEngine, "7", gridengine("100 : assumedly after job", 137, "maxvmem 0.9G"), ""),
        (GridEngine, "7", gridengine("0", 1, "ru_wallclock 61s"), ""),
        (Lsf, "7", lsf(140, "TERM_RUNLIMIT: job killed after reaching LSF run time limit"), "walltime"),
        (Lsf, "7", lsf(137, "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit"), "memory"),
        (Lsf, "7", lsf(1, "Exited with 1"), ""),
    ],
)
def test_a_kill_for_a_limit_names_the_limit(
    kind: Any, job: str, scripts: Mapping[str, str], excess: str, tmp_path: Path
) -> None:
    status = status_of(kind, tmp_path, job, **scripts)
    assert (status.state, status.excess) == ("ended", excess)


@pytest.mark.parametrize(
    ("error", "excess"),
    [
        ("LRMS error: (271) job killed: vmem", "memory"),
        ("LRMS error: (-1) Job timeout", "walltime"),
        ("job killed: wall", "walltime"),
        ("Node fail", ""),
    ],
)
def test_arc_names_the_limit_in_its_error(error: str, excess: str) -> None:
    assert arc_status("FAILED", {"Error": [error]}).excess == excess


def test_htcondor_counts_a_policy_only_where_the_operator_named_it() -> None:
    ad = {
        "JobStatus": 5,
        "HoldReasonCode": 26,
        "HoldReasonSubCode": 102,
        "HoldReason": "Memory usage exceeded",
    }
    assert htcondor_status(ad, {}).excess == ""
    assert htcondor_status(ad, {"memory usage": "memory"}).excess == "memory"
    assert htcondor_status(ad, {"102": "walltime"}).excess == "walltime"
    removed = {"JobStatus": 3, "RemoveReason": "PERIODIC_REMOVE: memory usage of 4 GB"}
    assert htcondor_status(removed, {"memory usage": "memory"}).excess == "memory"
    assert htcondor_status(ad | {"HoldReasonCode": 34}, {}).excess == "memory"


@pytest.mark.parametrize(
    ("reason", "remedy"),
    [
        ("PartitionTimeLimit", "pilot_walltime"),
        ("PartitionNodeLimit", "cores"),
        ("QOSMaxWallDurationPerJobLimit", "pilot_walltime"),
        ("AssocMaxWallDurationPerJobLimit", "pilot_walltime"),
        ("QOSMaxCpuPerJobLimit", "cores"),
        ("AssocMaxCpuPerJobLimit", "cores"),
        ("QOSMaxMemoryPerJob", "memory"),
        ("AssocMaxGRESPerJob", "gres"),
        ("QOSMinCpuNotSatisfied", "cores"),
        ("BadConstraints", "constraint"),
        ("JobHoldMaxRequeue", "JobHoldMaxRequeue"),
        ("ReservationDeleted", "ReservationDeleted"),
        ("Priority", ""),
        ("QOSMaxJobsPerUserLimit", ""),
        ("AssocGrpCpuLimit", ""),
    ],
)
def test_a_slurm_limit_of_one_job_is_stuck_with_a_remedy(reason: str, remedy: str, tmp_path: Path) -> None:
    row = f"printf '%-60s%-20s%-12s%-60s%-60s%-300s\\n' 7 PENDING 0:0 q '{reason}' {NAME}"
    status = status_of(Slurm, tmp_path, "7", squeue=row, sacct="true")
    assert status.state == ("stuck" if remedy else "waiting")
    assert remedy in status.reason


def test_what_people_hold_says_who_releases_it() -> None:
    held = arc_status("HELD", {})
    assert held.state == "stuck"
    assert "release" in held.reason


@pytest.mark.parametrize(
    "letters", ["r", "Rr", "dr", "s", "S", "T", "tS", "Rs", "RS", "RT", "dRs", "dRT", "P", "N"]
)
def test_a_suspended_gridengine_job_runs(letters: str) -> None:
    assert gridengine_state(letters, False) == "running"


@pytest.mark.parametrize("letters", ["qw", "Rq", "hqw"])
def test_a_waiting_gridengine_job_does_not_run(letters: str) -> None:
    assert gridengine_state(letters, False) in ("waiting", "stuck")


def test_a_job_that_the_cluster_queue_suspends_says_so() -> None:
    condition = SimpleNamespace(
        type="Suspended", status="True", reason="JobSuspended", message="Job suspended"
    )
    job = SimpleNamespace(
        metadata=SimpleNamespace(deletion_timestamp=None), status=SimpleNamespace(conditions=[condition])
    )
    status = job_status(job, None)
    assert status.state == "waiting"
    assert "suspended by a queue" in status.reason


def pbs_queue(running: int, waiting: int, route: str = "") -> Mapping[str, str]:
    counts = f"Transit:0 Queued:{waiting} Held:1 Waiting:0 Running:{running} Exiting:1 Begun:0 "
    return {
        "queue_type": "Route" if route else "Execution",
        "state_count": counts,
        "route_destinations": route,
    }


QUEUES = {
    "route": pbs_queue(0, 1, "small,inner@srv"),
    "inner": pbs_queue(0, 0, "large,route"),
    "small": pbs_queue(2, 0),
    "large": pbs_queue(30, 9),
}


@pytest.mark.parametrize(
    ("option", "queues", "jobs", "everybody"),
    [
        ("route", QUEUES, (36, 14), True),
        ("small", QUEUES, (3, 1), True),
        ("small@srv", QUEUES, (3, 1), True),
        ("large,small", QUEUES, (34, 11), True),
        ("unlisted", QUEUES, (2, 0), False),
        ("small", {}, (2, 0), False),
        ("", QUEUES, (2, 0), False),
    ],
)
def test_m5_jobs_count_in_the_queues_to_which_pbs_passes_them_on(
    option: str, queues: Mapping[str, Any], jobs: tuple[int, int], everybody: bool, tmp_path: Path
) -> None:
    pilots = {
        f"{number}.srv": {"Job_Name": f"demo-pilot-{number}", "job_state": "R", "queue": queue}
        for number, queue in enumerate(("small", "large"), 1)
    }
    scripts = {
        "qselect": "seq -f '%.0f.srv' 1 5000",
        "qstat": f"""
case "$*" in
  *-Q*) echo '{json.dumps({"Queue": queues})}' ;;
  *) echo '{json.dumps({"Jobs": pilots})}'; echo part >>$S/parts ;;
esac""",
    }
    element = Pbs({"commands": commands(tmp_path, scripts), "spool": str(tmp_path / "s"), "queue": option})
    capacity = element.capacity()
    assert ((capacity.running, capacity.waiting), capacity.everybody) == (jobs, everybody)
    assert len(lines(tmp_path, "parts")) == (0 if everybody else 3), "a long history is asked in parts"


SQUEUE = "printf 'RUNNING\nPENDING\nRUNNING\nCOMPLETING\nSUSPENDED\n'"
QSTAT = (
    "echo '<job_info>"
    + "".join(f"<state>{state}</state>" for state in ("r", "qw", "Rr", "hqw"))
    + "</job_info>'"
)


@pytest.mark.parametrize(
    ("kind", "options", "scripts", "jobs"),
    [
        (Slurm, {"partition": "main"}, {"squeue": SQUEUE, "sinfo": "true", "scontrol": "true"}, (4, 1)),
        (Slurm, {}, {"squeue": SQUEUE, "sinfo": "echo 'main*'", "scontrol": "true"}, (4, 1)),
        (Slurm, {}, {"squeue": "true", "sinfo": "echo 'main*'", "scontrol": "true"}, (0, 0)),
        (Lsf, {"queue": "a"}, {"bjobs": "printf 'RUN\nPEND\nPSUSP\nUSUSP\n'"}, (2, 2)),
        (Lsf, {"queue": "a,b"}, {"bjobs": "printf 'RUN\nPEND\n'"}, (2, 2)),
        (Lsf, {"queue": "a"}, {"bjobs": "echo 'No unfinished job found in queue <a>' >&2; exit 255"}, (0, 0)),
        (GridEngine, {"queue": "all.q"}, {"qstat": QSTAT}, (2, 2)),
    ],
)
def test_m5_jobs_of_other_people_count(
    kind: Any, options: Mapping[str, str], scripts: Mapping[str, str], jobs: tuple[int, int], tmp_path: Path
) -> None:
    made = kind({"commands": commands(tmp_path, scripts), "spool": str(tmp_path / "s"), **options})
    capacity = made.capacity()
    assert ((capacity.running, capacity.waiting), capacity.everybody) == (jobs, True)


@pytest.mark.parametrize(
    ("kind", "scripts"),
    [
        (Slurm, {"squeue": "echo 'RUNNING'; exit 1", "sinfo": "true", "scontrol": "true"}),
        (Lsf, {"bjobs": "echo 'LSF is down' >&2; exit 255"}),
        (GridEngine, {"qstat": "exit 1"}),
    ],
)
def test_m5_a_count_that_fails_is_no_count(kind: Any, scripts: Mapping[str, str], tmp_path: Path) -> None:
    options = {"queue": "a"} if kind is not Slurm else {}
    made = kind({"commands": commands(tmp_path, scripts), "spool": str(tmp_path / "s"), **options})
    with pytest.raises(OSError, match=r"stand|sh -c|down|exit status"):
        made.capacity()


def test_m5_slurm_that_hides_other_peoples_jobs_says_so(tmp_path: Path) -> None:
    row = f"printf '%-60s%-20s%-12s%-60s%-60s%-300s\\n' 7 RUNNING 0:0 main None {NAME}"
    scripts = {
        "squeue": f'case "$*" in *--me*) {row} ;; *) echo RUNNING ;; esac',
        "scontrol": "echo 'PrivateData             = accounts,jobs'",
        "sinfo": "echo 'main*'",
    }
    made = Slurm({"commands": commands(tmp_path, scripts), "spool": str(tmp_path / "s")})
    capacity = made.capacity()
    assert (capacity.running, capacity.everybody) == (1, False)


@pytest.mark.parametrize("option", ["all.q", "all.q@@gpu", "all.q@node7", "*@@gpu", "a*"])
def test_gridengine_counts_pilots_of_hosts_host_groups_and_wildcards(option: str, tmp_path: Path) -> None:
    job = (
        f"<job_list><JB_job_number>7</JB_job_number><JB_name>{NAME}</JB_name><state>r</state>"
        "<queue_name>all.q@node7</queue_name></job_list>"
    )
    scripts = {"qstat": f"echo '<job_info>{job}</job_info>'"}
    made = GridEngine(
        {"commands": commands(tmp_path, scripts), "spool": str(tmp_path / "s"), "queue": option}
    )
    assert made.capacity().running == 1


@pytest.mark.parametrize(
    ("kind", "extra"),
    [
        *(
            (Slurm, option)
            for option in ("-M=other", "--clusters=other", "-Mother", "-pother", "--part=other")
        ),
        *((kind, option) for kind in (Pbs, Lsf, GridEngine) for option in ("-q", "-qother")),
        (Pbs, "-uother"),
        (GridEngine, "-clear"),
        *((Lsf, option) for option in ("-pack", "-jsdl", "-json", "-yaml")),
    ],
)
def test_no_extra_option_moves_pilots_to_a_queue_that_is_not_asked(kind: Any, extra: str) -> None:
    with pytest.raises(ValueError, match="the adapter sets itself"):
        kind({"extra": [extra]})


@pytest.mark.parametrize(
    ("kind", "submit", "listing", "words", "remedy"),
    [
        (Slurm, "sbatch", "squeue", "error: invalid partition specified: x", "option partition"),
        (Pbs, "qsub", "qstat", "qsub: Unknown queue", "option queue"),
        (GridEngine, "qsub", "qstat", "Job was rejected because unknown queue x", "option queue"),
        (Lsf, "bsub", "bjobs", "x: No such queue. Job not submitted.", "option queue"),
    ],
)
def test_a_refusal_with_exit_0_is_no_doubt(
    kind: Any, submit: str, listing: str, words: str, remedy: str, tmp_path: Path
) -> None:
    empty = {"qstat": "echo '<job_info></job_info>'"} if kind is GridEngine else {listing: "true"}
    scripts = {submit: f"cat >/dev/null; echo '{words}' >&2; echo took >>$S/submissions", **empty}
    element = kind({"commands": commands(tmp_path, scripts), "spool": str(tmp_path / "s")})
    (answer,) = element.submit([ORDER])
    assert words in answer.error
    assert remedy in answer.error
    assert lines(tmp_path, "submissions") == ["took"]
