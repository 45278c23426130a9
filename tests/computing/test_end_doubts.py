"""Ends that a batch system reports without the pilot's node are doubted, for as long as its kind declares."""

from types import SimpleNamespace
from typing import Any

import pytest

from pilotage.adapters.computing.htcondor import HTCondor
from pilotage.adapters.computing.htcondor.element import _status
from pilotage.adapters.computing.kubernetes import Kubernetes
from pilotage.adapters.computing.kubernetes.pilot_states import job_status
from pilotage.adapters.computing.slurm import Slurm, job_of
from pilotage.adapters.computing.slurmrest import SlurmRest


@pytest.mark.parametrize(
    ("state", "doubt"), [("NODE_FAIL", Slurm.end_doubt), ("FAILED", 0), ("CANCELLED by 0", 0), ("TIMEOUT", 0)]
)
def test_slurm_may_lose_only_the_node(state: str, doubt: float) -> None:
    assert job_of(state, "", 1, "main", "pilot").end_doubt == doubt
    assert Slurm.end_doubt == SlurmRest.end_doubt > 0


@pytest.mark.parametrize(("status", "doubt"), [(3, HTCondor.end_doubt), (4, 0)])
def test_a_job_that_htcondor_removes_may_still_run(status: int, doubt: float) -> None:
    found = _status({"JobStatus": status, "ExitCode": 0}, {})
    assert (found.state, found.end_doubt) == ("ended", doubt)


@pytest.mark.parametrize(
    ("condition", "reason", "is_seen", "doubt"),
    [
        ("Failed", "BackoffLimitExceeded", False, Kubernetes.end_doubt),
        ("Failed", "BackoffLimitExceeded", True, 0),
        ("Failed", "DeadlineExceeded", False, 0),
        ("Complete", None, False, 0),
    ],
)
def test_a_job_of_kubernetes_may_fail_without_its_container(
    condition: str, reason: str | None, is_seen: bool, doubt: float
) -> None:
    told = SimpleNamespace(type=condition, status="True", reason=reason, message=None)
    job: Any = SimpleNamespace(status=SimpleNamespace(conditions=[told]))
    end = SimpleNamespace(reason="Error", message=None, exit_code=1)
    container = SimpleNamespace(
        name="pilot", state=SimpleNamespace(terminated=end, running=None, waiting=None)
    )
    pod: Any = SimpleNamespace(status=SimpleNamespace(container_statuses=[container]))
    found = job_status(job, pod if is_seen else None)
    assert (found.state, found.end_doubt) == ("ended", doubt)
