"""The command that shows the servers of a store."""

import time
from typing import Any

from .conftest import FakeServer, Pilotage

LOOP = {"name": "stage", "ended": 1_700_000_000.0, "seconds": 0.012, "error": "", "has_lease": False}
ARCHIVE = {"name": "archive", "ended": None, "seconds": None, "error": "disk is full", "has_lease": True}
SERVER: dict[str, Any] = {
    "name": "3f9a1c0b2d",
    "version": "0.1.0",
    "state": "live",
    "host": "north",
    "url": "http://north:8470",
    "started": time.time() - 7200,
    "seen": time.time(),
    "gone": None,
    "silent_for": None,
    "loops": [LOOP, ARCHIVE],
    "lacks": ["mover for s3: boto3 is not installed"],
}
SILENT = {**SERVER, "name": "77aa", "state": "silent", "silent_for": 3.04, "loops": [LOOP]}


def test_servers_are_shown_with_their_leases_and_what_is_missing(
    pilotage: Pilotage, server: FakeServer
) -> None:
    found = {"servers": [SERVER, SILENT], "missing_loops": ["split"], "takeover": 4.5}
    server.answers["GET /servers"] = [(200, found)] * 3
    words = " ".join(pilotage("servers").stdout.split())
    assert "3f9a1c0b2d live 0.1.0 north 2 h ago" in words
    assert "stage, archive; failing: archive; with the lease of archive" in words
    assert "77aa: others took over after 3.0 s of silence" in words
    assert "3f9a1c0b2d leaves to others: mover for s3: boto3 is not installed" in words
    assert "77aa leaves" not in words
    assert "no server runs: split" in words
    assert "within 4.5 s" in words
    words = " ".join(pilotage("servers", "3f9a1c0b2d").stdout.split())
    assert "12 ms" in words
    assert "archive none yet has it disk is full" in words
    refused = pilotage("servers", "nobody")
    assert (refused.exit_code, "there is no server nobody" in refused.stderr) == (2, True)


def test_a_store_without_servers_says_so(pilotage: Pilotage, server: FakeServer) -> None:
    server.answers["GET /servers"] = {"servers": [], "missing_loops": [], "takeover": 4.5}
    assert "No server has joined this store yet." in pilotage("servers").stdout
