"""Processes that share a store tell each other that there is something to do."""

from itertools import islice

import pytest

from pilotage.store import Store


def test_what_one_process_sends_another_hears(postgresql_url: str) -> None:
    here, there = Store.open(postgresql_url), Store.open(postgresql_url)
    ears = there.notices.listen()
    here.notices.send("broker")
    here.notices.send("stage finish")
    assert list(islice(ears.receive(60), 2)) == ["broker", "stage finish"]
    assert list(ears.receive(0.01)) == []
    ears.close()
    here.close()
    there.close()


def test_sqlite_has_nothing_to_hear(sqlite_url: str) -> None:
    store = Store.open(sqlite_url)
    store.notices.send("broker")
    assert not store.notices.are_carried
    with pytest.raises(ValueError, match="carries no notices"):
        store.notices.listen()
    store.close()
