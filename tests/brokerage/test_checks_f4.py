"""F4, the house's own rule: a job goes to no queue whose files an open circuit breaker would hold up."""

from typing import Any

import pytest

from pilotage.model.circuit_breakers.storages import FailedDelivery
from pilotage.model.documents.world import World
from pilotage.testing import NOW, federation, file, jobs, queue, replica, task, world
from pilotage.testing.choices import only_choice, refusal, refused_in

HOUSE = federation([queue("NEAR"), queue("FAR", site="AWAY"), queue("LAB", site="LAB")])


def seen(
    source: str, destination: str, at: float = -10.0, holders: tuple[str, ...] = (), **spec: Any
) -> World:
    """A job that reads a file at these disks, after three files failed at an end."""
    asked = task(inputs=("x",) if holders else (), outputs=("o",), nucleus="HOME", **spec)
    told = [
        FailedDelivery(
            transfer=number,
            attempt=1,
            file=f"bad{number}",
            source=source,
            destination=destination,
            time=NOW + at,
            error="ConnectionError: refused",
        )
        for number in range(3)
    ]
    return world(
        HOUSE,
        asked,
        jobs=jobs(asked, inputs=("x",) if holders else ()),
        files=[file("x")],
        replicas=[replica("x", holder) for holder in holders],
        failed_deliveries=told,
    )


@pytest.mark.parametrize(
    ("end", "holders", "expected"),
    [
        (("", "AWAY-DISK"), ("HOME-DISK",), {"FAR"}),
        (("", "AWAY-DISK"), ("AWAY-DISK", "HOME-DISK"), {"FAR"}),
        (("AWAY-DISK", ""), (), {"FAR"}),
        (("HOME-DISK", ""), ("HOME-DISK",), {"FAR", "LAB"}),
        (("HOME-DISK", ""), ("HOME-DISK", "LAB-DISK"), set()),
        (("HOME-DISK", "AWAY-DISK"), ("HOME-DISK",), {"FAR"}),
        (("", "HOME-DISK"), (), {"FAR", "LAB", "NEAR"}),
        (("", "LAB-DISK"), (), {"LAB"}),
    ],
    ids=[
        "cannot take input",
        "has it, and cannot take output",
        "cannot give output",
        "source",
        "another source",
        "pair",
        "nucleus",
        "takes only its own pilots' output",
    ],
)
def test_f4_queues_whose_files_an_open_breaker_holds_up_are_refused(
    end: tuple[str, str], holders: tuple[str, ...], expected: set[str]
) -> None:
    assert refused_in(seen(*end, holders=holders), "F4") == expected


def test_f4_the_refusal_names_storage_time_and_reason() -> None:
    found = refusal(only_choice(seen("", "AWAY-DISK", holders=("HOME-DISK",))), "F4")
    assert found.mend == "wait"
    (have,) = found.have
    assert str(have).startswith(
        "writing to AWAY-DISK: circuit breaker open until 2023-11-14 22:14:10 UTC: 3 deliveries failed"
    )
    assert "ConnectionError: refused" in str(have)


def test_f4_half_open_the_queue_is_tried() -> None:
    assert refused_in(seen("", "AWAY-DISK", at=-60, holders=("HOME-DISK",)), "F4") == set()


def test_f4_a_storage_that_left_the_federation_refuses_nothing() -> None:
    assert refused_in(seen("", "GONE-DISK", holders=("HOME-DISK",)), "F4") == set()
