"""Runs where two servers and Prometheus run: both servers answer, and Prometheus has what dashboards ask for.

Argument: the folder of the dashboards; without it their queries are not asked.
"""

import json
import re
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

PATIENCE = 600.0
ALERTS = 16
QUERIES = 30
"""The fewest of both dashboards."""


def read(address: str, **values: str) -> Any:
    query = f"?{urllib.parse.urlencode(values)}" if values else ""
    with urllib.request.urlopen(f"http://127.0.0.1:{address}{query}", timeout=10) as answer:
        return json.load(answer)


def prometheus(path: str, **values: str) -> Any:
    return read(f"9090/api/v1/{path}", **values)["data"]


def servers() -> bool:
    return all(read(f"{port}/api/v1/health/ready") for port in (8470, 8471))


def scrapes() -> bool:
    result = prometheus("query", query='up{job="pilotage"}')["result"]
    return [series["value"][1] for series in result] == ["1", "1"]


def alerts() -> bool:
    rules = [rule for group in prometheus("rules")["groups"] for rule in group["rules"]]
    return len(rules) >= ALERTS and all(rule["health"] == "ok" for rule in rules)


def queries() -> list[str]:
    panels = [
        panel
        for file in sorted(Path(sys.argv[1]).glob("pilotage-*.json"))
        for panel in json.loads(file.read_text())["panels"]
    ]
    return [
        target["expr"].replace("$__rate_interval", "1m") for panel in panels for target in panel["targets"]
    ]


def dashboards() -> bool:
    """Return whether Prometheus takes each query, and the servers have each metric in it."""
    metrics = {name.removesuffix("_total") for name in prometheus("metadata")}
    for query in queries():
        prometheus("query", query=query)
        for name in re.findall(r"\bpilotage_\w+", query):
            if re.sub(r"_(total|bucket|sum|count)$", "", name) not in metrics:
                sys.exit(f"no server has {name} of {query}")
    return len(queries()) >= QUERIES


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    problem: object = "it is not so"
    while time.monotonic() < end:
        try:
            if condition():
                print("monitoring:", condition.__name__, flush=True)
                return
        except OSError as error:
            problem = error
        time.sleep(1)
    sys.exit(f"{condition.__name__}: {problem}")


for step in (servers, scrapes, alerts, *([dashboards] if sys.argv[1:] else [])):
    wait_for(step)
