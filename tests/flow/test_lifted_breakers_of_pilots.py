"""An operator lifts the breakers that hold pilots back; tripped by what happened, not by hand (P8, P12)."""

from dataclasses import replace

from pilotage.flow.calls.places import circuit_breakers
from pilotage.model.documents.decision import Decision, Move
from pilotage.model.records.federation import ComputingElement
from pilotage.model.records.states import PilotState
from pilotage.ports.computing import PilotSize

from .house import FakeElement, House

LISTED = ComputingElement(kind="fake", max_pilots=3, list_match=True)


class Silent(FakeElement):
    """A batch system that answers no list-match until it is well."""

    questions = 0
    is_well = False

    def resources(self, size: PilotSize) -> int:
        self.questions += 1
        if not self.is_well:
            raise OSError("no route to host")
        return 7


def of_kind(house: House, kind: str) -> list[tuple[str, str]]:
    return [one.place for one in circuit_breakers.tripped(house.runtime) if one.kind == kind]


def test_p8_a_server_is_asked_again_once_its_breaker_is_lifted(house: House) -> None:
    house.element = silent = Silent()
    house.federate(computing_element=LISTED)
    house.task(jobs=5)
    house.take("broker")
    for _ in range(3):
        house.take("provision")
        house.now += 1
    assert of_kind(house, "list-match") == [("north-queue", "")]
    assert (silent.questions, silent.orders) == (1, [])
    silent.is_well = True
    lifted = circuit_breakers.lift(house.runtime, "north-queue", "root", kind="list-match")
    assert [one.kind for one in lifted] == ["list-match"]
    for _ in range(3):
        house.take("provision")
    assert (silent.questions, len(silent.orders)) == (2, 3)
    assert of_kind(house, "list-match") == []


def test_p8_a_server_that_is_still_silent_trips_it_anew_as_for_the_first_time(house: House) -> None:
    house.element = silent = Silent()
    house.federate(computing_element=LISTED)
    house.task(jobs=5)
    house.take("broker")
    house.take("provision")
    circuit_breakers.lift(house.runtime, "north-queue", "root")
    house.now += 1
    house.take("provision")
    house.take("provision")
    assert silent.questions == 2
    (found,) = house.runtime.elements.inquiries.silent_servers()
    assert found.failures == 1


def test_p12_pilots_that_ended_empty_hold_none_back_once_their_breaker_is_lifted(house: House) -> None:
    house.element = element = FakeElement()
    house.federate(computing_element=ComputingElement(kind="fake", max_pilots=100))
    known = house.store.federation()
    house.store.save_federation(replace(known, director=replace(known.director, policy="balanced")), "test")
    sent = [house.pilot() for _ in range(3)]
    for number in sent:
        assert house.match(number).works == ()
    house.task(jobs=5)
    house.take("broker")
    house.now += 5
    _end_empty(house, sent)
    assert of_kind(house, "empty-pilots") == [("north-queue", "")]
    house.now += 1
    before = len(element.orders)
    house.take("provision")
    assert len(element.orders) == before
    circuit_breakers.lift(house.runtime, "north-queue", "root")
    house.take("provision")
    assert len(element.orders) > before


def _end_empty(house: House, sent: list[int]) -> None:
    """End pilots as their agents do, with nothing done."""
    decision = Decision(
        step="test",
        time=house.now,
        seed=1,
        changes=(
            Move(
                kind="pilot",
                ids=tuple(sent),
                source=PilotState.RUNNING,
                target=PilotState.FINISHED,
                cause="idle",
            ),
        ),
    )
    assert sum(map(len, house.store.commit(decision, "test").accepted)) == len(sent)
