"""The doctor finds what is wrong, says what mends it, and outlives checks that break or hang."""

import json
import os
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from pilotage.agent import VERSION
from pilotage.client import Unreachable
from pilotage.model.records.audit import NewAuditRecord
from pilotage.model.records.federation import (
    ComputingElement,
    Federation,
    OwnerCredential,
    Queue,
    Site,
    Storage,
)
from pilotage.model.records.logs import KeptLog, LogKey
from pilotage.model.records.states import PilotState
from pilotage.model.values.identity import Credential, Identity
from pilotage.release import full_version
from pilotage.server.doctor.checks import DoctorCheck, Finding, all_checks
from pilotage.server.doctor.examination import Examined, examined
from pilotage.server.doctor.installation import Installation, NotExamined
from pilotage.settings import Settings
from pilotage.store import Store
from pilotage.testing.stores import move, moved, new_pilot
from tests.waiting import PATIENCE

from .conftest import FakeServer, Pilotage, remark

HEALTH: dict[str, Any] = {"GET /health/live": {"status": "ok", "version": "0.0.9", "time": 1_700_000_000.0}}


def _federation(directory: Path, **storage: Any) -> Federation:
    called = "https://ada:hunter2@127.0.0.1:1/hook?token=hunter2"
    element = ComputingElement(kind="slurm", options={"token_file": str(directory / "jwt"), "hook": called})
    return Federation(
        name="small",
        sites=(Site(name="north", nucleus=True),),
        storages=(
            Storage(name="disk", site="north", url=f"file://{directory}/disk"),
            Storage(name="broken", site="north", url=f"file://{directory}/file/below", **storage),
        ),
        queues=(
            Queue(name="fast", site="north", storage="disk", computing_element=ComputingElement()),
            Queue(name="slow", site="north", storage="disk", computing_element=element),
        ),
    )


def _examined(home: Path, url: str, *names: str) -> dict[tuple[str, str], Examined]:
    known = Installation(Settings.read(home=str(home), store=url, url="http://127.0.0.1:1"))
    wanted = [one for one in all_checks() if one.first or one.name in names]
    try:
        return {(one.check, one.about): one for one in examined(known, wanted)}
    finally:
        known.close()


def _told(found: Examined) -> str:
    return " ".join(one.what for one in found.findings)


def test_storages_batch_systems_and_tokens_are_tried(tmp_path: Path, store_url: str) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "file").write_text("no folder")
    store = Store.open(store_url)
    store.save_federation(_federation(tmp_path), "test")
    soon = store.clock() + 86_400
    store.close()
    for name, days in (("ada", 20), ("bob", 2)):
        earlier = Store.open(store_url, clock=partial(float, soon - days * 86_400))
        earlier.tokens.create(Credential(role="user", identity=Identity(name=name), expires=soon))
        earlier.close()
    found = _examined(
        tmp_path,
        store_url,
        "storage",
        "batch system",
        "people's tokens",
        "database writes",
        "credential file",
        "certificate",
    )
    assert "127.0.0.1:1 cannot be reached" in _told(found["certificate", "127.0.0.1:1"])
    assert "hunter2" not in str(found)
    assert found["store", ""] == Examined(check="store")
    assert found["database writes", ""].findings == ()
    assert found["storage", "disk"].findings == ()
    assert not [*(tmp_path / "disk").rglob("*doctor*")], "nothing stays behind"
    assert "Not a directory" in _told(found["storage", "broken"])
    assert found["batch system", "fast"].findings == ()
    assert found["batch system", "slow"].findings, "there is no such option, or no Slurm"
    assert "No such file" in _told(found["credential file", str(tmp_path / "jwt")])
    tokens = found["people's tokens", ""].findings
    assert [one.severity for one in tokens] == ["warning", "fault"], (
        "one of two that lasts ends soon, and no operator has one"
    )
    assert "of ada (user) ends" in tokens[0].what


def test_each_credential_of_an_owner_is_tried_at_its_batch_system(tmp_path: Path, sqlite_url: str) -> None:
    files = {name: tmp_path / name for name in ("common", "ada")}
    files["common"].write_text("a.b.c")
    own = OwnerCredential(person="ada", options={"user": "ada", "token_file": str(files["ada"])})
    options = {"endpoint": "http://127.0.0.1:1", "user": "all", "token_file": str(files["common"])}
    element = ComputingElement(kind="slurmrest", options=options, credentials=(own,))
    declared = _federation(tmp_path)
    store = Store.open(sqlite_url)
    queues = (replace(declared.queues[0], computing_element=element),)
    store.save_federation(replace(declared, queues=queues), "test")
    store.close()
    found = _examined(tmp_path, sqlite_url, "batch system", "credential file")
    assert "cannot be reached" in _told(found["batch system", "fast"])
    assert f"'{files['ada']}'" in _told(found["batch system", "fast for person ada"])
    assert "No such file" in _told(found["credential file", str(files["ada"])])


