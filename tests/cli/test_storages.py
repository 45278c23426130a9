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
    well = {"name": "tape", "site": "oslo", "tape": True, "blacklisted": [], "rests": [], "space": declared}
    server.answers["GET /storages"] = {"storages": [{**storage, "rests": [REST, pair]}, well]}
    words = " ".join(pilotage("storages").stdout.split())
    free = "disk oslo 78.2 GB measured 2023-11-14 22:13:20 UTC read_wan"
    assert f"{free} reading 2023-11-14 22:14:20 UTC refused [111]" in words
    assert "tape oslo 40 GB declared it tells nothing" in words, "B18: where the number comes from"
    assert f"{free} from disk to tape one delivery tries refused [111]" in words


def test_f4_a_lifted_rest_is_told(pilotage: Pilotage, server: FakeServer) -> None:
    server.answers["POST /storages/a%2Fb/lift"] = [(200, {"lifted": [REST]}), (200, {"lifted": []})]
    assert pilotage("storages", "--lift", "a/b").stdout == "lifted: reading\n"
    assert pilotage("storages", "--lift", "a/b").stdout == "nothing of a/b rests\n"
