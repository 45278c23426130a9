"""News of deliveries come from movers that may be anybody's."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pilotage.flow.deliveries import Deliveries
from pilotage.flow.workers import Inline
from pilotage.ports.moving import Abilities, Delivery, DeliveryStatus, Place, Started

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

    def start(self, deliveries: Sequence[Delivery]) -> Sequence[Started]:
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
