"""A pass of the broker reads no more of what only waits than may find room."""

from pilotage.flow.headway import WHOLE_AFTER, Headway
from pilotage.model.work import Job
from pilotage.store import Store
from pilotage.testing import NOW, job
from pilotage.testing.stores import FEDERATION, new_jobs, new_task


def jobs(task: int, count: int, first: int = 1) -> list[Job]:
    return [job(first + number, of=task) for number in range(count)]


def test_twice_as_many_are_read_as_went_and_one_of_what_is_stuck() -> None:
    headway = Headway()
    assert headway.most() == {}
    headway.note([*jobs(1, 100), *jobs(2, 100, 200), *jobs(3, 5, 400)], [1, 2, 3, *range(400, 405)])
    assert headway.most() == {1: 8, 2: 1}
    headway.note([*jobs(1, 8), *jobs(2, 1, 200)], range(1, 9))
    assert headway.most() == {1: 16, 2: 1}
    headway.note(jobs(2, 1, 200), [200])
    assert headway.most() == {1: 16, 2: 2}


def test_now_and_then_all_is_read() -> None:
    headway = Headway()
    headway.note(jobs(1, 100), [])
    seen = [dict(headway.most()) for _ in range(WHOLE_AFTER)]
    assert seen[0] == {1: 1}
    assert seen[-1] == {}


def test_a_snapshot_has_no_more_of_a_task_than_was_asked_for(store: Store) -> None:
    store.save_federation(FEDERATION, "test")
    first, second = new_task(store), new_task(store)
    oldest, others = new_jobs(store, first, 6), new_jobs(store, second, 6)
    world = store.snapshots.for_broker(NOW, 1, limit=8, most={first: 1})
    assert [one.id for one in world.jobs] == [oldest[0], *others[:4]]
    whole = store.snapshots.for_broker(NOW, 1, limit=8)
    assert [one.id for one in whole.jobs] == [*oldest[:4], *others[:4]]
