"""A payload gets its secrets; its logs, its error and its directory keep none of them."""

import base64
import zlib
from pathlib import Path

import pytest

from pilotage.agent.logs import read_streams, stderr_tail
from pilotage.agent.payload.payload_secrets import texts
from pilotage.agent.wire import LOG_HEAD, LONGEST_LOG, Secret

from .test_agent import Site, sh, site

__all__ = ["site"]

TOKEN = "S3CRET-w0rd"
KEY = "-----BEGIN KEY-----\nabcdefghijkl\nxyz\n"


SIZE = 2 * LONGEST_LOG + 50
TAIL = SIZE - (LONGEST_LOG - LOG_HEAD)
"""Where the kept end of a stream of this size begins."""


@pytest.mark.parametrize("place", [0, LOG_HEAD - 5, TAIL - 5, SIZE - len(TOKEN)])
def test_a_secret_is_hidden_wherever_the_kept_parts_of_a_log_begin_and_end(
    tmp_path: Path, place: int
) -> None:
    whole = bytearray(b"." * SIZE)
    whole[place : place + len(TOKEN)] = TOKEN.encode()
    (tmp_path / "stderr").write_bytes(whole)
    hidden = texts([Secret(TOKEN, "TOKEN")])
    (log,) = read_streams(tmp_path, hidden)
    kept = zlib.decompress(base64.b64decode(log.data))
    assert (len(kept), log.head, log.size) == (LONGEST_LOG, LOG_HEAD, len(whole))
    assert set(kept) == {ord("."), ord("*")}
    assert TOKEN[-5:] not in stderr_tail(tmp_path, hidden)


def test_lines_of_a_long_secret_are_hidden_alone_too_but_not_what_is_short() -> None:
    assert texts([Secret(KEY, file="key"), Secret(TOKEN, "TOKEN")]) == (
        KEY.encode(),
        b"-----BEGIN KEY-----",
        b"abcdefghijkl",
        TOKEN.encode(),
    )


@pytest.mark.slow
def test_variables_and_files_are_there_for_the_payload_and_nothing_stays(site: Site) -> None:
    command = sh(
        f'test "$API" = {TOKEN} || exit 4; cd "$PILOTAGE_SECRETS"; stat -c %a . key; wc -c < key; '
        'echo "it is $API." >&2; ls -A ..; exit 3'
    )
    secrets = [{"value": TOKEN, "variable": "API"}, {"value": KEY, "file": "key"}]
    site.server.works = [[site.work(*command, secrets=secrets)]]
    site.run("--keep")
    logs = {
        log.stream: zlib.decompress(base64.b64decode(log.data)).decode()
        for log in site.server.logs[1, 1].logs
    }
    lines = logs["stdout"].splitlines()
    assert lines[:3] == ["700", "600", str(len(KEY))]
    assert ".payload-secrets" in lines
    assert logs["stderr"] == f"it is {'*' * len(TOKEN)}.\n"
    error = site.server.last().error
    assert error.startswith("payload exited with code 3\nit is ***")
    kept = site.place / "1.1"
    assert kept.exists()
    assert not (kept / ".payload-secrets").exists()
    for path in (one for one in site.place.rglob("*") if one.is_file() and one.name != "stderr"):
        assert TOKEN.encode() not in path.read_bytes(), path
    assert site.server.own_log
    told = zlib.decompress(base64.b64decode(site.server.own_log.data)).decode()
    assert TOKEN not in told + str(site.server.reports) + logs["stdout"]


@pytest.mark.slow
def test_they_are_gone_before_outputs_are_stored(site: Site) -> None:
    site.server.works = [
        [
            site.work(
                *sh("cp $PILOTAGE_SECRETS/key copy"), secrets=[{"value": KEY, "file": "key"}], outputs=["*"]
            )
        ]
    ]
    site.run()
    assert site.server.states()[-1] == "done", site.server.last()
    assert [one.name for one in site.server.last().outputs] == ["copy"]
