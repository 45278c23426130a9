"""Brokered jobs ask for their inputs, from the best source."""

from pilotage.model.decision import Claim, Decision, Move
from pilotage.model.federation import Link, Storage
from pilotage.model.sources import Sources
from pilotage.model.states import JobState as J
from pilotage.model.work import Job, NewTransfer, Task
from pilotage.model.world import World
from pilotage.staging.requests import with_downloads

from .worlds import NOW, federation, file, job, replica, task, world

CLAIM = Claim(counter="jobs_by_queue", key=("QE", None), states=(J.ASSIGNED,), limit=20)


def brokered(*jobs: Job) -> Decision:
    move = Move(
        kind="job",
        ids=tuple(one.id for one in jobs),
        source=J.DEFINED,
        target=J.ASSIGNED,
        cause="brokered",
        changes={"queue": "QE"},
        attempts=tuple(one.attempt for one in jobs),
        claims=(CLAIM,),
        choice=0,
    )
    return Decision(step="broker", time=NOW, seed=7, changes=(move,))


def defined(*jobs: Job, tasks: tuple[Task, ...] = (), replicas: tuple[tuple[str, str], ...] = ()) -> World:
    fed = federation(base_priorities={"atlas": 80})
    names = sorted({name for one in jobs for name in one.inputs})
    return world(
        fed,
        jobs=jobs,
        tasks=tasks or (task(transfer_priority=80),),
        files=[file(name) for name in names],
        replicas=[replica(*pair) for pair in replicas],
    )


def test_d1_d2_missing_inputs_become_downloads_of_the_submitters_share_and_priority() -> None:
    one = job(1, J.DEFINED, inputs=("a", "b", "c"), queue="")
    seen = defined(one, replicas=(("a", "west"), ("b", "east"), ("b", "west"), ("c", "north-a")))
    (move,) = with_downloads(seen, brokered(one)).moves
    expected = [
        NewTransfer(
            file=name,
            source=source,
            destination="east",
            direction="download",
            share="atlas-download",
            priority=64,
        )
        for name, source in (("a", "west"), ("c", "north-a"))
    ]
    assert list(move.creates[1]) == expected
    assert (move.claims, move.choice, move.attempts) == ((CLAIM,), 0, (1,))


def test_every_job_that_reads_a_file_carries_its_transfer_for_any_may_be_handed_back() -> None:
    jobs = [job(number, J.DEFINED, inputs=("a",), queue="") for number in (1, 2)]
    (move,) = with_downloads(defined(*jobs, replicas=(("a", "west"),)), brokered(*jobs)).moves
    assert move.creates[1] == move.creates[2]
    assert len(move.creates[1]) == 1


def test_a_job_with_an_input_that_nobody_can_give_waits_and_says_which() -> None:
    jobs = [job(1, J.DEFINED, inputs=("a",), queue=""), job(2, J.DEFINED, inputs=("a", "gone"), queue="")]
    placed, pending = with_downloads(defined(*jobs, replicas=(("a", "west"),)), brokered(*jobs)).moves
    assert (placed.ids, placed.attempts, placed.target) == ((1,), (1,), J.ASSIGNED)
    assert set(placed.creates) == {1}
    assert (pending.ids, pending.attempts, pending.source, pending.target) == (
        (2,),
        (1,),
        J.DEFINED,
        J.PENDING,
    )
    assert pending.changes["wake_at"] == NOW + 3600
    assert "gone" in str(pending.changes["error"])


def test_other_changes_of_the_decision_are_left_as_they_are() -> None:
    activated = Move(
        kind="job", ids=(1,), source=J.DEFINED, target=J.ACTIVATED, cause="", changes={"queue": "QE"}
    )
    decision = Decision(step="broker", time=NOW, seed=7, changes=(activated,))
    assert with_downloads(defined(), decision) == decision


def test_the_best_source_is_disk_then_near_then_measured_then_close() -> None:
    storages = [
        Storage(name="tape", site="east", url="memory://tape", tape=True),
        Storage(name="east-2", site="east", url="memory://east-2"),
        Storage(name="north", site="north", url="memory://north"),
        Storage(name="west", site="west", url="memory://west"),
        Storage(name="bad", site="west", url="memory://bad", blacklisted=("read_wan",)),
        Storage(name="east", site="east", url="memory://east"),
    ]
    links = [
        Link(source="west", destination="east", throughput_1w=5.0),
        Link(source="north", destination="east"),
    ]
    sources = Sources(federation(links, storages))
    assert sources.ranked([storage.name for storage in storages], "east") == (
        "east-2",
        "west",
        "north",
        "tape",
    )


def test_b5_a_blocked_link_or_an_unknown_storage_is_no_source() -> None:
    links = [Link(source="west", destination="east", closeness=-1)]
    assert Sources(federation(links)).ranked(["west", "nowhere"], "east") == ()


def test_an_unmeasured_link_comes_after_a_slow_one_that_is_known() -> None:
    links = [
        Link(source="north", destination="east", closeness=0),
        Link(source="west", destination="east", closeness=10, throughput_1h=0.1),
    ]
    assert Sources(federation(links)).ranked(["north-a", "west"], "east") == ("west", "north-a")


def test_d2_without_declared_shares_all_downloads_are_of_the_default_share() -> None:
    one = job(1, J.DEFINED, inputs=("a",), queue="")
    seen = world(tasks=[task()], jobs=[one], files=[file("a")], replicas=[replica("a", "west")])
    (move,) = with_downloads(seen, brokered(one)).moves
    (created,) = move.creates[1]
    assert isinstance(created, NewTransfer)
    assert (created.share, created.priority) == ("_default-download", 25)
