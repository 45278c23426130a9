"""Sites on the terminal: what they advertise, what is sent for them, what a task matches (M2, M4)."""

import json
from pathlib import Path
from typing import Any

from .conftest import FakeServer, Pilotage

LAB: dict[str, Any] = {
    "site": "lab",
    "source": "pushed",
    "advertised": 1.0,
    "current_jobs": 3,
    "current_submitting_jobs": 1,
    "matched": 2,
    "max_jobs": 5,
    "max_submitting_jobs": None,
    "counts_everybody": None,
    "problem": "",
}
NOBODY = dict.fromkeys(LAB) | {"site": "home", "source": "", "problem": "never advertised"}
REFUSAL = {"rule": "M4", "name": "the job's TARGET.Cpus >= 8", "need": 8, "have": 1}


def test_m2_sites_are_listed_with_their_counts(pilotage: Pilotage, server: FakeServer) -> None:
    server.answers["GET /sites"] = {"sites": [LAB, NOBODY]}
    words = " ".join(pilotage("sites").stdout.split())
    assert "3 of 5" in words
    assert "pushed" in words
    assert "never advertised" in words
    assert json.loads(pilotage("sites", "--json").stdout) == {"sites": [LAB, NOBODY]}


def test_m2_an_ad_is_printed_sent_and_forgotten(
    pilotage: Pilotage, server: FakeServer, tmp_path: Path
) -> None:
    server.answers["GET /sites/lab/ad"] = {"ad": "[\n  A = 1;\n]"}
    server.answers["PUT /sites/lab/ad"] = {}
    server.answers["DELETE /sites/lab/ad"] = {}
    assert pilotage("sites", "ad", "lab").stdout == "[\n  A = 1;\n]\n"
    file = tmp_path / "lab.ad"
    file.write_text("[ MaxJobs = 4 ]")
    assert pilotage("sites", "ad", "lab", "--send", file, PILOTAGE_TOKEN="t").stdout == "lab is advertised\n"
    assert server.requests[-1] == ("PUT /sites/lab/ad", {"ad": "[ MaxJobs = 4 ]"})
    assert pilotage("sites", "ad", "lab", "--forget").stdout == "lab is read from its batch systems again\n"
    both = pilotage("sites", "ad", "lab", "--forget", "--send", file)
    assert (both.exit_code, both.stderr) == (2, "--send and --forget do not go together; give one\n")
    assert pilotage("sites", "ad", "lab", "--send", tmp_path / "none").exit_code == 2


def test_m4_what_a_task_matches_is_shown(pilotage: Pilotage, server: FakeServer) -> None:
    one = {"site": "lab", "queue": "q", "rank": 2.5, "refusals": []}
    other = {"site": "home", "queue": "h", "rank": None, "refusals": [REFUSAL]}
    server.answers["GET /tasks/7/sites"] = {"matches": [one, other]}
    words = " ".join(pilotage("sites", "match", 7).stdout.split())
    assert "lab q 2.5" in words
    assert "M4 the job's TARGET.Cpus >= 8 (1)" in words
