"""A pass of the broker reads no more of what only waits than may find room."""

from pilotage.flow.headway import STUCK_AFTER, WHOLE_AFTER, Headway
from pilotage.model.work import Job
from pilotage.store import Store
from pilotage.testing import NOW, job
from pilotage.testing.stores import FEDERATION, new_jobs, new_task

PLUGIN = "production"


def jobs(task: int, count: int, first: int = 1) -> list[Job]:
    return [job(first + number, of=task) for number in range(count)]


def test_twice_as_many_are_read_as_went_and_one_of_what_is_stuck() -> None:
    headway = Headway()
    assert headway.most() == {}
    headway.note(PLUGIN, [*jobs(1, 100), *jobs(2, 100, 200), *jobs(3, 5, 400)], [1, 2, 3, *range(400, 405)])
    assert headway.most() == {1: 8, 2: 0}
    headway.note(PLUGIN, jobs(1, 8), range(1, 9))
    assert headway.most() == {1: 16, 2: 0}
    headway.note(PLUGIN, jobs(1, 16), range(1, 17))
    assert headway.most() == {1: 32, 2: 0}
    headway.note(PLUGIN, [*jobs(1, 32), *jobs(2, 1, 200)], [*range(1, 33), 200])
    assert headway.most() == {1: 64, 2: 2}


def test_what_found_no_room_rests_while_others_go_and_is_looked_at_again_when_none_goes() -> None:
    headway = Headway()
    flowing, stuck = jobs(1, 2), jobs(2, 2, 200)
    assert headway.note(PLUGIN, [*flowing, *stuck], [1])
    assert [headway.most()[2] for _ in range(STUCK_AFTER)] == [*([0] * (STUCK_AFTER - 1)), 1]
    assert headway.note(PLUGIN, [*flowing, *stuck], [1])
    assert headway.most()[2] == 0
    assert not headway.note(PLUGIN, flowing, [])
    assert headway.most() == {}
    assert headway.note(PLUGIN, [*flowing, *stuck], [])
    assert headway.most() == {1: 1, 2: 1}


def test_all_is_looked_at_anew_where_much_less_goes_than_before() -> None:
    headway = Headway()
    headway.note(PLUGIN, [*jobs(1, 100), *jobs(2, 100, 200)], range(1, 101))
    headway.note("another", jobs(3, 2, 400), [400])
    assert headway.most()[2] == 0
    headway.note(PLUGIN, jobs(1, 100), range(1, 50))
    assert headway.most() == {}


def test_now_and_then_all_is_read() -> None:
    headway = Headway()
    headway.note(PLUGIN, jobs(1, 100), [])
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


def test_a_snapshot_leaves_out_what_rests_unless_nothing_else_waits(store: Store) -> None:
    store.save_federation(FEDERATION, "test")
    first, second = new_task(store), new_task(store)
    oldest, others = new_jobs(store, first, 2), new_jobs(store, second, 2)
    world = store.snapshots.for_broker(NOW, 1, limit=8, most={first: 0})
    assert [one.id for one in world.jobs] == others
    world = store.snapshots.for_broker(NOW, 1, limit=8, most={first: 0, second: 0})
    assert [one.id for one in world.jobs] == [oldest[0], others[0]]
