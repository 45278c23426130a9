"""Heartbeats of several pilots in one transaction."""

from sqlalchemy import create_engine

from pilotage.model.records.states import JobState as J
from pilotage.model.records.states import PilotState as P
from pilotage.store import Store
from pilotage.testing import NOW
from pilotage.testing.stores import decision, move, new_jobs, new_pilot, new_task


def running_pilot(store: Store) -> int:
    pilot = new_pilot(store)
    for step in ((P.CREATED, P.SUBMITTED), (P.SUBMITTED, P.RUNNING)):
        store.commit(decision(move("pilot", [pilot], *step)), "director")
    return pilot


def called(store: Store, pilot: int) -> float | None:
    record = store.queries.pilot(pilot)
    assert record is not None
    return record.heartbeat


def test_each_running_pilot_gets_its_attempts_and_others_are_left_out(store: Store) -> None:
    busy, idle, new = running_pilot(store), running_pilot(store), new_pilot(store)
    job, waiting = new_jobs(store, new_task(store), 2)
    for id_ in (job, waiting):
        store.commit(decision(move("job", [id_], J.DEFINED, J.ACTIVATED, {"queue": "CERN-q"})), "broker")
    store.commit(decision(move("job", [job], J.ACTIVATED, J.SENT, {"pilot": busy})), "matcher")
    assert store.heartbeats.beat([busy, idle, new, 999], NOW + 5) == {busy: {(job, 1)}, idle: set()}
    assert [called(store, pilot) for pilot in (busy, idle)] == [NOW + 5, NOW + 5]
    assert called(store, new) != NOW + 5
    assert store.heartbeats.beat([], NOW + 6) == {}


def test_a_pilot_that_is_being_written_holds_up_no_other(postgresql_url: str) -> None:
    store = Store.open(postgresql_url)
    held, free = running_pilot(store), running_pilot(store)
    engine = create_engine(postgresql_url)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE pilots SET node = 'n' WHERE id = {held}")
        assert store.heartbeats.beat([held, free], NOW + 5) == {free: set()}
    assert store.heartbeats.beat([held, free], NOW + 6) == {held: set(), free: set()}
    engine.dispose()
    store.close()
