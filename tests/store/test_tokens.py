"""Tokens stand for credentials until they are revoked or expire, and cannot be read from the store."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, delete, func, select, text, update

from pilotage.model.records.states import PilotState as P
from pilotage.model.values.identity import Credential
from pilotage.store import Store
from pilotage.store.people.tokens import Tokens, tokens
from pilotage.store.pilots.table import pilots
from pilotage.testing import ALICE
from pilotage.testing.stores import move, moved, new_pilot
from tests.waiting import wait_for


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def rows(store: Store) -> list[Any]:
    return store.database.read(lambda connection: list(connection.execute(select(tokens))))


def test_a_token_stands_for_its_credential(store: Store) -> None:
    user = Credential(role="user", identity=ALICE)
    pilot = Credential(role="pilot", identity=ALICE, pilot=7, expires=4e9)
    for credential in (user, pilot):
        assert store.tokens.find(store.tokens.create(credential)) == credential


def test_what_was_never_given_out_stands_for_nothing(store: Store) -> None:
    store.tokens.create(Credential(role="operator", identity=ALICE))
    assert store.tokens.find("") is None
    assert store.tokens.find("x" * 43) is None


def test_the_store_keeps_only_a_hash(store: Store) -> None:
    token = store.tokens.create(Credential(role="user", identity=ALICE))
    (row,) = rows(store)
    assert token not in [str(value) for value in row]
    assert store.tokens.find(row.hash) is None
    assert len(token) >= 43


def test_tokens_differ(store: Store) -> None:
    made = {store.tokens.create(Credential(role="user", identity=ALICE)) for _ in range(5)}
    assert len(made) == 5


def test_a_token_ends_when_it_expires_and_is_then_forgotten(store: Store) -> None:
    clock = Clock()
    issued = Tokens(store.database, clock, lambda: "secret" * 8)
    token = issued.create(Credential(role="user", identity=ALICE, expires=200.0))
    clock.now = 199.9
    assert issued.find(token) is not None
    clock.now = 200.0
    assert issued.find(token) is None
    issued.create(Credential(role="user", identity=ALICE))

    def count(connection: Connection) -> int:
        return connection.execute(select(func.count()).select_from(tokens)).scalar_one()

    assert store.database.read(count) == 1


@pytest.mark.parametrize("end", [P.FINISHED, P.FAILED, P.CANCELLED])
def test_the_commit_that_ends_a_pilot_revokes_its_tokens(store: Store, end: P) -> None:
    ended, other = new_pilot(store), new_pilot(store)
    tokens_ = [
        store.tokens.create(Credential(role="pilot", identity=ALICE, pilot=pilot)) for pilot in (ended, other)
    ]
    user = store.tokens.create(Credential(role="user", identity=ALICE))
    moved(store, move("pilot", [ended, other], P.CREATED, P.SUBMITTED))
    assert store.tokens.find(tokens_[0]) is not None
    moved(store, move("pilot", [ended], P.SUBMITTED, end))
    assert store.tokens.find(tokens_[0]) is None
    assert store.tokens.find(tokens_[1]) is not None
    assert store.tokens.find(user) is not None


def test_p9_a_pilot_that_has_ended_gets_no_token_any_more(store: Store) -> None:
    pilot = new_pilot(store)
    before = store.tokens.create(Credential(role="enrolment", identity=ALICE, pilot=pilot, expires=4e9))
    store.database.write(lambda one: one.execute(update(pilots).values(state=P.CANCELLED)))
    assert store.tokens.enrol(before, "nonce", 4e9) is None
    late = store.tokens.create(Credential(role="enrolment", identity=ALICE, pilot=pilot, expires=4e9))
    assert store.tokens.find(late) is None


@pytest.mark.postgresql
def test_p9_a_pilot_that_ends_while_it_enrols_leaves_no_token(postgresql_url: str) -> None:
    engine = create_engine(postgresql_url)
    with closing(Store.open(postgresql_url)) as store, ThreadPoolExecutor() as beside:
        pilot = new_pilot(store)
        token = store.tokens.create(Credential(role="enrolment", identity=ALICE, pilot=pilot, expires=4e9))
        with engine.begin() as connection:
            connection.execute(update(pilots).values(state=P.CANCELLED))
            enrolling = beside.submit(store.tokens.enrol, token, "nonce", 4e9)
            wait_for(lambda: enrolling.done() or waiting(connection), "it waits for the pilot's end")
            connection.execute(delete(tokens).where(tokens.c.pilot == pilot))
        assert enrolling.result() is None
        assert rows(store) == []
    engine.dispose()


def waiting(connection: Connection) -> bool:
    """Tell whether anybody waits for a lock."""
    return bool(connection.scalar(text("SELECT COUNT(*) FROM pg_locks WHERE NOT granted")))
