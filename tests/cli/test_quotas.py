"""The command ``quotas``: what it shows, and what it asks the server for."""

import json
from typing import Any

import pytest

from .conftest import FakeServer, Pilotage

ADA: dict[str, Any] = {
    "kind": "person",
    "name": "ada",
    "vo": "atlas",
    "because": "thesis",
    "actor": "manager:mona",
    "since": 1e9,
    "tasks": None,
    "jobs": 50_000,
    "files": None,
    "stored": None,
    "uploaded": None,
    "core_hours": 2.5,
    "transferred": None,
    "target": None,
}
MINE = {"holder": "user ada", "constant": "core_hours_by_user", "used": 1.25, "limit": None}


def test_quotas_show_what_is_used_and_who_has_other_limits(pilotage: Pilotage, server: FakeServer) -> None:
    server.answers["GET /quotas"] = {"of_caller": [MINE], "exceptions": [ADA]}
    shown = pilotage("quotas").stdout
    assert "core_hours_by_user" in shown
    assert "1.2" in shown
    assert "ada of atlas" in shown
    assert "jobs 50,000, core_hours 2.5" in shown
    assert json.loads(pilotage("quotas", "--json").stdout) == server.answers["GET /quotas"]


def test_limits_are_set_and_lifted_with_a_reason(pilotage: Pilotage, server: FakeServer) -> None:
    server.answers["PUT /quotas"] = server.answers["POST /quotas/lift"] = ADA
    holders: dict[str, dict[str, Any]] = {
        "ada": {"kind": "person", "name": "ada", "vo": None},
        "group:higgs": {"kind": "group", "name": "higgs", "vo": None},
        "vo:atlas": {"kind": "vo", "vo": "atlas"},
    }
    for holder, body in holders.items():
        result = pilotage(
            "quotas", "set", holder, "--jobs", 50_000, "--core-hours", 2.5, "--because", "thesis"
        )
        assert result.stdout == "ada of atlas: jobs 50,000, core_hours 2.5\n"
        wanted = {**body, "because": "thesis", "jobs": 50_000, "core_hours": 2.5}
        assert server.requests[-1] == ("PUT /quotas", wanted)
    lifted = pilotage("quotas", "lift", "ada", "--vo", "belle", "--because", "done")
    assert lifted.stdout.startswith("ada of atlas: lifted: ")
    assert server.requests[-1] == ("POST /quotas/lift", {**holders["ada"], "vo": "belle", "because": "done"})
    assert pilotage("quotas", "set", "ada", "--because", "x").exit_code == 2
    assert pilotage("quotas", "set", "ada", "--jobs", 5).exit_code == 2


def test_targets_of_shares_are_set_and_lifted_with_a_reason(pilotage: Pilotage, server: FakeServer) -> None:
    higgs = {**ADA, "kind": "share", "name": "higgs", "jobs": None, "core_hours": None, "target": 3.5}
    server.answers["PUT /quotas"] = server.answers["POST /quotas/lift"] = higgs
    set_ = pilotage("shares", "set", "higgs", 3.5, "--because", "conference")
    assert set_.stdout == "higgs: target 3.5\n"
    wanted = {"kind": "share", "name": "higgs", "vo": None, "because": "conference"}
    assert server.requests[-1] == ("PUT /quotas", {**wanted, "target": 3.5})
    lifted = pilotage("shares", "lift", "higgs", "--because", "conference")
    assert lifted.stdout == "higgs: lifted: target 3.5\n"
    assert server.requests[-1] == ("POST /quotas/lift", wanted)
    assert pilotage("shares", "set", "higgs", 3.5).exit_code == 2
    server.answers["GET /quotas"] = {"of_caller": [], "exceptions": [higgs]}
    assert "share:higgs of atlas" in pilotage("quotas").stdout


@pytest.mark.parametrize("number", ["nan", "inf", "1e400"])
@pytest.mark.parametrize("words", ["shares set higgs {}", "quotas set ada --core-hours {}"])
def test_a_number_that_is_not_finite_is_refused_in_a_sentence(
    pilotage: Pilotage, server: FakeServer, words: str, number: str
) -> None:
    done = pilotage(*words.format(number).split(), "--because", "x")
    assert done.exit_code == 2
    assert "give finite numbers" in done.stderr
    assert server.requests == []
