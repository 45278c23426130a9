"""What an attempt leaves in its scratch area goes with the attempt."""

from concurrent.futures import Future
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from zlib import adler32

import pytest

from pilotage.flow.calls.pilots.pilot_end import end
from pilotage.flow.outside.removals import remove_copies
from pilotage.flow.task_cancellation import cancel
from pilotage.model.documents.decision import Forget
from pilotage.model.documents.world import Output, Report
from pilotage.model.records.states import TransferState as X
from pilotage.model.records.work import File, Replica
from pilotage.model.values.paths import copy_path
from pilotage.store import Store
from pilotage.store.transfers.storages import AGAIN, KEPT_FOR, Removal
from pilotage.testing.stores import create, decision, move, new_transfer

from .house import House


class Started(House):
    """A house in which the one job of a task runs, and has left a file in its scratch area."""

    def start(self) -> None:
        """Bring it there."""
        self.id = self.task(command=("write",), outputs=("out",), max_attempts=1)
        self.take("broker")
        self.at = self.pilot()
        ((self.order,),) = [work.jobs for work in self.match(self.at).works]
        self.attempt = (self.order.job, self.order.attempt)
        self.report(self.at, "running", [self.attempt])
        self.leave()

    def leave(self) -> None:
        """Leave a file in the scratch area."""
        folder = self.place / "north" / self.order.scratch
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "out").write_text("made")

    def left(self) -> list[Path]:
        """All files of scratch areas."""
        return [path for path in (self.place / "north" / ".scratch").rglob("*") if path.is_file()]

    def told(self, state: str) -> None:
        """Let the pilot report an end of the payload."""
        job, attempt = self.attempt
        output = Output(name="out", size=4, checksum=f"adler32:{adler32(b'made'):08x}")
        outputs = (output,) if state == "done" else ()
        self.tell(self.at, Report(job=job, attempt=attempt, state=state, error="", outputs=outputs))  # type: ignore[arg-type]


@pytest.fixture
def house(store: Store, tmp_path: Path) -> Started:
    found = Started(store, tmp_path)
    found.start()
    assert len(found.left()) == 1
    return found


def test_of_a_failed_payload_nothing_stays(house: Started) -> None:
    house.told("failed")
    house.take("watch")
    assert house.left() == []


def test_of_the_jobs_of_a_pilot_that_ends_nothing_stays(house: Started) -> None:
    house.now += 2 * house.store.federation().loops.heartbeat
    end(house.runtime, house.at, "no contact with the server")
    house.take("watch")
    assert house.left() == []


def test_of_an_output_that_its_task_wants_no_more_nothing_stays(house: Started) -> None:
    house.told("done")
    assert len(house.left()) == 1
    cancel(house.runtime, house.id, "enough", "user:alice")
    house.take("watch")
    assert house.left() == []


def test_what_a_silent_pilot_stores_as_long_as_it_may_goes_too(house: Started) -> None:
    cancel(house.runtime, house.id, "enough", "user:alice")
    house.take("watch")
    assert house.left() == []
    house.leave()
    house.now += 2 * house.store.federation().timeouts.heartbeat
    house.take("watch")
    assert house.left() == []


def test_a_removal_that_fails_is_tried_again(house: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its server was killed, or its storage was away."""
    tries: list[float] = []

    def remove(*_: object) -> "Future[None]":
        tries.append(house.now)
        failed: Future[None] = Future()
        failed.set_exception(OSError("away"))
        return failed

    with monkeypatch.context() as patched:
        patched.setattr(house.runtime.deliveries, "remove", remove)
        house.told("failed")
        for _ in range(35):
            house.take("watch")
            house.now += 30
    assert [round(later - earlier) for earlier, later in pairwise(tries)] == [60, 60, 120, 240, 480]
    house.now += 1000
    house.take("watch")
    assert house.left() == []
    house.leave()
    house.now += 2 * house.store.federation().timeouts.heartbeat
    house.take("watch")
    assert house.left() == [], "a slow storage stored it late"
    assert house.store.removals.take_due(house.now + 1e6) == []


def test_a_copy_goes_unless_it_was_made_again(house: Started) -> None:
    store, path = house.store, copy_path("flow", "atlas:f")
    copy, again = house.place / "north" / path, Replica(file="atlas:f", storage="north-disk", path=path)
    copy.parent.mkdir(parents=True)
    copy.write_text("copy")
    create(store, File(name="atlas:f", size=4, checksum=""))

    def removed() -> bool:
        remove_copies(house.runtime, [again], house.now)
        house.take("watch")
        house.now += AGAIN
        return not copy.exists()

    (transfer,) = create(store, new_transfer("atlas:f", destination="north-disk"))
    assert not removed(), "a transfer may bring it there"
    store.commit(decision(move("transfer", [transfer], X.QUEUED, X.CANCELLED)), "test")
    create(store, again)
    assert not removed(), "it is there again"
    store.commit(decision(Forget(replicas=(again,))), "test")
    assert removed()


def test_a_removal_that_never_succeeds_is_given_up(store: Store) -> None:
    removals, week = store.removals, KEPT_FOR
    old = Removal(storage="north", path="old", since=0.0, due=0.0, last=0.0)
    new = replace(old, path="new", due=week)
    removals.add([old, new])
    assert [one.path for one in removals.take_due(1.0)] == ["old"]
    assert [one.path for one in removals.take_due(week + 1)] == ["old", "new"]
    assert removals.take_due(9 * week) == []


def test_an_attempt_that_was_only_sent_leaves_nothing(store: Store, tmp_path: Path) -> None:
    """Its pilot was cut off before it could tell that it began."""
    house = House(store, tmp_path)
    house.task(command=("write",), outputs=("out",))
    house.take("broker")
    answer = house.match(house.pilot())
    scratch = house.place / "north" / answer.works[0].jobs[0].scratch
    scratch.mkdir(parents=True)
    (scratch / "out").write_text("late")
    house.now += house.store.federation().timeouts.sent + house.store.federation().timeouts.heartbeat
    house.take("watch")
    house.now += house.store.federation().timeouts.heartbeat
    house.take("watch")
    assert not scratch.exists()
