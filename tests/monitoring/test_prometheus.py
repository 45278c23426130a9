"""A real Prometheus reads a real server, with the files of examples/monitoring."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.acceptance.house import House, running
from tests.conftest import locked_port
from tests.waiting import wait_for

FOLDER = Path(__file__).parents[2] / "examples" / "monitoring"
DASHBOARDS = sorted(FOLDER.glob("pilotage-*.json"))
TOKEN = "for-prometheus-alone"

pytestmark = pytest.mark.skipif(
    not (shutil.which("prometheus") and shutil.which("promtool")),
    reason="Debian's package prometheus is not installed; tests/sites/install.sh installs it",
)

FEDERATION = """
name: watched
sites: [{{ name: north, nucleus: true }}, {{ name: south }}]
storages:
  - {{ name: north-disk, site: north, url: "file://{place}/north", storage_min_free: 0 }}
  - {{ name: south-disk, site: south, url: "file://{place}/south", storage_min_free: 0 }}
queues:
  - {{ name: south-queue, site: south, storage: south-disk, max_memory: 4000, computing_element:
      {{ max_pilots: 1, pilot_slots: 2, options: {{ directory: "{place}/pilots" }} }} }}
director: {{ period: 0.2 }}
loops: {{ period: 0.5, heartbeat: 0.4, pilot_idle: 1 }}
"""

TASKS: list[dict[str, Any]] = [
    {
        "name": "reads",
        "inputs": [{"storages": ["north-disk"], "glob": "data/*"}],
        "files_per_job": 1,
        "command": ["sleep", "8"],
        "scouts": 0,
    },
    {"name": "fails", "command": ["false"], "scouts": 0, "max_attempts": 1},
    {"name": "too-large", "command": ["true"], "scouts": 0, "ram": 1_000_000},
]


@pytest.fixture
def house(tmp_path: Path, free_port: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    monkeypatch.setenv("PILOTAGE_METRICS_TOKEN", TOKEN)
    (tmp_path / "north" / "data").mkdir(parents=True)
    for name in "ab":
        (tmp_path / "north" / "data" / name).write_text(name * 1000)
    with running(tmp_path, free_port, FEDERATION.format(place=tmp_path), "pilots", "north", "south") as house:
        yield house


@pytest.fixture
def prometheus(house: House, tmp_path: Path) -> Iterator[httpx.Client]:
    """Prometheus with the shipped configuration, but for addresses, token and pace."""
    configuration = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    configuration["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    configuration["rule_files"] = [str(FOLDER / "alerts.yml")]
    (scrape,) = configuration["scrape_configs"]
    scrape["authorization"]["credentials"] = TOKEN
    scrape["static_configs"] = [{"targets": [f"127.0.0.1:{house.port}"]}]
    (tmp_path / "prometheus.yml").write_text(json.dumps(configuration))
    with locked_port() as port, (tmp_path / "prometheus.log").open("w") as log:
        address = f"127.0.0.1:{port}"
        options = [f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data"]
        command = ["prometheus", *options, f"--web.listen-address={address}", "--log.level=warn"]
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            with httpx.Client(base_url=f"http://{address}/api/v1", trust_env=False) as client:
                yield client
        finally:
            process.terminate()
            process.wait(30)
            print((tmp_path / "prometheus.log").read_text()[-3000:])


def asked(prometheus: httpx.Client, query: str) -> Any:
    try:
        answer = prometheus.get("/query", params={"query": query})
    except httpx.TransportError:
        return []
    assert answer.status_code in (200, 503), (query, answer.text)
    return answer.json()["data"]["result"] if answer.status_code == 200 else []


def queries(dashboard: Path) -> dict[str, list[str]]:
    """The queries of each panel; Grafana would fill in the interval."""
    panels = json.loads(dashboard.read_text())["panels"]
    return {
        panel["title"]: [target["expr"].replace("$__rate_interval", "1m") for target in panel["targets"]]
        for panel in panels
    }


@pytest.mark.slow
def test_each_query_of_the_dashboards_gives_an_answer(house: House, prometheus: httpx.Client) -> None:
    house.call("POST", "/tasks", {"tasks": TASKS})
    panels = {f"{one.stem}: {title}": found for one in DASHBOARDS for title, found in queries(one).items()}
    assert len(panels) > 30

    empty = {query for found in panels.values() for query in found}

    def filled() -> bool:
        # Some show states that pass: each query must have had an answer once.
        empty.difference_update([query for query in empty if asked(prometheus, query)])
        return not empty

    try:
        wait_for(filled, "each query has an answer")
    except AssertionError as error:
        raise AssertionError(sorted(empty)) from error
    (failed,) = asked(prometheus, 'pilotage_attempts_total{state="failed"}')
    assert (failed["metric"]["queue"], failed["value"][1]) == ("south-queue", "1")
    groups = prometheus.get("/rules").json()["data"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) > 10
    assert {rule["name"]: rule.get("lastError") for rule in rules if rule["health"] != "ok"} == {}


@pytest.mark.endurance
def test_the_alerts_fire_when_they_should_and_else_do_not() -> None:
    for words in (("check", "config", "prometheus.yml"), ("test", "rules", "alerts_test.yml")):
        done = subprocess.run(["promtool", *words], cwd=FOLDER, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_is_seen_to_fire_and_to_stay_silent_and_says_what_why_and_what_mends_it() -> None:
    groups = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    tests = yaml.safe_load((FOLDER / "alerts_test.yml").read_text())["tests"]
    cases = [case for test in tests for case in test["alert_rule_test"]]
    fired = {case["alertname"] for case in cases if case["exp_alerts"]}
    silent = {case["alertname"] for case in cases if not case["exp_alerts"]}
    rules = [rule for group in groups for rule in group["rules"]]
    assert {rule["alert"] for rule in rules} == fired == silent
    assert all(rule["annotations"].keys() == {"summary", "why", "mend"} for rule in rules)
