"""News of deliveries come from movers that may be anybody's."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pilotage.flow.outside.deliveries import Deliveries
from pilotage.flow.outside.fence import FencedWorkers
from pilotage.flow.outside.workers import Inline
from pilotage.model.records.federation import Storage
from pilotage.model.records.inputs import InputFile
from pilotage.ports.moving import Abilities, Delivery, DeliveryStatus, Place, Started
from pilotage.ports.presence import Unnamed

ORDER = Delivery(
    transfer=1,
    attempt=1,
    file="f",
    size=1,
    checksum="",
    source=Place(url="file:///a", path="f"),
    destination=Place(url="file:///b", path="f"),
)


class Talkative:
    """A mover that also tells of deliveries that nobody asked about."""

    abilities = Abilities(name="talkative", reads=frozenset({"file"}), writes=frozenset({"file"}))
    started = 0

    def scan(self, *_: object) -> list[InputFile]:
        return []

    def start(self, deliveries: Sequence[Delivery]) -> Sequence[Started]:
        self.started += len(deliveries)
        return [Started(reference="ours") for _ in deliveries]

    def poll(self, references: Collection[str]) -> Mapping[str, DeliveryStatus]:
        return dict.fromkeys(["another's", *references], DeliveryStatus(state="delivered"))


class OneMover:
    """Movers of which there is one."""

    def for_delivery(self, source: str, destination: str) -> Any:
        return Talkative()


def test_what_a_mover_tells_of_others_deliveries_hides_nothing_of_ours() -> None:
    deliveries = Deliveries(OneMover(), Inline(), lambda: None)  # type: ignore[arg-type]
    deliveries.start([ORDER])
    (news,) = deliveries.news()
    assert (news.transfer, news.state) == (1, "delivered")


class Queued(Talkative):
    """A mover of one delivery that waits in a service's queue: no bytes move, but the service answers."""

    def __init__(self) -> None:
        self.signs = 0

    def poll(self, references: Collection[str]) -> Mapping[str, DeliveryStatus]:
        return dict.fromkeys(references, DeliveryStatus(state="moving", signs=self.signs))


def test_an_answer_of_a_service_is_a_sign_of_life_and_silence_is_none() -> None:
    mover = Queued()
    movers = OneMover()
    movers.for_delivery = lambda *_: mover  # type: ignore[method-assign]
    deliveries = Deliveries(movers, Inline(), lambda: None)  # type: ignore[arg-type]
    deliveries.start([ORDER])
    told = []
    for signs in (0, 0, 1, 1):
        mover.signs = signs
        news = deliveries.news()
        told.append([one.state for one in news])
        deliveries.forget(news)
    assert told == [["moving"], [], ["moving"], []]


class OutOfTouchServer(Unnamed):
    """A server that has lost touch with its store."""

    term = None


def test_a_server_out_of_touch_looks_for_files_and_starts_nothing() -> None:
    workers, mover = Inline(), Talkative()
    movers = OneMover()
    movers.for_delivery = movers.for_storage = lambda *_: mover  # type: ignore[method-assign, attr-defined]
    fenced = FencedWorkers(workers, OutOfTouchServer())
    deliveries = Deliveries(movers, workers, lambda: None, fenced)  # type: ignore[arg-type]
    assert deliveries.scan(Storage(name="disk", site="home", url="file:///d"), "*", 1.0) == []
    deliveries.start([ORDER])
    assert mover.started == 0
