"""Operators drain, close and open sites, queues and storages, whatever the file says."""

from dataclasses import replace

import pytest

from pilotage.explain import queues
from pilotage.flow.calls.administration import federation_changes
from pilotage.flow.calls.places import conditions, restrictions
from pilotage.flow.errors import NotNow, NotThere
from pilotage.model.documents.world import Report
from pilotage.model.records.federation import Federation, Queue
from pilotage.model.records.restrictions import RestrictedKind, Restriction, RestrictionMode
from pilotage.model.records.states import JobState
from pilotage.model.rules.restricted import restricted
from pilotage.model.values.phrases import moment
from pilotage.store import FederationChanged

from .house import House, attempts

SOUTH = Queue(name="south-queue", site="south", storage="south-disk")
NEWEST = 2**31 - 1


def with_south(house: House) -> Federation:
    """Save the federation with a second queue, which takes what the first one gives up."""
    found = house.store.declared_federation()
    (north,) = found.queues
    return replace(
        found, queues=(north, replace(north, name="south-queue", site="south", storage="south-disk"))
    )


def restrict(
    house: House, mode: RestrictionMode, kind: RestrictedKind, name: str, until: float | None = None
) -> restrictions.Remaining:
    asked = Restriction(
        kind=kind, name=name, mode=mode, because="new disks", actor="olga", since=house.now, until=until
    )
    return restrictions.restrict(house.runtime, asked)


def at_work(house: House) -> int:
    """A task with one job that runs at the north, and one that waits there."""
    task = house.task(command=("run",), jobs=2, walltime=60)
    house.take("broker")
    house.take("stage")
    pilot = house.pilot()
    ((job, attempt),) = attempts(house.match(pilot, most=1))
    house.tell(pilot, Report(job=job, attempt=attempt, state="running"))
    return task


def test_draining_lets_running_jobs_end_and_moves_waiting_ones_at_once(house: House) -> None:
    task = at_work(house)
    house.store.save_federation(with_south(house), "test")
    left = restrict(house, "drain", "queue", "north-queue")
    assert (left.waiting, left.running, left.is_empty) == (1, 1, False)
    assert not house.match(house.pilot()).works, "nothing starts there any more"
    house.take("watch")
    house.take("broker")
    jobs = house.store.queries.jobs(task, None, 10)
    assert {(job.state, job.queue) for job in jobs} >= {(JobState.RUNNING, "north-queue")}
    assert sorted(job.queue for job in jobs) == ["north-queue", "south-queue"]
    (seen,) = conditions.of_queues(house.runtime, ["north-queue"])
    assert queues.trouble(seen) == "north-queue is drained by olga: new disks"


def test_b4_a_draining_queue_takes_no_jobs_of_tasks_that_name_it_either(house: House) -> None:
    """Else they would go there and back for ever."""
    restrict(house, "drain", "queue", "north-queue")
    task = house.task(command=("run",), queues=("north-queue",))
    house.take("broker")
    assert house.states(task) == {JobState.PENDING: 1}


def test_jobs_wait_at_a_closed_queue_and_start_there_once_it_is_open(house: House) -> None:
    task = at_work(house)
    house.store.save_federation(with_south(house), "test")
    restrict(house, "close", "site", "north")
    pilot = house.pilot()
    assert not house.match(pilot).works
    house.now += 7 * 86400
    house.take("watch")
    assert house.states(task) == {JobState.RUNNING: 1, JobState.ACTIVATED: 1}
    assert restrictions.lift(house.runtime, "site", "north", "olga")
    assert restrictions.lift(house.runtime, "site", "north", "olga") is None
    assert house.store.federation().queues[0].status == "online"
    (newest, *_) = federation_changes.history(house.store, "", 1)
    assert newest.note == "site north opened; before: closed by olga: new disks"


def test_neither_a_reload_nor_a_restart_undoes_a_restriction_but_its_time_does(house: House) -> None:
    restrict(house, "drain", "queue", "north-queue", until=house.now + 60)
    restrict(house, "close", "storage", "south-disk")
    federation_changes.save(house.store, house.store.declared_federation(), "olga", "f.yaml")
    house.federate()
    federation = house.store.federation()
    assert federation.queues[0].status == "draining"
    assert len(federation.storages[1].blacklisted) == 4
    declared = house.store.declared_federation()
    assert (declared.queues[0].status, declared.storages[1].blacklisted) == ("online", ())
    house.now += 61
    house.take("watch")
    assert house.store.federation().queues[0].status == "online"
    assert [one.name for one in house.store.restrictions()] == ["south-disk"]
    newest = federation_changes.history(house.store, "", 20)
    told = f"drained by olga until {moment(house.now - 1)}: new disks"
    expected = f"queue north-queue: the time is over; before: {told}"
    assert (newest[0].actor, newest[0].note) == ("watch", expected)
    assert newest[-1].version == 1


def test_a_restriction_goes_with_its_place(house: House) -> None:
    house.store.save_federation(with_south(house), "test")
    restrict(house, "drain", "queue", "south-queue")
    house.federate()
    assert house.store.restrictions() == ()


def test_what_is_impossible_is_refused(house: House) -> None:
    with pytest.raises(NotThere, match="there is no site 'west'"):
        restrict(house, "drain", "site", "west")
    with pytest.raises(NotNow, match="is over already"):
        restrict(house, "drain", "site", "north", until=house.now - 1)
    declared = house.store.declared_federation()
    with pytest.raises(FederationChanged, match="version 1 of the federation is in force, not 7"):
        federation_changes.save(house.store, declared, "olga", expected=7)
    assert federation_changes.save(house.store, declared, "olga", expected=1) == 2
    with pytest.raises(NotThere):
        federation_changes.of_version(house.store, 9)


def test_history_says_what_each_version_declares_otherwise(house: House) -> None:
    house.federate(max_memory=2000)
    federation_changes.save(
        house.store, federation_changes.of_version(house.store, 1), "olga", note="back to version 1"
    )
    found = federation_changes.history(house.store, "", 2)
    assert [one.version for one in found] == [3, 2]
    assert found[0].note == "back to version 1"
    assert all("max_memory" in change for one in found for change in one.changes)


def test_no_restriction_opens_anything(house: House) -> None:
    queue = replace(SOUTH, status="offline")
    federation = replace(house.store.federation(), queues=(queue,))
    close = Restriction(kind="site", name="south", mode="close", because="b", actor="a", since=0.0)
    assert restricted(federation, [close]).queues == (queue,)
    drain = replace(close, mode="drain")
    assert restricted(federation, [drain]).storages == federation.storages, "a drained site stages out"
    online = replace(federation, queues=(SOUTH,))
    both = [close, replace(close, kind="queue", name="south-queue", mode="drain")]
    assert restricted(online, both).queues[0].status == "draining"


def test_a_restriction_and_its_end_are_events(house: House) -> None:
    log, version = house.store.event_log, house.store.version()
    after = log.newest()
    restrict(house, "close", "site", "north")
    restrictions.lift(house.runtime, "site", "north", "olga")
    closed, opened = log.page(after, log.newest(), 10)
    assert (closed.kind, closed.target, closed.records) == ("federation", "in force", (version + 1,))
    assert (opened.records, opened.actor) == ((version + 2,), "olga")
    assert "site north closed" in closed.cause
