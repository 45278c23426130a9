"""Each person lists a storage once at a time, so that nobody takes all its places."""

import threading

import pytest

from pilotage.flow.outside.file_readers import LookUps
from pilotage.model.values.identity import Identity
from tests.waiting import PATIENCE

from .house import ALICE

BOB = Identity(name="bob", vo="ligo")


def test_a_person_waits_for_their_own_look_up_and_for_no_others() -> None:
    look_ups = LookUps()
    with look_ups.place("disk", ALICE, 0):
        with look_ups.place("disk", BOB, 0), look_ups.place("tape", ALICE, 0):
            pass
        with pytest.raises(TimeoutError, match="of yours at disk"), look_ups.place("disk", ALICE, 0.01):
            pass
    with look_ups.place("disk", ALICE, 0):
        pass


def test_who_waits_goes_on_when_the_other_look_up_ends() -> None:
    look_ups, entered = LookUps(), threading.Event()

    def enter() -> None:
        with look_ups.place("disk", ALICE, PATIENCE):
            entered.set()

    with look_ups.place("disk", ALICE, 0):
        thread = threading.Thread(target=enter)
        thread.start()
        assert not entered.is_set()
    thread.join(PATIENCE)
    assert entered.is_set()
