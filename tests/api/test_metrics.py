"""Prometheus reads the metrics: with the right token, from the counters, and with bounded labels."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from pilotage.adapters.computing.loader import load
from pilotage.adapters.movers.loader import InstalledMovers
from pilotage.flow.runtime import Runtime
from pilotage.flow.steps import STEPS
from pilotage.model.documents.world import Report
from pilotage.model.records.measurements import ATTEMPTS, LAST_PASS
from pilotage.model.records.servers import ServerProcess
from pilotage.model.records.states import PilotState
from pilotage.model.values.identity import Credential, Identity
from pilotage.ports.computing import PilotStatus
from pilotage.server.api import create_app
from pilotage.server.api.administration import metrics_collector
from pilotage.store import MeasuredKey, Store
from pilotage.testing.stores import move, moved
from tests.flow.house import FakeElement, House, attempts


@pytest.fixture
def house(store: Store, tmp_path: Path) -> House:
    return House(store, tmp_path, max_memory=2000)


@pytest.fixture
def client(house: House) -> Iterator[TestClient]:
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
    assert ("pilotage_notification_oldest_timestamp_seconds",) not in found


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
    values: dict[tuple[str, ...], float] = {(f"q{n}", "running"): n for n in range(1, 6)}
    family = metrics_collector._gauge("pilots", "Pilots.", ("queue", "state"), values)
    assert {one.labels["queue"]: one.value for one in family.samples} == {"q4": 4, "q5": 5, "other": 6}


def test_counters_are_what_all_processes_measured(
    client: TestClient, house: House, store: Store, store_url: str
) -> None:
    pilot = house.pilot()
    house.match(pilot, 0)
    house.now += 100
    orders = attempts(house.match(pilot, 2))
    house.report(pilot, "running", orders)
    job, attempt = orders[0]
    house.tell(pilot, Report(job=job, attempt=attempt, state="failed", error="exit code 1", wall_seconds=45))
    store.add_measurements()
    # Every process adds to the same sums.
    other = Store.open(store_url)
    other.measurements.count(ATTEMPTS, ("north-queue", "default", "failed"))
    other.add_measurements()
    other.close()
    found = read(client, "for-prometheus")
    assert found["pilotage_attempts_total", "north-queue", "default", "failed"] == 2
    waits = {key[1]: value for key, value in found.items() if key[0] == "pilotage_job_wait_seconds_bucket"}
    assert (waits["60.0"], waits["300.0"], waits["+Inf"]) == (0, 2, 2)
    assert found["pilotage_job_run_seconds_sum", "north-queue", "failed"] == 45
    assert found["pilotage_commit_seconds_count",] > 0


def test_pilots_without_a_job_are_counted(store: Store, house: House) -> None:
    pilot = house.pilot()
    moved(store, move("pilot", [pilot], PilotState.CREATED, PilotState.FAILED))
    sums, _ = store.measurements.take()
    assert sums[MeasuredKey("pilots_ended", ("north-queue", "failed"), "")] == 1
    assert sums[MeasuredKey("pilots_empty", ("north-queue",), "")] == 1


def test_a_loop_that_never_ended_a_pass_has_a_series_since_the_first_federation(
    client: TestClient, house: House, store: Store
) -> None:
    series = "pilotage_loop_last_pass_timestamp_seconds"
    first = store.federations.history(before=2, limit=1)[0].time
    store.measurements.note(LAST_PASS, "broker", first + 500)
    store.save_federation(store.declared_federation(), "operator")
    found = read(client, "for-prometheus")
    passes = {key[1]: value for key, value in found.items() if key[0] == series}
    assert passes == {step.name: first for step in STEPS if step.has_loop} | {"broker": first + 500}


def test_no_loop_is_late_before_the_first_federation(store: Store) -> None:
    runtime = Runtime(store, STEPS, load=load, movers=InstalledMovers)
    with TestClient(create_app(runtime, metrics_token="for-prometheus")) as client:
        found = read(client, "for-prometheus")
    assert "pilotage_loop_last_pass_timestamp_seconds" not in {name for name, *_ in found}


def test_what_cannot_be_written_is_added_later(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.measurements.count(ATTEMPTS, ("q", "s", "finished"), 3)
    with monkeypatch.context() as patch:
        patch.setattr(store.database, "write", lambda *_, **__: (_ for _ in ()).throw(OSError("disk full")))
        with pytest.raises(OSError, match="disk full"):
            store.add_measurements()
    store.add_measurements()
    assert store.metrics_queries.counts().measured[MeasuredKey("attempts", ("q", "s", "finished"), "")] == 3


def test_pending_jobs_are_counted_by_what_is_missing(client: TestClient, house: House) -> None:
    house.task(jobs=2, ram=10**6)
    house.take("broker")
    found = read(client, "for-prometheus")
    lacks = {key[1:]: value for key, value in found.items() if key[0] == "pilotage_jobs_pending"}
    assert sum(lacks.values()) == 2
    assert set(lacks) == {("user", "B15 memory")}


def test_programs_on_this_machine_read_them_where_the_setting_says_so(store: Store, tmp_path: Path) -> None:
    runtime = House(store, tmp_path).runtime
    here = ("127.0.0.1", 5000)

    def status(loopback: bool, address: tuple[str, int], **headers: str) -> int:
        app = create_app(runtime, metrics_on_loopback=loopback)
        with TestClient(app, base_url="http://127.0.0.1:8470", client=address) as client:
            told = {name.replace("_", "-"): value for name, value in headers.items()}
            return int(client.get("/metrics", headers=told).status_code)

    assert status(True, here) == 200
    assert status(False, here) == 401
    assert status(True, ("192.0.2.1", 5000)) == 401
    # A proxy on this machine asks for others.
    assert status(True, here, x_forwarded_for="192.0.2.1") == 401
    assert status(True, here, via="") == 401
    assert status(True, here, host="pilotage.example.org") == 401


def test_places_and_servers_that_need_somebody_are_seen(
    client: TestClient, house: House, store: Store
) -> None:
    house.match(house.pilot(), 0)
    for name in ("here", "ended", "killed"):
        store.servers.join(
            ServerProcess(name=name, version="0", host="h", process="1", url="", loops=(), started=1, seen=1)
        )
    store.servers.leave("ended", 2)
    (killed,) = store.servers.named(["killed"])
    store.servers.found_silent(killed, 2, 3)
    found = read(client, "for-prometheus")
    states = ("live", "ended", "silent")
    assert [found["pilotage_servers", state] for state in states] == [1, 1, 1]
    assert found["pilotage_pilots_silent", "north-queue"] == 0
    house.now += 1000
    fresh = create_app(house.runtime, metrics_token="for-prometheus")
    with TestClient(fresh) as late:
        found = read(late, "for-prometheus")
    assert found["pilotage_pilots_silent", "north-queue"] == 1


def test_jobs_whose_pilot_ended_are_seen_until_they_go_on(client: TestClient, house: House) -> None:
    house.element = element = FakeElement()
    house.take("provision")
    pilot = house.store.queries.pilots(None, None, 100)[0]
    ((job, attempt),) = attempts(house.match(pilot.id, 1))
    house.report(pilot.id, "running", [(job, attempt)])
    element.status = PilotStatus(state="ended", reason="FAILED")
    house.take("provision")
    assert read(client, "for-prometheus")["pilotage_jobs_pilot_ended", pilot.queue] == 1


def test_free_space_is_seen_by_storage(store: Store, tmp_path: Path) -> None:
    house = House(store, tmp_path)
    declared = store.declared_federation()
    first, *others = declared.storages
    store.save_federation(replace(declared, storages=(replace(first, free=2), *others)), "test")
    with TestClient(create_app(house.runtime, metrics_token="for-prometheus")) as client:
        assert read(client, "for-prometheus")["pilotage_storage_free_bytes", first.name] == 2e9


def test_counters_that_are_known_begin_at_zero(client: TestClient) -> None:
    client.get("/api/v1/tasks")
    found = read(client, "for-prometheus")
    assert found["pilotage_loop_passes_failed_total", "broker"] == 0
    assert found["pilotage_attempts_total", "north-queue", "default", "failed"] == 0
    assert found["pilotage_pilots_empty_total", "north-queue"] == 0
    assert found["pilotage_store_retries_total", "deadlock"] == 0
    assert found["pilotage_requests_total", "GET", "/api/v1/tasks", "500"] == 0
    assert found["pilotage_requests_total", "GET", "/api/v1/tasks", "401"] == 1
