"""What is kept of logs: bounded, read with suspicion, there before the end of their attempt is told."""

import base64
import logging
import os
import zlib
from pathlib import Path

import pytest

from pilotage.agent.logs import OwnLog, read_streams, stderr_tail
from pilotage.agent.wire import LOG_HEAD, LONGEST_LOG, Log
from tests.waiting import PATIENCE, wait_for

from .test_agent import Site, sh, site

__all__ = ["site"]


def text(log: Log) -> bytes:
    return zlib.decompress(base64.b64decode(log.data))


def test_a_short_stream_is_kept_whole_and_an_empty_one_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "stdout").write_text("hello")
    (tmp_path / "stderr").touch()
    (log,) = read_streams(tmp_path)
    assert (log.stream, log.size, log.head, text(log)) == ("stdout", 5, 5, b"hello")


def test_of_a_long_stream_beginning_and_end_are_kept(tmp_path: Path) -> None:
    whole = b"".join(b"%09d\n" % number for number in range(20_000))
    (tmp_path / "stderr").write_bytes(whole)
    (log,) = read_streams(tmp_path)
    assert (log.stream, log.size, log.head) == ("stderr", 200_000, LOG_HEAD)
    assert text(log) == whole[:LOG_HEAD] + whole[LOG_HEAD - LONGEST_LOG :]
    assert whole.endswith(stderr_tail(tmp_path).encode() + b"\n")


def test_no_link_is_followed_and_no_pipe_waited_for(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    place = tmp_path / "job"
    place.mkdir()
    (place / "stdout").symlink_to(tmp_path / "secret")
    os.mkfifo(place / "stderr")
    assert read_streams(place) == ()
    assert stderr_tail(place) == ""
    (tmp_path / "other").symlink_to(place)
    (place / "stdout").unlink()
    (place / "stdout").write_text("out")
    assert read_streams(tmp_path / "other") == ()


def test_an_agents_own_log_is_bounded() -> None:
    own = OwnLog()
    logger = logging.Logger("test")
    logger.addHandler(own)
    for number in range(20_000):
        logger.info("%09d", number)
    log = own.log()
    assert (log.size, log.head, len(text(log))) == (200_000, LOG_HEAD, LONGEST_LOG)
    assert text(log).startswith(b"000000000\n")
    assert text(log).endswith(b"000019999\n")


@pytest.mark.slow
def test_logs_come_with_the_end_of_an_attempt_and_the_agents_own_with_the_pilots(site: Site) -> None:
    site.server.works = [
        [site.work(*sh("echo fine"), first=1), site.work(*sh("echo out; echo wrong >&2; exit 3"), first=2)]
    ]
    site.run("--slots=2", "--cores=2")
    fine, wrong = site.server.logs[1, 1], site.server.logs[2, 1]
    assert {log.stream: text(log) for log in fine.logs} == {"stdout": b"fine\n"}
    assert {log.stream: text(log) for log in wrong.logs} == {"stdout": b"out\n", "stderr": b"wrong\n"}
    assert site.server.own_log
    assert b"job 2.1: payload exited with code 3" in text(site.server.own_log)


@pytest.mark.slow
def test_what_somebody_reads_comes_while_it_is_written(site: Site) -> None:
    go = site.shared / "go"
    site.server.heartbeat = 0.3
    site.server.read = [(1, 1)]
    site.server.read_own = True
    command = sh(f"echo begun; until [ -e {go} ]; do sleep 0.05; done; echo ended")
    site.server.works = [[site.work(*command)]]
    with site.agent() as agent:
        told = site.server.logs
        wait_for(lambda: (1, 1) in told and told[1, 1].logs, "the log of a payload that runs")
        assert text(told[1, 1].logs[0]) == b"begun\n"
        wait_for(lambda: site.server.logs[1, 1].points, "its time line so far")
        wait_for(lambda: site.server.own_log, "the agent's own log")
        assert "done" not in site.server.states()
        go.touch()
        agent.wait(PATIENCE)
    assert text(site.server.logs[1, 1].logs[0]) == b"begun\nended\n"
