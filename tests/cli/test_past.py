"""Commands that show the last weeks: the use of shares, and failures by day."""

import json

from .conftest import FakeServer, Pilotage


def test_the_use_of_shares_is_shown_in_the_mean_and_over_time(pilotage: Pilotage, server: FakeServer) -> None:
    spans = [
        {"time": 3600.0 * hour, "share": "users", "running": 4, "used": used, "target": 0.3}
        for hour, used in enumerate((0.0, 0.5, 1.0))
    ]
    share = {"share": "users", "running": 4.0, "used": 0.5, "target": 0.3, "spans": spans}
    server.answers["GET /shares/history?days=3"] = {"shares": [share]}
    words = " ".join(pilotage("shares", "--days", 3).stdout.split())
    assert words.endswith("users 30% 50% 4.0 | ▄█|")
    assert json.loads(pilotage("shares", "--days", 3, "--json").stdout) == {"shares": [share]}
    server.answers["GET /shares/history?days=3"] = {"shares": []}
    assert "Nothing ran in that time" in pilotage("shares", "--days", 3).stdout
    assert pilotage("shares", "--days", 31).exit_code == 2


def test_failures_are_shown_by_day_error_and_queue(pilotage: Pilotage, server: FakeServer) -> None:
    row = {"time": 1_700_006_400.0, "queue": "north", "error": "disk # is full", "attempts": 12}
    found = {"failures": [row, {**row, "queue": "", "error": ""}], "days": [[row["time"], 25]], "left_out": 1}
    server.answers["GET /failures?days=7"] = found
    shown = pilotage("failures")
    words = " ".join(shown.stdout.split())
    assert "2023-11-15 12 north disk # is full" in words
    assert "2023-11-15 12 none no error was reported" in words
    assert "and 1 attempt with further errors" in shown.stderr
    assert json.loads(pilotage("failures", "--json").stdout) == found
    server.answers["GET /failures?days=7"] = {"failures": [], "days": [], "left_out": 0}
    assert "No attempt failed in the last 7 days" in pilotage("failures").stdout