def test_pilots_with_another_agent_are_named_with_what_ends_them(tmp_path: Path, store_url: str) -> None:
    store = Store.open(store_url)
    store.save_federation(_federation(tmp_path), "test")
    agents = [("fast", told) for told in ("0.0.9", "", *(f"9.{number}" for number in range(5)))]
    for queue, told in (*agents, ("slow", full_version()), ("slow", VERSION)):
        pilot = new_pilot(store, queue, site="north")
        called = {"agent_version": told}
        moved(store, move("pilot", [pilot], PilotState.CREATED, PilotState.SUBMITTED))
        moved(store, move("pilot", [pilot], PilotState.SUBMITTED, PilotState.RUNNING, called))
    store.close()
    (finding,) = _examined(tmp_path, store_url, "versions of agents")["versions of agents", ""].findings
    assert finding.what.startswith("queue fast has 7 pilots with agents of another version than")
    assert finding.what.endswith(", 2 of others")
    assert finding.what.count("1 of ") == 5
    assert finding.mend.startswith("pilotage queues drain fast ")


def test_a_storage_that_takes_no_files_is_only_listed(tmp_path: Path, sqlite_url: str) -> None:
    (tmp_path / "file" / "below").mkdir(parents=True, mode=0o500)
    store = Store.open(sqlite_url)
    store.save_federation(_federation(tmp_path, blacklisted=("write_lan", "write_wan")), "test")
    store.close()
    assert _examined(tmp_path, sqlite_url, "storage")["storage", "broken"].findings == ()
    assert [*(tmp_path / "file" / "below").iterdir()] == []


def test_a_missing_record_of_the_audit_is_a_fault(tmp_path: Path, sqlite_url: str) -> None:
    store = Store.open(sqlite_url)
    for _ in range(3):
        store.audit.add(NewAuditRecord(time=1.0, verb="cancel"))
    store.audit.link()
    assert _examined(tmp_path, sqlite_url, "audit")["audit", ""].findings == ()
    store.database.write(
        lambda connection: connection.execute(text("DELETE FROM audit_records WHERE id = 2"))
    )
    store.close()
    (finding,) = _examined(tmp_path, sqlite_url, "audit")["audit", ""].findings
    assert (finding.what, finding.severity) == ("record 2 of the audit: the record is missing", "fault")


