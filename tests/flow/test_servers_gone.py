"""What a server that has ended was delivering is put back at once, by whoever shares its machine."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from pilotage.flow.outside.workers import Inline
from pilotage.flow.runtime import Runtime
from pilotage.flow.step import take
from pilotage.flow.steps import STEPS, step
from pilotage.model.records.states import TransferState
from pilotage.model.records.work import InputFile
from pilotage.ports.moving import Abilities, Delivery, DeliveryStatus, Started
from pilotage.ports.presence import Unnamed
from tests.reading import world_of

from .house import House


class Endless:
    """A mover whose deliveries never end, and the only one there is."""

    abilities = Abilities(name="endless", reads=frozenset({"file"}), writes=frozenset({"file"}))

    def start(self, deliveries: Sequence[Delivery]) -> Sequence[Started]:
        return [Started(reference=str(one.transfer)) for one in deliveries]

    def poll(self, references: Collection[str]) -> Mapping[str, DeliveryStatus]:
        return dict.fromkeys(references, DeliveryStatus(state="moving"))

    def for_delivery(self, *_: str) -> Any:
        return self


class Named(Unnamed):
    """A process that knows which others have ended."""

    def __init__(self, name: str, *ended: str) -> None:
        self.name, self.ended = name, frozenset(ended)

    def gone(self, names: Iterable[str], /) -> frozenset[str]:
        return self.ended & set(names)


def staged(house: House, presence: Named) -> list[tuple[TransferState, int, str]]:
    """Stage as a process does; returns state, attempt and server of each transfer."""
    runtime = Runtime(
        house.store,
        STEPS,
        load=lambda _: house.element,  # type: ignore[arg-type,return-value]
        movers=lambda _: Endless(),  # type: ignore[arg-type,return-value]
        clock=lambda: house.now,
        workers=Inline(),
        presence=presence,
    )
    for _ in range(6):
        take(step("stage"), runtime, runtime.begin(100))
    found = world_of(house.store, "stage", house.now, 1, limit=100).transfers
    return [(one.state, one.attempt, one.server) for one in found]


def test_only_the_deliveries_of_processes_that_have_ended_are_put_back_and_at_once(house: House) -> None:
    (house.place / "south" / "f").write_bytes(b"four")
    house.task(inputs=(InputFile(name="f", size=4, replicas=("south-disk",)),))
    house.take("broker")
    delivering = TransferState.DELIVERING
    assert staged(house, Named("first")) == [(delivering, 1, "first")]
    assert staged(house, Named("of another machine")) == [(delivering, 1, "first")]
    assert staged(house, Named("second", "first")) == [(delivering, 2, "second")]
    assert staged(house, Named("second", "first")) == [(delivering, 2, "second")]
