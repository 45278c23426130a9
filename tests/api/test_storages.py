"""Storages over the API: what rests until when and why, and how an operator lifts it (F4)."""

from pilotage.model.records.storage_rests import FailedDelivery
from pilotage.testing.stores import create

from .conftest import ALICE, House


def fail(house: House, first: int, source: str, destination: str = "") -> None:
    """Three files fail at an end a moment ago."""
    now = house.runtime.clock()
    told = (
        FailedDelivery(
            transfer=first + number,
            attempt=1,
            file=f"f{number}",
            source=source,
            destination=destination,
            time=now,
            error="refused",
        )
        for number in range(3)
    )
    create(house.store, *told, time=now)


def test_f4_people_see_what_rests_and_operators_lift_it(house: House) -> None:
    person, operator = house.as_("user", ALICE), house.as_("operator", ALICE)
    fail(house, 10, "north-disk")
    fail(house, 20, "south-disk", "north-disk")
    found = {one["name"]: one["rests"] for one in person.get("/storages").json()["storages"]}
    assert [(one["source"], one["destination"]) for one in found["north-disk"]] == [
        ("north-disk", ""),
        ("south-disk", "north-disk"),
    ]
    (rest,) = found["south-disk"]
    assert (rest["failures"], rest["error"], rest["over"]) == (3, "refused", False)
    assert rest["until"] - rest["since"] == 60
    assert person.post("/storages/south-disk/lift").status_code == 403
    assert operator.post("/storages/none/lift").status_code == 404
    assert operator.post("/storages/south-disk/lift").json() == {"lifted": [rest]}
    assert operator.post("/storages/south-disk/lift").json() == {"lifted": []}
    left = {one["name"]: len(one["rests"]) for one in person.get("/storages").json()["storages"]}
    assert left == {"north-disk": 1, "south-disk": 0}
    told = "\n".join(person.get("/queues/north-queue/explain").json()["lines"])
    assert "reading from north-disk rests until" in told
