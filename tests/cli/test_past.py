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
    row = {
        "time": 1_700_006_400.0,
        "queue": "north",
        "error": "disk # is full",
        "example": "disk 7 is full",
        "attempts": 12,
    }
    found = {
        "failures": [row, {**row, "queue": "", "error": "", "example": ""}],
        "days": [[row["time"], 25]],
        "left_out": 1,
    }
    server.answers["GET /failures?days=7"] = found
    shown = pilotage("failures")
    words = " ".join(shown.stdout.split())
    assert "2023-11-15 12 north disk 7 is full" in words
    assert "2023-11-15 12 none no error was reported" in words
    assert "and 1 attempt with further errors" in shown.stderr
    assert json.loads(pilotage("failures", "--json").stdout) == found
    server.answers["GET /failures?days=7"] = {"failures": [], "days": [], "left_out": 0}
    assert "No attempt failed in the last 7 days" in pilotage("failures").stdout


def test_use_is_shown_by_day_task_and_queue_with_what_was_lost(
    pilotage: Pilotage, server: FakeServer
) -> None:
    use = {"time": 0.0, "task": 0, "name": "", "queue": "", "attempts": 4}
    use |= {"core_seconds": 7200.0, "cpu_seconds": 5400.0, "lost_seconds": 720.0}
    whole = {"since": 1_700_006_400.0, "by": "task", "total": use, "left_out": 2, "lost": []}
    rows = [{**use, "task": 12, "name": "align"}, {**use, "task": 13}, use]
    lost = [{"cause": "memory", "what": "exceeded its memory", "lost_seconds": 720.0}]
    server.answers["GET /usage"] = {**whole, "rows": rows, "lost": lost}
    shown = pilotage("usage", "--by", "task", "--since", "2023-11-15")
    words = " ".join(shown.stdout.split())
    assert "2.0 h of core time since 2023-11-15, efficiency 75%; lost: 12 min (10%)" in words
    assert "12 align 2.0 h 75% 12 min 4 13 2.0 h 75% 12 min 4 further tasks" in words
    assert words.endswith("12 min 100% exceeded its memory")
    assert "and 2 more rows" in shown.stderr
    assert server.requests[-1][0] == "GET /usage?by=task&since=1700006400.0"
    assert pilotage("usage", "--since", "soon").exit_code == 2
    server.answers["GET /usage"] = {**whole, "rows": [], "total": {**use, "attempts": 0}}
    assert "No attempt has ended since 2023-11-15" in pilotage("usage").stdout
