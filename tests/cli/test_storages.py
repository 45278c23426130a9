"""The command that shows which storages rest, and lifts that (F4)."""

from typing import Any

from .conftest import FakeServer, Pilotage

REST: dict[str, Any] = {
    "source": "disk",
    "destination": "",
    "since": 1_700_000_000.0,
    "until": 1_700_000_060.0,
    "failures": 3,
    "error": "refused [111]",
    "over": False,
}


def test_f4_storages_are_shown_with_what_rests(pilotage: Pilotage, server: FakeServer) -> None:
    pair = {**REST, "destination": "tape", "over": True}
    storage = {"name": "disk", "site": "oslo", "tape": False, "blacklisted": ["read_wan"]}
    well = {"name": "tape", "site": "oslo", "tape": True, "blacklisted": [], "rests": []}
    server.answers["GET /storages"] = {"storages": [{**storage, "rests": [REST, pair]}, well]}
    words = " ".join(pilotage("storages").stdout.split())
    assert "disk oslo read_wan reading 2023-11-14 22:14:20 UTC refused [111]" in words
    assert "disk oslo read_wan from disk to tape one delivery tries refused [111]" in words


def test_f4_a_lifted_rest_is_told(pilotage: Pilotage, server: FakeServer) -> None:
    server.answers["POST /storages/a%2Fb/lift"] = [(200, {"lifted": [REST]}), (200, {"lifted": []})]
    assert pilotage("storages", "--lift", "a/b").stdout == "lifted: reading\n"
    assert pilotage("storages", "--lift", "a/b").stdout == "nothing of a/b rests\n"
