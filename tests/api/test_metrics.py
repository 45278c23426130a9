"""Prometheus reads the metrics: with the right token, from the counters, and with bounded labels."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from pilotage.api import create_app, metrics_collector
from pilotage.model.values.identity import Credential, Identity
from pilotage.store import Store
from tests.flow.house import House


@pytest.fixture
def client(store: Store, tmp_path: Path) -> Iterator[TestClient]:
    house = House(store, tmp_path)
    house.task(jobs=3)
    house.take("broker")
    house.pilot()
    with TestClient(create_app(house.runtime, metrics_token="for-prometheus")) as there:
        yield there


def read(client: TestClient, token: str) -> dict[tuple[str, ...], float]:
    answer = client.get("/metrics", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 200, answer.text
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_metrics_are_the_counters_of_the_store(client: TestClient) -> None:
    found = read(client, "for-prometheus")
    assert found["pilotage_jobs", "north-queue", "default", "activated"] == 3
    assert found["pilotage_pilots", "north-queue", "created"] == 1
    assert found["pilotage_database_size_bytes",] > 0
    assert found["pilotage_notifications_unsent",] == 0


def test_only_the_metrics_token_and_operators_read_them(client: TestClient, store: Store) -> None:
    made = {
        role: store.tokens.create(Credential(role=role, identity=Identity(name="ada"), expires=None))
        for role in ("user", "operator")
    }
    assert read(client, made["operator"])
    for token in ("", "wrong", made["user"]):
        assert client.get("/metrics", headers={"Authorization": f"Bearer {token}"}).status_code == 401
    tasks = client.get("/api/v1/tasks", headers={"Authorization": "Bearer for-prometheus"})
    assert tasks.status_code == 401


def test_the_smallest_values_of_a_label_are_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_collector, "MOST_LABELS", 2)
    values: dict[tuple[str, ...], int] = {(f"q{n}", "running"): n for n in range(1, 6)}
    family = metrics_collector._gauge("pilots", "Pilots.", ("queue", "state"), values)
    assert {one.labels["queue"]: one.value for one in family.samples} == {"q4": 4, "q5": 5, "other": 6}
