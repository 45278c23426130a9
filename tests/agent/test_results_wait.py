"""What payloads made waits while the server is away: nothing is computed twice."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pilotage.agent.client import MOST_ASKED_FOR, Pause, PilotClient, UnreachableError
from tests.waiting import wait_for

from .fake_pilot_server import TOKEN, FakeServer
from .test_agent import Site, sh

pytestmark = pytest.mark.slow

LEASE = 1.5
"""The lease in s of the jobs here."""


@pytest.fixture
def away(tmp_path: Path) -> Site:
    """A site whose server does not run yet."""
    (tmp_path / "storage").mkdir()
    (tmp_path / "shared").mkdir()
    server = FakeServer(lease=LEASE, idle=3)
    with server.serving():
        pass
    return Site(tmp_path, server)


@contextmanager
def server_away_as_the_payload_ends(site: Site, **storage: Any) -> Iterator[None]:
    """Run one payload, and let the server go before its end, for more than twice the lease."""
    go = site.shared / "go"
    command = sh(f"until [ -e {go} ]; do sleep 0.05; done; echo result > out")
    site.server.works = [[site.work(*command, outputs=["out"], **storage)]]
    with site.agent():
        with site.server.serving():
            wait_for(lambda: "running" in site.server.states(), "its payload runs")
        go.touch()
        time.sleep(2.5 * LEASE)
        with site.server.serving():
            wait_for(lambda: "done" in site.server.states(), "its end")
            yield


def test_outputs_that_go_through_the_server_wait_for_it(away: Site) -> None:
    with server_away_as_the_payload_ends(away, storage_url="sftp://host/x", asks=True):
        assert away.server.contents == {"1/1?name=out&source=": b"result\n"}
        assert [(one.name, one.size) for one in away.server.last().outputs] == [("out", 7)]
        assert away.server.states() == ["starting", "running", "done"]


def test_the_end_of_a_payload_waits_beyond_twice_the_lease(away: Site) -> None:
    with server_away_as_the_payload_ends(away):
        assert (away.scratch() / "out").read_text() == "result\n"


def test_results_of_an_attempt_that_another_pilot_has_are_dropped(away: Site) -> None:
    go = away.shared / "go"
    command = sh(f"until [ -e {go} ]; do sleep 0.05; done; echo result > out")
    asked = away.work(*command, outputs=["out"], storage_url="sftp://host/x", asks=True)
    away.server.works = [[asked]]
    with away.agent() as agent:
        with away.server.serving():
            wait_for(lambda: "running" in away.server.states(), "its payload runs")
        go.touch()
        time.sleep(LEASE)
        away.server.stop, away.server.status_of = [(1, 1)], {"content": 503}
        with away.server.serving():
            assert agent.wait(60) == 0
    assert "done" not in away.server.states()
    assert list(away.place.iterdir()) == []


def test_a_server_may_ask_for_a_longer_pause() -> None:
    pause = Pause(longest=15)
    assert [pause.failed() <= 15 for _ in range(12)] == [True] * 12
    assert all(20 <= pause.failed(20) <= 30 for _ in range(12))
    assert pause.failed(1e9) <= 1.5 * MOST_ASKED_FOR


def test_an_answer_says_for_how_long_to_wait(away: Site) -> None:
    away.server.status, away.server.retry_after = 503, 40
    with away.server.serving(), pytest.raises(UnreachableError) as failure:
        asyncio.run(PilotClient(away.server.url, TOKEN).enrol())
    assert failure.value.pause == 40
