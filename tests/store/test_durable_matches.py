"""PostgreSQL tells a pilot of a job once the match is on its disk; empty matches do not wait for it."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import create_engine

from pilotage.model.records.borrowing import Borrowing
from pilotage.model.records.matching import BorrowableAttempt, BorrowRequest, ClaimRequest, Head
from pilotage.model.records.states import JobState as J
from pilotage.model.records.states import PilotState as P
from pilotage.store import Store
from pilotage.testing import NOW
from pilotage.testing.stores import decision, elastic, move, new_jobs, new_pilot, new_task

HEAD = Head(requirements="r", priority=500, jobs=1)


@pytest.fixture
def store(postgresql_url: str) -> Iterator[Store]:
    opened = Store.open(postgresql_url)
    yield opened
    opened.close()


@pytest.fixture
def waits(store: Store, postgresql_url: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Whether each later match waits for the disk, by the setting at the end of its transaction."""
    engine, found = create_engine(postgresql_url), list[str]()

    def run(sql: str, values: Any) -> Any:
        with engine.connect() as connection:
            connection.exec_driver_sql("SET synchronous_commit = off")
            connection.commit()
            rows = connection.exec_driver_sql(sql, values).all()
            if "_jobs_" in sql:
                found.append(str(connection.exec_driver_sql("SHOW synchronous_commit").scalar_one()))
            connection.commit()
        engine.dispose()
        return rows

    monkeypatch.setattr(store.matches._database, "run", run)
    return found


def test_who_gets_a_job_waits_for_the_disk(store: Store, waits: list[str]) -> None:
    task = new_task(store)
    (own,), (lent,) = new_jobs(store, task, 1), elastic(store, task, 1)
    store.commit(decision(move("job", [own], J.DEFINED, J.ACTIVATED, {"queue": "CERN-q"})), "broker")
    pilot = new_pilot(store)
    for step in ((P.CREATED, P.SUBMITTED), (P.SUBMITTED, P.RUNNING)):
        store.commit(decision(move("pilot", [pilot], *step)), "director")
    places: dict[str, Any] = {"preferred": "PIC-q", "queue": "CERN-q", "site": "CERN", "binding": "elastic"}
    numbers: dict[str, Any] = {"ahead": 0, "staging": 0.0, "ends_there": NOW, "ends_here": NOW}
    there = Borrowing(job=lent, attempt=1, time=NOW, **places, **numbers)
    attempt = BorrowableAttempt(state=J.ACTIVATED, requirements="r", borrowing=there)
    claim = ClaimRequest(pilot=pilot, queue="CERN-q", heads=(HEAD,))
    borrow = BorrowRequest(pilot=pilot, queue="CERN-q", site="CERN", jobs=(attempt,), most=1)
    given = [
        [job.id for result in store.matches.commit(decision(request)) for job in result.jobs]
        for request in (claim, claim, borrow, borrow)
    ]
    assert given == [[own], [], [lent], []]
    assert waits == ["on", "off", "on", "off"]
