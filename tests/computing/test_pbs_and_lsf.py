"""PBS and LSF behind the batch port: stand-in commands, whose answers are written by hand."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pilotage.adapters.computing.batch import BatchElement, BatchJob
from pilotage.adapters.computing.batch.profile import CommandFault, Request
from pilotage.adapters.computing.contract import violations
from pilotage.adapters.computing.lsf import Lsf, LsfOptions, LsfProfile
from pilotage.adapters.computing.pbs import Pbs, PbsOptions, PbsProfile
from pilotage.ports.computing import PilotOrder
from tests.agent.fake_pilot_server import TOKEN, FakeServer
from tests.waiting import wait_for

from .standin import install, install_failing

PBS = PbsProfile(PbsOptions(queue="workq", account="phys", resources=("ngpus=1",)))
LSF = LsfProfile(LsfOptions(queue="normal", project="phys", gpu="num=1"))
REQUEST = Request(name="here-1", count=3, cores=4, memory=500.5, walltime=3601, log="/s/here-1")

QSTAT = """\
{"timestamp":1700000000, "pbs_version":"0.0", "pbs_server":"head", "Jobs":{
 "12.head":{"Job_Name":"here-1","Job_Owner":"me@head","job_state":"Q","queue":"workq","server":"head",
   "comment":"Not Running: Insufficient amount of resource: ncpus"},
 "13[2].head":{"Job_Name":"here-2+1","job_state":"X","queue":"workq","Exit_status":3},
 "14.head":{"Job_Name":"here-4","job_state":"F","queue":"workq","Exit_status":265},
 "15.head":{"Job_Name":"here-5","job_state":"F","queue":"workq","Exit_status":-3}}}
"""
BJOBS = """\
101|0|PEND|-|normal|here-1|New job is waiting for scheduling;|-
102|2|EXIT|3|normal|here-2+1[2]|-|-
103|0|DONE|-|normal|here-4|-|-
104|0|EXIT|137|normal|here-5|-|-
105|0|UNKWN|-|normal|here-6|-|-
"""


def test_commands_say_all_that_was_asked() -> None:
    assert " ".join(PBS.submit(REQUEST)) == (
        "qsub -N here-1 -j oe -o /s/here-1 -S /bin/sh -r n -l select=1:ncpus=4:mem=501mb:ngpus=1 "
        "-l walltime=3601 -J 1-3 -q workq -A phys"
    )
    assert " ".join(LSF.submit(REQUEST)) == (
        "bsub -J here-1[1-3] -o /s/here-1 -rn -n 4 -W 61 -R span[hosts=1] -M 501MB -R rusage[mem=501MB/job] "
        "-q normal -P phys -gpu num=1"
    )


def test_numbers_are_read() -> None:
    assert PBS.submitted("12[].head\n") == "12[].head"
    assert PBS.elements("12[].head", 2) == ["12[1].head", "12[2].head"]
    assert PBS.number("12[1].head") == "12[].head"
    assert LSF.submitted("Job <12> is submitted to queue <normal>.\n") == "12"
    assert LSF.elements("12", 2) == ["12[1]", "12[2]"]
    for profile in (PBS, LSF):
        with pytest.raises(CommandFault, match="no job's number"):
            profile.submitted("Thank you\n")


def test_listings_are_read() -> None:
    waits = "Q Not Running: Insufficient amount of resource: ncpus"
    assert PBS.listed(QSTAT) == {
        "12.head": BatchJob(name="here-1", state="waiting", reason=waits, queue="workq"),
        "13[2].head": BatchJob(name="here-2+1", state="ended", reason="X", exit_code=3, queue="workq"),
        "14.head": BatchJob(name="here-4", state="ended", reason="F", exit_code=-9, queue="workq"),
        "15.head": BatchJob(name="here-5", state="ended", reason="F", queue="workq"),
    }
    waits = "PEND: New job is waiting for scheduling;"
    assert LSF.listed(BJOBS) == {
        "101": BatchJob(name="here-1", state="waiting", reason=waits, queue="normal"),
        "102[2]": BatchJob(name="here-2+1", state="ended", reason="EXIT", exit_code=3, queue="normal"),
        "103": BatchJob(name="here-4", state="ended", reason="DONE", exit_code=0, queue="normal"),
        "104": BatchJob(name="here-5", state="ended", reason="EXIT", exit_code=-9, queue="normal"),
        "105": BatchJob(name="here-6", state="unknown", reason="UNKWN", queue="normal"),
    }


@pytest.mark.parametrize("answer", ["[1]", '{"Jobs": {"1": 2}}', '{"Jobs": [1]}', "<xml/>"])
def test_an_answer_that_is_not_understood_is_a_fault(answer: str) -> None:
    with pytest.raises(CommandFault):
        PBS.listed(answer)


@pytest.mark.parametrize(("kind", "extra"), [(Pbs, "-N"), (Pbs, "-Nother"), (Lsf, "-J"), (Lsf, "-K")])
def test_an_extra_option_that_the_adapter_says_itself_is_refused(
    kind: Callable[[dict[str, Any]], BatchElement], extra: str
) -> None:
    with pytest.raises(ValueError, match="the adapter sets itself"):
        kind({"extra": [extra]})


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Pbs, Lsf])
def test_they_keep_the_contract(kind: Any, tmp_path: Path) -> None:
    options = {"spool": str(tmp_path / "spool"), "commands": install(tmp_path / "commands")}
    with FakeServer(idle=600).serving() as server:
        orders = [
            PilotOrder(pilot=n, name=f"here-pilot-{n}", token=TOKEN, server_url=server.url, walltime=3600)
            for n in range(1, 4)
        ]
        failing = {**options, "commands": install_failing(tmp_path / "failing", options["commands"])}
        assert violations(kind, options, orders, losing=lambda _: kind(failing)) == []
        (answer,) = kind({**options, "queue": "nowhere"}).submit([replace(orders[0], name="here-pilot-4")])
        assert "correct option queue" in answer.error


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Pbs, Lsf])
def test_their_pilots_call_home(kind: Any, tmp_path: Path) -> None:
    element = kind({"spool": str(tmp_path / "spool"), "commands": install(tmp_path / "commands")})
    with FakeServer(idle=600).serving() as server:
        order = PilotOrder(pilot=1, name="here-pilot-1", token=TOKEN, server_url=server.url, walltime=3600)
        (answer,) = element.submit([order])
        wait_for(lambda: server.matches, "it asks for work")
        element.cancel([answer.reference])
        wait_for(lambda: element.poll([answer.reference])[answer.reference].state == "ended", "it ends")
