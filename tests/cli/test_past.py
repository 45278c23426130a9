"""Commands that show the last weeks: the use of shares, and failures by day."""

import csv
import io
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


def use(**values: object) -> dict[str, object]:
    """Return what some attempts used."""
    names = dict.fromkeys(("person", "vo", "group", "site", "queue", "name", "share", "cause"), "")
    sums = dict.fromkeys(("gpu_seconds", "asked_memory", "used_memory", "saved_memory", "read_bytes"), 0.0)
    sums["peak_memory"] = 900.0
    usual = {"core_seconds": 7200.0, "cpu_seconds": 5400.0, "lost_seconds": 720.0, "hs23_seconds": 72_000.0}
    return {**names, **sums, **usual, "written_bytes": 0.0, "time": 0.0, "task": 0, "attempts": 4, **values}


def usage_of(*rows: object, **values: object) -> dict[str, object]:
    """Return an answer with these rows."""
    lost = [{"cause": "memory", "what": "exceeded its memory", "culprit": "task", "lost_seconds": 720.0}]
    span = {"since": 1_700_006_400.0, "until": 1_700_006_400.0 + 2 * 86400}
    return {**span, "by": ["task"], "total": use(), "left_out": 2, "lost": lost, "rows": rows, **values}


def test_use_is_shown_by_dimensions_with_what_was_lost(pilotage: Pilotage, server: FakeServer) -> None:
    rows = [use(task=12, name="align", cause="memory"), use(task=13), use()]
    server.answers["GET /usage"] = usage_of(*rows)
    shown = pilotage("usage", "--by", "cause, task", "--since", "2023-11-15", "--until", "2023-11-16")
    words = " ".join(shown.stdout.split())
    assert "2.0 h of core time from 2023-11-15 to 2023-11-16, efficiency 75%; lost: 12 min (10%)" in words
    assert "task cause core time HS23 h efficiency lost attempts" in words
    assert "12 align memory 2.0 h 20.0 75% 12 min 4 13 ended well 2.0 h" in words
    assert "further tasks ended well 2.0 h" in words
    assert words.endswith("12 min 100% exceeded its memory")
    assert "and 2 more rows" in shown.stderr
    asked = "GET /usage?by=task%2Ccause&since=1700006400.0&until=1700092800.0"
    assert server.requests[-1][0] == asked
    server.answers["GET /usage"] = usage_of(total=use(attempts=0))
    assert "No attempt has ended from 2023-11-15 to 2023-11-16" in pilotage("usage").stdout


def test_use_shows_memory_and_bytes_where_there_are_some(pilotage: Pilotage, server: FakeServer) -> None:
    total = use(asked_memory=7.2e6, used_memory=1.8e6, saved_memory=3.6e6, read_bytes=5e9, gpu_seconds=3600.0)
    server.answers["GET /usage"] = usage_of({**total, "queue": ""}, total=total)
    words = " ".join(pilotage("usage", "--by", "queue").stdout.split())
    assert "memory: 2.0 GB h asked, 25% of it used; better requests would save 1.0 GB h" in words
    assert "queue core time HS23 h GPU time efficiency lost memory used most read attempts" in words
    assert "none 2.0 h 20.0 1.0 h 75% 12 min 25% 900 MB 5 GB 4" in words


def test_use_is_a_table_for_spreadsheets_without_formulas(pilotage: Pilotage, server: FakeServer) -> None:
    names = ("=1+1", "@x", "-3", 'a,"b"', "plain")
    server.answers["GET /usage"] = usage_of(*(use(task=at, name=name) for at, name in enumerate(names)))
    shown = pilotage("usage", "--by", "day,task", "--csv").stdout
    head, *rows = csv.reader(io.StringIO(shown))
    assert head[:5] == ["day", "task", "name", "attempts", "core_seconds"]
    assert [row[2] for row in rows] == ["'=1+1", "'@x", "'-3", 'a,"b"', "plain"]
    assert rows[0][:2] == ["1970-01-01", "0"]
    assert "limit=10000" in server.requests[-1][0]


def test_bad_requests_for_use_are_refused(pilotage: Pilotage) -> None:
    refusals = {
        ("--since", "soon"): "--since soon: give 2h, 3d, or a day such as 2026-11-30",
        ("--since", "1d", "--until", "2d"): "--since 1d is after --until 2d",
        ("--by", "day,colour"): "--by colour: choose from day, person, vo, group",
        ("--by", ""): "--by nothing: choose from",
        ("--csv", "--json"): "--csv or --json, not both",
    }
    for words, told in refusals.items():
        shown = pilotage("usage", *words)
        assert shown.exit_code == 2
        assert told in " ".join(shown.stderr.split())
