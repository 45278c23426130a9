"""The computing element of kind ``gridengine`` against a real Grid Engine."""

from pathlib import Path

from pilotage.adapters.computing.contract import violations
from pilotage.adapters.computing.gridengine import GridEngine as GridEngineElement
from tests.agent.fake_pilot_server import FakeServer
from tests.waiting import wait_for

from .gridengine import GridEngine
from .test_slurm import orders


def test_it_keeps_the_contract(grid_engine: GridEngine, tmp_path: Path) -> None:
    options = {"spool": str(tmp_path / "spool")}
    with FakeServer(idle=600).serving() as server:
        assert violations(GridEngineElement, options, orders(server, 3)) == []
        assert violations(GridEngineElement, options, orders(server, 2, walltime=7200)[:1]) == []


def test_a_single_pilot_calls_home(grid_engine: GridEngine, tmp_path: Path) -> None:
    """Which has no index: Grid Engine tells it that it is undefined."""
    element = GridEngineElement({"spool": str(tmp_path / "spool")})
    with FakeServer(idle=600).serving() as server:
        (answer,) = element.submit(orders(server, 1))
        wait_for(lambda: server.matches, "it asks for work")
        assert element.poll([answer.reference])[answer.reference].state == "running"


def test_pilots_of_several_cores_run_and_their_end_is_remembered(
    grid_engine: GridEngine, tmp_path: Path
) -> None:
    options = {"spool": str(tmp_path / "spool"), "parallel_environment": "smp", "queue": "main.q"}
    element = GridEngineElement(options)
    with FakeServer(idle=600).serving() as server:
        answers = element.submit(orders(server, 2, cores=2))
        assert [answer.error for answer in answers] == ["", ""]
        references = [answer.reference for answer in answers]
        wait_for(lambda: len(server.matches) >= 2, "both ask for work")
        assert {status.state for status in element.poll(references).values()} == {"running"}
        server.status = 410
        wait_for(
            lambda: {status.state for status in element.poll(references).values()} == {"ended"},
            "they end",
        )
        status = element.poll(references)[references[0]]
        assert status.exit_code == 1
        assert "given up" in status.reason
    assert element.capacity().slots == 8


def test_what_it_refuses_says_who_can_mend_it(grid_engine: GridEngine, tmp_path: Path) -> None:
    spool = {"spool": str(tmp_path / "spool")}
    with FakeServer().serving() as server:
        (answer,) = GridEngineElement({**spool, "queue": "nowhere"}).submit(orders(server, 1))
        assert 'unknown queue "nowhere"' in answer.error
        assert "`qconf -sql` lists" in answer.error
        (answer,) = GridEngineElement(spool).submit(orders(server, 1, cores=4))
        assert "need option parallel_environment" in answer.error