@pytest.mark.postgresql
def test_settings_of_postgresql_that_lose_data_or_cut_off_are_named(
    tmp_path: Path, postgresql_url: str
) -> None:
    engine = create_engine(postgresql_url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        name = connection.execute(text("SELECT current_database()")).scalar_one()
        connection.execute(text(f"ALTER DATABASE {name} SET statement_timeout = '5s'"))
    engine.dispose()
    found = _examined(tmp_path, postgresql_url, "database settings", "database rights", "database clock")
    told = _told(found["database settings", ""])
    assert "fsync is off" in told, "the server of the tests forgets in a crash"
    assert "statement_timeout is 5 s" in told
    assert found["database rights", ""].findings == found["database clock", ""].findings == ()


def test_an_older_store_is_named_and_not_migrated(tmp_path: Path, sqlite_url: str) -> None:
    engine = create_engine(sqlite_url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0100'"))
    found = _examined(tmp_path, sqlite_url, "database writes")
    assert "of version 0100" in _told(found["store", ""])
    assert "of version 0100" in found["database writes", ""].skipped
    with engine.connect() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar() == "0100"
    engine.dispose()


def test_a_check_that_breaks_or_hangs_is_a_finding_and_the_others_go_on() -> None:
    go_on = threading.Event()

    def hangs(_: Installation) -> Iterator[Finding]:
        go_on.wait(PATIENCE)
        yield from ()

    def breaks(_: Installation) -> Iterator[Finding]:
        raise KeyError("free")

    def loses_its_server(_: Installation) -> Iterator[Finding]:
        raise Unreachable("no answer from http://server")

    def cannot(_: Installation) -> Iterator[Finding]:
        raise NotExamined("nothing to examine")

    def things(_: Installation) -> dict[str, int]:
        raise ValueError("no list")

    checks = [
        DoctorCheck(name="hangs", examine=hangs),
        DoctorCheck(name="breaks", examine=breaks),
        DoctorCheck(name="server", examine=loses_its_server),
        DoctorCheck(name="cannot", examine=cannot),
        DoctorCheck(name="things", examine=hangs, each=things),
        DoctorCheck(name="well", examine=lambda _: ()),
    ]
    found = {one.check: one for one in examined(Installation(), checks, limit=0.3)}
    go_on.set()
    assert "did not end" in _told(found["hangs"])
    assert "KeyError: 'free'" in _told(found["breaks"])
    (finding,) = found["server"].findings
    assert finding.severity == "fault", finding
    assert finding.what == "no answer from http://server"
    assert "no list" in _told(found["things"])
    assert found["cannot"].skipped == "nothing to examine"
    assert found["well"] == Examined(check="well")


def test_a_client_sees_what_it_can_of_a_server(pilotage: Pilotage, server: FakeServer) -> None:
    ready = {"problems": ["disk full"], "failing_loops": {"stage": "KeyError"}}
    server.answers |= {**HEALTH, "GET /health/ready": (503, ready)}
    server.answers["GET /queues"] = (401, {"detail": "a valid bearer token is needed"})
    server.answers["GET /breakers"] = {"breakers": [], "set_aside": [remark("set aside by step split")]}
    result = pilotage("doctor")
    assert result.exit_code == 1
    for told in (
        "fault: server readiness: disk full",
        "the loop stage fails: KeyError",
        "warning: server version: the server is version 0.0.9",
        "behind this one",
        "fault: access:",
        "warning: circuit breakers: task:12: set aside by step split",
        "no store on this machine",
    ):
        assert told in result.stdout, told
    server.answers["GET /breakers"] = (401, {"detail": "a valid bearer token is needed"})
    told = pilotage("doctor", "--only", "circuit breakers").stdout
    assert "not examined: 1 check, the server does not accept this token" in told
    document = json.loads(pilotage("doctor", "--json", "--only", "server clock").stdout)
    assert document["sound"] is False
    assert document["examined"][-1]["findings"][0]["mend"].startswith("timedatectl")


def test_wrong_settings_and_unknown_names_are_named(pilotage: Pilotage) -> None:
    result = pilotage("doctor", PILOTAGE_PORT="many", PILOTAGE_PORTS="1")
    assert result.exit_code == 1
    assert "PILOTAGE_PORT: 'many' is no whole number" in result.stdout
    assert "PILOTAGE_PORTS is no setting; PILOTAGE_PORT is one" in result.stdout
    assert pilotage("doctor", "--only", "nothing").exit_code == 2
    assert "storage: Write, read" in pilotage("doctor", "--list").stdout


def test_no_check_breaks_where_the_store_cannot_be_opened(tmp_path: Path) -> None:
    """Its checks are threads that would otherwise import the store at once, in a process that has not yet."""
    environment = os.environ | {"PILOTAGE_HOME": str(tmp_path), "PILOTAGE_STORE": "ada:secret@somewhere"}
    command = [sys.executable, "-m", "pilotage.cli", "doctor"]
    answer = subprocess.run(
        command, env=environment, text=True, capture_output=True, check=False, timeout=120
    )
    assert "PILOTAGE_STORE is not the address of a store" in answer.stdout
    assert "the check itself failed" not in answer.stdout


@pytest.mark.parametrize(
    ("slow", "blamed"), [(-149.4, "the clock of all nodes is 149 s behind"), (0.4, "of fast is 149 s behind")]
)
def test_nodes_are_not_blamed_for_the_servers_time(
    tmp_path: Path, store_url: str, slow: float, blamed: str
) -> None:
    """After a step of the database's clock every node seemed to be wrong."""
    store = Store.open(store_url)
    store.save_federation(_federation(tmp_path), "test")
    for queue, ahead in (("fast", -149.0), ("slow", slow)):
        text = json.dumps({"clock_ahead": ahead}).encode()
        key = LogKey(kind="pilot", record=new_pilot(store, queue))
        log = KeptLog(key=key, stream="node", size=len(text), head=len(text), data=zlib.compress(text))
        store.logs.put([(log, Identity(name="pilots"))], store.clock())
    store.close()
    (found,) = _examined(tmp_path, store_url, "nodes")["nodes", ""].findings
    assert blamed in found.what
