"""B12 at the pilot: a payload's disk I/O is told while it runs, seldom, and where it changed."""

import asyncio
from pathlib import Path
from unittest.mock import Mock

import pytest

from pilotage.agent.jobs import JobRunner
from pilotage.agent.node import Resources
from pilotage.agent.payload import disk_rate
from pilotage.agent.payload.attempt import Attempt
from pilotage.agent.payload.disk_rate import DiskRate
from pilotage.agent.pilot_job import LeaseTimes, PilotJob
from pilotage.agent.proof import Containment
from pilotage.agent.wire import JobOrder, Point, Report, Work

WRITES = """
import os, time
with open("file", "wb") as file:
    file.write(os.urandom(20_000_000))
    file.flush()
    os.fsync(file.fileno())
time.sleep(6)
"""


def point(second: float, read: float, written: float) -> Point:
    return (second, 0.0, 0.0, read, written, 0.0, 0.0)


def test_b12_rates_are_between_two_looks_and_per_core() -> None:
    rate = DiskRate(cores=4)
    assert rate.news([]) is None, "nothing is known yet"
    assert rate.news([point(1, 0, 0), point(10, 30_000, 10_000)]) == 1000
    assert rate.news([point(10, 30_000, 10_000)]) is None, "the time line has no new point"
    assert rate.news([point(110, 30_000, 10_000)]) == 0, "the mean since the start would be 91"


def test_b12_only_notable_changes_are_news() -> None:
    rate = DiskRate(cores=1)
    told = []
    kilobytes = 0.0
    for at, now in enumerate((1000, 1150, 1190, 1250, 1000, 900, 0, 9, 10, 11), 1):
        kilobytes += now
        told.append(rate.news([point(at, kilobytes, 0)]))
    assert told == [1000, None, None, 1250, None, 900, 0, None, None, 11]


def test_b12_a_counter_that_falls_is_no_negative_rate() -> None:
    rate = DiskRate(cores=1)
    assert rate.news([point(1, 1000, 0)]) == 1000
    assert rate.news([point(2, 10, 0)]) == 0


def test_b12_a_rate_that_is_not_told_yet_is_told_also_where_it_is_0() -> None:
    assert DiskRate(cores=1).news([point(60, 0, 0)]) == 0


@pytest.mark.slow
def test_b12_the_agent_tells_a_payloads_disk_io_while_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_rate, "FIRST", 1.0)
    monkeypatch.setattr(disk_rate, "EVERY", 0.5)
    work = Work(task=1, command=("python3", "-c", WRITES), contained=False, cores=2)
    held = PilotJob(Attempt(work, JobOrder(1, 1, "scratch")), 0, LeaseTimes(1e9, 1e9))
    pilot = Mock(contact=0.0, containment=Containment())

    async def life() -> float | None:
        runner = JobRunner(pilot, Resources(directory=tmp_path), Mock())
        await runner._prepare(held)
        ended = await runner._run_payload(held)
        said = pilot.say.call_count
        await asyncio.sleep(2)
        assert pilot.say.call_count == said, "nothing is told of a payload that has ended"
        return ended.disk_io

    mean = asyncio.run(life())
    told: list[Report] = [call.args[0] for call in pilot.say.call_args_list]
    assert [report.state for report in told[:2]] == ["starting", "running"]
    assert told[1].disk_io is None
    rates = [report.disk_io for report in told[2:]]
    assert {report.state for report in told[2:]} == {"running"}
    if not mean:
        pytest.skip("the kernel counts no disk I/O in this directory")
    assert rates
    assert rates[-1] == 0, "it only sleeps now"
    assert max(rate or 0 for rate in rates) > 0
