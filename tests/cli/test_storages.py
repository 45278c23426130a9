"""The command that shows storages with their free space and circuit breakers (F4)."""

from typing import Any

from .conftest import FakeServer, Pilotage

BREAKER: dict[str, Any] = {
    "what": "reading from disk",
    "state": "open",
    "until": 1_700_000_060.0,
    "reason": "3 deliveries failed, one after the other; the last: refused [111]",
    "probe": "one delivery",
}


def test_f4_storages_are_shown_with_their_circuit_breakers(pilotage: Pilotage, server: FakeServer) -> None:
    pair = {**BREAKER, "what": "moving from disk to tape", "state": "half-open"}
    measured = {
        "free": 78.25,
        "source": "measured",
        "measured": 1_700_000_000.0,
        "total": 252.0,
        "problem": "",
    }
    declared = {
        **measured,
        "free": 40.0,
        "source": "declared",
        "measured": None,
        "problem": "it tells nothing",
    }
    storage = {"name": "disk", "site": "oslo", "tape": False, "blacklisted": ["read_wan"], "space": measured}
    well = {
        "name": "tape",
        "site": "oslo",
        "tape": True,
        "blacklisted": [],
        "breakers": [],
        "space": declared,
    }
    server.answers["GET /storages"] = {"storages": [{**storage, "breakers": [BREAKER, pair]}, well]}
    words = " ".join(pilotage("storages").stdout.split())
    free = "disk oslo 78.2 GB measured 2023-11-14 22:13:20 UTC read_wan"
    why = "3 deliveries failed, one after the other; the last: refused [111]"
    assert f"{free} reading from disk: open 2023-11-14 22:14:20 UTC {why}" in words
    assert "tape oslo 40 GB declared it tells nothing" in words, "B18: where the number comes from"
    assert f"{free} moving from disk to tape: half-open one delivery probes next {why}" in words


def test_pages_of_a_move_that_lead_back_end_the_command(pilotage: Pilotage, server: FakeServer) -> None:
    pages = [{"files": [], "next": one, "left": 1, "bytes_left": 1, "same_place": False} for one in "aba"]
    server.answers["POST /storages/old/move"] = pages
    result = pilotage("storages", "move", "old", "new")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "lead back to one that was read already" in result.stderr
