"""`pilotage audit` shows, exports and verifies records, and a reason goes along with each request."""

import json
from contextlib import closing

import pytest

from pilotage.model.records.audit import NewAuditRecord
from pilotage.store import AuditQuery, Store
from pilotage.testing.stores import FEDERATION
from tests.test_archiving import ended_task

from .conftest import FakeServer, Pilotage

RECORD = {
    **dict.fromkeys(("owner", "owner_vo", "why", "vo", "server"), ""),
    "id": 7,
    "time": 1_700_006_400.0,
    "verb": "cancel",
    "record": "task 12",
    "role": "user",
    "person": "ada",
    "token": "3f1c09aa7be2",
    "address": "10.1.1.1",
    "times": 1,
    "before": {"task 12": "running"},
    "after": {"task 12": "cancelled"},
}


def test_records_are_shown(pilotage: Pilotage, server: FakeServer) -> None:
    refused = {
        **RECORD,
        "id": 6,
        "verb": "sign-in refused",
        "times": 40,
        "person": "",
        "role": "",
        "token": "",
    }
    server.answers["GET /audit?verb=cancel&limit=100"] = {"records": [RECORD, refused], "next": "6"}
    shown = pilotage("audit", "--verb", "cancel")
    words = " ".join(shown.stdout.split())
    assert "7 2023-11-15 00:00:00 UTC ada (user) cancel task 12 task 12: running task 12: cancelled" in words
    assert "– sign-in refused (40 times)" in words
    assert "--after 6" in shown.stdout + shown.stderr
    assert json.loads(pilotage("audit", "--verb", "cancel", "--json").stdout)["records"] == [RECORD, refused]
    assert pilotage("audit", "--since", "never").exit_code == 2


def test_lines_go_on_over_all_pages(pilotage: Pilotage, server: FakeServer) -> None:
    pages = [
        ({"records": [{**RECORD, "id": number}], "next": next_}) for number, next_ in ((1, "1"), (2, ""))
    ]
    server.answers["GET /audit"] = pages
    lines = pilotage("audit", "--lines").stdout.splitlines()
    assert [json.loads(line)["id"] for line in lines] == [1, 2]
    assert "oldest_first=true" in server.requests[0][0]
    assert "after=1" in server.requests[1][0]


def test_faults_are_shown_and_fail(pilotage: Pilotage, server: FakeServer) -> None:
    part = {"records": 2, "next": 2, "hash": "aa", "faults": []}
    fault = {"record": 3, "text": "the record is missing"}
    server.answers["GET /audit/check"] = [part, {**part, "next": 0, "hash": "bb"}]
    good = pilotage("audit", "--verify")
    assert (good.exit_code, good.stdout) == (0, "4 records verified; the last hash is bb\n")
    server.answers["GET /audit/check"] = {**part, "next": 0, "faults": [fault]}
    bad = pilotage("audit", "--verify")
    assert bad.exit_code == 1
    assert "record 3: the record is missing" in bad.stdout
    assert json.loads(pilotage("audit", "--verify", "--json").stdout)["faults"] == [fault]


def test_a_reason_goes_along_with_each_request(
    pilotage: Pilotage, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PILOTAGE_WHY", "größer")
    server.answers["GET /audit?limit=100"] = {"records": [], "next": ""}
    assert "There is no record." in pilotage("audit").stdout
    assert server.reasons == ["gr%C3%B6%C3%9Fer"]
    monkeypatch.setenv("PILOTAGE_WHY", "x" * 501)
    assert pilotage("audit").exit_code == 2


def test_a_command_on_the_store_itself_leaves_a_record(pilotage: Pilotage) -> None:
    url = f"sqlite:///{pilotage.home}/pilotage.sqlite"
    Store.open(url).close()
    assert pilotage("token", "create", "--name", "ada").exit_code == 0
    with closing(Store.open(url)) as store:
        (record,) = store.audit.page(AuditQuery())
    assert (record.verb, record.record, record.role) == ("make token", "person ada", "")
    assert record.person
    assert record.after["role"] == "user"


def test_an_archive_run_leaves_a_record_if_it_moved_anything(pilotage: Pilotage) -> None:
    url = f"sqlite:///{pilotage.home}/pilotage.sqlite"
    with closing(Store.open(url)) as store:
        store.save_federation(FEDERATION, "test")
    command = ("history", "archive", "--older-than", "30", "--to", pilotage.home / "archive")
    assert pilotage(*command).exit_code == 0
    with closing(Store.open(url)) as store:
        assert not [*store.audit.page(AuditQuery())]
        ended_task(store)
    assert pilotage(*command).exit_code == 0
    with closing(Store.open(url)) as store:
        (record,) = store.audit.page(AuditQuery())
    assert (record.verb, record.after["older_than"]) == ("archive", 30)


def test_a_restore_leaves_a_record_and_the_chain_goes_on(pilotage: Pilotage) -> None:
    url = f"sqlite:///{pilotage.home}/pilotage.sqlite"
    with closing(Store.open(url)) as store:
        store.save_federation(FEDERATION, "test")
        store.audit.add(NewAuditRecord(time=1.0, verb="cancel"), NewAuditRecord(time=1.0, verb="hold"))
        store.audit.link()
    assert pilotage("store", "backup", pilotage.home / "backup").exit_code == 0
    assert pilotage("store", "restore", pilotage.home / "backup", "--replace").exit_code == 0
    with closing(Store.open(url)) as store:
        assert [record.verb for record in store.audit.page(AuditQuery())] == ["restore", "hold", "cancel"]
        store.audit.link()
        check = store.audit.verify(0, 10)
        assert (check.records, check.faults) == (3, [])
