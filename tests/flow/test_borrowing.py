"""Jobs that pilots of other queues take: each once, from where it was seen, reading from afar (E1 to E3)."""

import json
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import func, select

from pilotage.explain.layout import TextForm
from pilotage.flow.calls.work.changes import Wanted, set_fields
from pilotage.flow.matching import borrowing
from pilotage.flow.matching.matching import Matching
from pilotage.flow.planning import plan
from pilotage.model.documents.decision import Create, Decision
from pilotage.model.records.advertisements import NewAdvertisement
from pilotage.model.records.federation import BindingConstants, ComputingElement, Link
from pilotage.model.records.matching import BorrowableAttempt, BorrowRequest, MatchRequest
from pilotage.model.records.states import JobState, TransferState
from pilotage.model.records.work import InputFile, Replica
from pilotage.policies.pilots.borrowing import claims
from pilotage.server.api.work.explanations import explained_job
from pilotage.store import Pass, Store
from pilotage.store.files import known_inputs
from pilotage.store.jobs import borrowings
from pilotage.store.jobs.borrowings import candidates, for_queue
from pilotage.store.worlds.fields import parts_of
from tests.reading import world_of

from .house import House, attempts, federation

J = JobState
ELASTIC = BindingConstants(default="elastic", least_gain=60)


def declare(house: House, binding: BindingConstants = ELASTIC, slots: int = 1000, **other: Any) -> None:
    """North's queue, which all jobs prefer, and south's beside it, from where north's disk can be read."""
    known = federation(house.place)
    (north,) = known.queues
    element = ComputingElement(kind="fake", pilot_slots=4)
    values = {"name": "south-queue", "site": "south", "storage": "south-disk", "num_slots": 0}
    south = replace(north, **{**values, "computing_element": element, **other})
    house.store.save_federation(
        replace(
            known,
            name="flow",
            queues=(replace(north, num_slots=slots), south),
            storages=tuple(replace(storage, remote_reads=True) for storage in known.storages),
            links=(Link(source="north", destination="south", throughput_1h=10),),
            binding=binding,
        ),
        "test",
    )


def waiting(house: House, jobs: int = 3, minutes: float = 10, **spec: Any) -> int:
    """A task whose jobs wait at north's queue for so long, each of a run of an hour."""
    task = house.task(**{"jobs": jobs, "walltime": 3600, **spec})
    house.take("broker")
    found = house.store.queries.jobs(task, None, 100)
    assert {job.queue for job in found} == {"north-queue"}
    house.now += 60 * minutes
    return task


def queues(house: House, task: int) -> dict[tuple[str, JobState], int]:
    found: dict[tuple[str, JobState], int] = {}
    for job in house.store.queries.jobs(task, None, 100):
        found[job.queue, job.state] = found.get((job.queue, job.state), 0) + 1
    return found


def south(house: House) -> int:
    return house.pilot(queue="south-queue")


def kept(store: Store) -> int:
    query = select(func.count()).select_from(candidates)
    return store.database.read(lambda connection: connection.execute(query).scalar_one())


def noted_looks(house: House, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The s from now at which jobs to borrow are looked for: more are added as that happens."""
    looks: list[float] = []
    begin, read = house.now, house.store.snapshots.read

    def look(now: Pass, reads: Any) -> Any:
        if any("borrowings" in one.fields for one in parts_of(reads)):
            looks.append(now.time - begin)
        return read(now, reads)

    monkeypatch.setattr(house.store.snapshots, "read", look)
    return looks


def test_e2_a_pilot_borrows_from_the_tail_what_it_ends_sooner(house: House) -> None:
    declare(house)
    task = waiting(house, 3, minutes=10)
    assert kept(house.store) == 2, "one choice, two queues, however many jobs"
    pilot = south(house)
    assert attempts(house.match(pilot, most=1)) == [(3, 1)]
    assert queues(house, task) == {("north-queue", J.ACTIVATED): 2, ("south-queue", J.SENT): 1}
    counted = {queue.name: dict(queue.jobs) for queue in house.store.queries.queues()}
    assert counted == {"north-queue": {J.ACTIVATED: 2}, "south-queue": {J.SENT: 1}}
    last = house.store.queries.events("job", 3)[-1]
    assert (last.source, last.target, last.actor) == (J.ACTIVATED, J.SENT, f"pilot:{pilot}")
    assert "ends it sooner" in last.cause
    assert house.store.queries.pilot(pilot).matched == 1  # type: ignore[union-attr]
    # What was left beside the counters is added to them: nothing is lost, nothing counts twice.
    house.task(jobs=1)
    counted = {queue.name: dict(queue.jobs) for queue in house.store.queries.queues()}
    assert counted == {"north-queue": {J.ACTIVATED: 2}, "south-queue": {J.SENT: 1}}
    assert house.report(pilot, "done", [(3, 1)]) == []
    assert house.states(task) == {J.ACTIVATED: 2, J.FINISHED: 1}


def test_e2_a_job_that_gains_too_little_stays(house: House) -> None:
    declare(house)
    waiting(house, 3, minutes=6)
    assert attempts(house.match(south(house))) == [], "360 s are gained, 60 s and a tenth of an hour needed"


def test_e2_a_pilot_that_found_nothing_finds_what_came_a_second_later(house: House) -> None:
    declare(house, BindingConstants(default="elastic", least_gain=1, run_part=0))
    waiting(house, 1, minutes=10)
    pilot = south(house)
    house.report(pilot, "done", attempts(house.match(pilot)))
    assert kept(house.store) == 2, "candidates of a choice stand for a while after its last job"
    assert attempts(house.match(pilot)) == []
    waiting(house, 2, minutes=0)
    house.now += 1.5
    assert len(attempts(house.match(pilot))) == 2


def test_e2_a_line_that_gains_too_little_is_looked_at_again_soon(house: House) -> None:
    declare(house)
    waiting(house, 3, minutes=0)
    pilot, other = south(house), house.pilot()
    assert attempts(house.match(pilot)) == [], "nothing has waited yet"
    house.report(other, "running", attempts(house.match(other, most=1)))
    house.now += 1.5
    assert attempts(house.match(pilot)) == [(3, 1)], "the last of those behind one that runs for an hour"


def test_e2_a_line_that_stays_is_looked_at_less_and_less(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(house, BindingConstants(default="elastic", least_gain=600))
    waiting(house, 1, minutes=0)
    pilot, looks = south(house), noted_looks(house, monkeypatch)
    for _ in range(60):
        assert attempts(house.match(pilot)) == []
        house.now += 0.5
    assert looks == [0, 1.5, 4, 8.5, 14, 19.5, 25]


def test_e2_looks_in_vain_are_bounded_for_all_queues_together_until_a_new_choice_names_one(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(borrowing, "LOOKS", 0.04)  # a look in 50 s for the two queues that choices name
    declare(house, BindingConstants(default="elastic", least_gain=600))
    waiting(house, 1, minutes=0)
    pilot, looks = south(house), noted_looks(house, monkeypatch)

    def ask(times: int) -> None:
        for _ in range(times):
            assert attempts(house.match(pilot)) == []
            house.now += 4

    ask(35)
    assert looks == [0, 4, 8, 16, 28, 48, 84, 136]
    waiting(house, 1, minutes=0)
    ask(3)
    assert looks[8:] == [144], "a new line is seen within 5 s"


def test_e2_looks_at_the_same_time_count_once(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    declare(house)
    waiting(house, 3, minutes=0)
    pilots = [south(house) for _ in range(4)]
    together, read = threading.Barrier(4), house.store.snapshots.read

    def look(now: Pass, reads: Any) -> Any:
        together.wait(60)
        return read(now, reads)

    monkeypatch.setattr(house.store.snapshots, "read", look)
    with ThreadPoolExecutor(4) as threads:
        assert [attempts(given) for given in threads.map(house.match, pilots)] == [[]] * 4
    looks = noted_looks(house, monkeypatch)
    house.now += 1.5
    together.abort()
    with pytest.raises(threading.BrokenBarrierError):  # the next look is due a second after the one before
        house.match(pilots[0])
    assert looks == [1.5]


def test_e2_what_was_refused_beside_what_was_given_is_offered_no_more(house: House) -> None:
    declare(house)
    waiting(house, 5, minutes=10)
    first, second = south(house), south(house)
    assert attempts(house.match(first, most=1)) == [(5, 1)]
    house.match(house.pilot(), most=3)  # north's own pilot takes 1 to 3
    commit = house.store.matches.commit
    asked: list[list[int]] = []

    def noted(decision: Decision, *bases: Any) -> Any:
        asked.extend(
            [attempt.borrowing.job for attempt in one.jobs]
            for one in decision.requests
            if isinstance(one, BorrowRequest)
        )
        return commit(decision, *bases)

    house.store.matches.commit = noted  # type: ignore[method-assign,assignment]
    assert attempts(house.match(second, most=3)) == [(4, 1)]
    assert asked == [[4, 3, 2, 1]], "those that were found gone are not asked for again"


def test_e3_where_inputs_lie_is_known_to_all_looks_of_a_second(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(house)
    file = InputFile(name="a.dat", size=100_000_000, replicas=("north-disk",))
    waiting(house, 1, inputs=(file,))
    reads: list[float] = []
    monkeypatch.setattr(known_inputs, "_read", _noted(known_inputs._read, lambda: reads.append(house.now)))

    def held(queue: str = "south-queue") -> set[str]:
        found = world_of(house.store, [for_queue(queue)], house.now, 1)
        assert [job.queue for job in found.jobs] == ["north-queue"]
        return {replica.storage for replica in found.replicas}

    begin = house.now
    assert held() == {"north-disk"}
    record = Create(records=(Replica(file="ligo:a.dat", storage="south-disk"),), cause="test")
    house.store.commit(Decision(step="test", time=house.now, seed=1, changes=(record,)), "test")
    house.now += known_inputs.INPUTS_KNOWN_FOR
    assert (held(), reads) == ({"north-disk"}, [begin])
    house.now += 0.1
    assert (held(), reads) == ({"north-disk", "south-disk"}, [begin, house.now])


def _noted(call: Callable[..., Any], note: Callable[[], None]) -> Callable[..., Any]:
    def noting(*given: Any) -> Any:
        note()
        return call(*given)

    return noting


def test_e1_what_is_bound_early_stays_and_a_task_may_say_otherwise(house: House) -> None:
    declare(house, BindingConstants(default="early"))
    waiting(house, 3, minutes=600)
    assert kept(house.store) == 0
    assert attempts(house.match(south(house))) == []
    task = waiting(house, 1, minutes=600, binding="elastic")
    ((job, _),) = attempts(house.match(south(house)))
    assert [one.id for one in house.store.queries.jobs(task, None, 2)] == [job]


def test_e1_jobs_are_borrowed_where_nothing_is_said(house: House) -> None:
    declare(house, BindingConstants())
    waiting(house, 3, minutes=600)
    assert attempts(house.match(south(house))) == [(3, 1), (2, 1), (1, 1)]


def test_e4_no_pilot_is_asked_for_elsewhere_where_it_could_not_read_the_input(house: House) -> None:
    declare(house, BindingConstants())
    known = house.store.federation()
    shut = tuple(replace(storage, remote_reads=False) for storage in known.storages)
    house.store.save_federation(replace(known, storages=shut), "test")
    file = InputFile(name="a.dat", size=100_000_000, replicas=("north-disk",))
    task = waiting(house, 1, minutes=600, inputs=(file,))
    assert kept(house.store) == 0
    world = house.store.snapshots.whole(house.now, 1)
    assert {one["queue"]: one["elsewhere"] for one in plan("provision", world).notes["task_queues"]} == {
        "north-queue": 0
    }
    assert attempts(house.match(south(house))) == []
    choices = house.store.queries.task_choices(task, 5)
    found = house.store.queries.job(1)
    assert found is not None
    told = explained_job(house.runtime, found, choices, TextForm(400)).lines
    assert any("no other queue's pilots borrow it from north-queue" in line for line in told)


def test_explain_says_that_a_job_which_was_said_to_be_bound_early_stays(house: House) -> None:
    declare(house)
    task = waiting(house, 1, minutes=600, binding="early")
    found = house.store.queries.job(1)
    assert found is not None
    told = explained_job(house.runtime, found, house.store.queries.task_choices(task, 5), TextForm(400)).lines
    assert "only north-queue's pilots may take it: its task, VO or brokerage binds it early" in told


def test_e1_late_jobs_wait_for_no_gain_and_go_after_those_that_are_borrowed(house: House) -> None:
    declare(house)
    late = waiting(house, 1, minutes=0, binding="late")
    elastic = waiting(house, 1, minutes=10)
    pilot = south(house)
    first, second = (attempts(house.match(pilot, most=1)) for _ in range(2))
    assert (first, second) == ([(2, 1)], [(1, 1)])
    assert queues(house, elastic) == queues(house, late) == {("south-queue", J.SENT): 1}


def test_p13_what_waits_at_its_own_queue_goes_first(house: House) -> None:
    declare(house)
    waiting(house, 2, minutes=100)
    own = house.task(queues=("south-queue",), walltime=3600)
    house.take("broker")
    pilot = south(house)
    assert [attempts(house.match(pilot, most=1)) for _ in range(2)] == [[(3, 1)], [(2, 1)]]
    assert queues(house, own) == {("south-queue", J.SENT): 1}


@pytest.mark.parametrize(
    ("spec", "offered"),
    [({"gpus": 1}, {"gpus": 1}), ({"ram": 2000}, {"memory": 2000})],
    ids=["GPUs", "memory"],
)
def test_p13_what_its_own_queue_s_job_uses_up_a_pilot_does_not_offer_to_others(
    house: House, spec: dict[str, Any], offered: dict[str, Any]
) -> None:
    declare(house)
    known = house.store.federation()
    with_gpus = tuple(replace(queue, gpus=1) for queue in known.queues)
    house.store.save_federation(replace(known, queues=with_gpus), "test")
    waiting(house, 2, minutes=100, **spec)
    own = house.task(queues=("south-queue",), walltime=3600, **spec)
    house.take("broker")
    (request,) = requests(house, [south(house)], "south-queue")
    free = replace(request, cores=8, max_jobs=8, **offered)
    assert [job.task for job in house.runtime.matching.match(free, house.now, 1).jobs] == [own]


def test_b2_named_queues_and_p7_private_pilots_hold(house: House) -> None:
    declare(house)
    waiting(house, 1, minutes=100, queues=("north-queue",))
    waiting(house, 1, minutes=100, private_pilots=True)
    assert attempts(house.match(south(house))) == []


def test_e3_inputs_are_read_from_afar_and_transfers_that_nobody_waits_for_are_cancelled(house: House) -> None:
    declare(house)
    # To read it there takes longer than the run, so it is brought.
    file = InputFile(name="a.dat", size=100_000_000_000, replicas=("south-disk",))
    known = house.store.federation()
    back = Link(source="south", destination="north", throughput_1h=10)
    house.store.save_federation(replace(known, links=(*known.links, back)), "test")
    task = house.task(inputs=(file,), walltime=3600, queues=("north-queue", "south-queue"))
    house.take("broker")
    assert queues(house, task) == {("north-queue", J.ASSIGNED): 1}
    house.now += 1200
    answer = house.match(south(house))
    assert attempts(answer) == [(1, 1)], "it waits for its input there, which lies here"
    (work,) = answer.works
    assert work.jobs[0].inputs[0].source == ""
    house.take("stage")
    (transfer,) = house.store.queries.transfers(None, 10)
    assert transfer.state is TransferState.CANCELLED


def read_afar(house: House, size: int, walltime: float) -> list[Any]:
    declare(house)
    file = InputFile(name="a.dat", size=size, replicas=("north-disk",))
    waiting(house, minutes=1000, jobs=1, inputs=(file,), walltime=walltime)
    return list(house.match(south(house)).works)


def test_e3_a_borrowed_job_is_told_where_its_input_lies(house: House) -> None:
    (work,) = read_afar(house, 1_000_000_000, walltime=3600)
    assert work.jobs[0].inputs[0].source == "north-disk"
    assert work.sources["north-disk"].url == f"file://{house.place}/north"


def test_e3_no_read_takes_longer_than_the_run(house: House) -> None:
    assert read_afar(house, 1_000_000_000, walltime=60) == []


@pytest.mark.parametrize("in_turns", [False, True])
def test_e3_the_jobs_of_one_look_hold_no_more_than_their_link_carries(house: House, in_turns: bool) -> None:
    """Of two servers the second looks at what the first has left, or each finds that the other was faster."""
    declare(house)
    file = InputFile(name="a.dat", size=1_000_000_000, replicas=("north-disk",))
    for _ in range(48):
        house.task(jobs=1, walltime=3600, inputs=(file,))
    house.take("broker")
    house.now += 60_000
    asking = [
        replace(one, cores=4, max_jobs=4)
        for one in requests(house, [south(house) for _ in range(6)], "south-queue")
    ]
    servers = [Matching(house.store), Matching(house.store)]
    order = servers * len(asking) if in_turns else sorted(servers * len(asking), key=servers.index)
    given = [
        job.id
        for number, (server, one) in enumerate(zip(order, asking * 2, strict=True))
        for job in server.match(one, house.now, number).jobs
    ]
    assert len(given) in (35, 36), "36 of 1 GB in an hour hold 10 MB/s, however many slots are free"


def requests(house: House, pilots: Iterable[int], queue: str) -> list[MatchRequest]:
    found = [house.store.queries.pilot(pilot) for pilot in pilots]
    return [
        MatchRequest(
            pilot=one.id, queue=queue, kind=one.kind, owner=one.owner,
            cores=1, memory=0, walltime=86400, max_jobs=1,
        )
        for one in found if one is not None
    ]  # fmt: skip


def test_e2_pilots_of_both_queues_and_two_servers_give_every_attempt_once(house: House) -> None:
    declare(house)
    task = waiting(house, 40, minutes=1000)
    asking = [
        *requests(house, [south(house) for _ in range(3)], "south-queue"),
        *requests(house, [house.pilot() for _ in range(3)], "north-queue"),
    ]
    servers = [Matching(house.store), Matching(house.store)]

    def ask(number: int) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        while jobs := servers[number % 2].match(asking[number], house.now, number).jobs:
            found += [(job.id, job.attempt) for job in jobs]
        return found

    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(ask, range(6)))
    given = [attempt for each in found for attempt in each]
    assert sorted(given) == [(job, 1) for job in range(1, 41)]
    counted = {queue.name: queue.jobs[J.SENT] for queue in house.store.queries.queues() if queue.jobs}
    assert sum(counted.values()) == 40
    for name, parts in (("south-queue", found[:3]), ("north-queue", found[3:])):
        assert queues(house, task).get((name, J.SENT), 0) == sum(map(len, parts)) == counted.get(name, 0)


def test_e2_a_job_that_somebody_else_took_is_not_waited_for(house: House) -> None:
    declare(house)
    waiting(house, 5, minutes=1000)
    first, second = Matching(house.store), Matching(house.store)
    one, other = requests(house, [south(house), south(house)], "south-queue")
    (last,) = first.match(one, house.now, 1).jobs
    (before,) = second.match(other, house.now, 1).jobs
    assert (last.id, before.id) == (5, 4)
    # The first server still believes that this one waits, and takes the next instead.
    (third,) = first.match(one, house.now, 2).jobs
    assert third.id == 3


@pytest.mark.parametrize("fields", [{"ram": 3000}, {"priority": 600}], ids=["ram", "priority"])
def test_e2_a_job_that_somebody_changed_meanwhile_is_not_taken_as_it_was(
    house: House, fields: dict[str, int]
) -> None:
    """It waits at the same queue in the same attempt and state again, and its requirements may be others."""
    declare(house)
    task = waiting(house, 3, minutes=1000)
    matching = Matching(house.store)
    one, other = requests(house, [south(house), south(house)], "south-queue")
    (taken,) = matching.match(one, house.now, 1).jobs
    changed = set_fields(house.runtime, task, Wanted(fields=fields), "user:alice")
    house.take("broker")
    assert queues(house, task)["north-queue", J.ACTIVATED] == sum(changed.values()) == 2
    assert matching.match(other, house.now, 2).jobs == ()
    assert queues(house, task)["north-queue", J.ACTIVATED] == 2
    house.now += 6000
    (again,) = matching.match(other, house.now, 3).jobs
    assert again.id != taken.id
    assert json.loads(again.changes) == fields


def test_e2_a_server_that_is_far_behind_others_finds_what_they_left(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(house)
    waiting(house, 60, minutes=1000)
    behind, ahead = Matching(house.store), Matching(house.store)
    one, other = requests(house, [south(house), south(house)], "south-queue")
    assert [job.id for job in behind.match(one, house.now, 1).jobs] == [60]
    taken = [job.id for number in range(30) for job in ahead.match(other, house.now, number).jobs]
    assert taken == list(range(59, 29, -1))
    # It does so by what it knows already: to read hundreds of offers takes as long as many matches.
    monkeypatch.delattr("pilotage.store.worlds.snapshots.Snapshots.read")
    assert [job.id for job in behind.match(one, house.now, 2).jobs] == [29]


def test_m8_a_site_that_told_its_counts_takes_no_more_than_it_has_room_for(house: House) -> None:
    declare(house)
    waiting(house, 3, minutes=1000)
    pilot = south(house)
    ad = NewAdvertisement(
        site="south", source="pushed", attributes={"MaxJobs": 12, "CurrentJobs": 10}, replaces=None
    )
    change = Create(records=(ad,), cause="told")
    house.store.commit(Decision(step="t", time=house.now, seed=1, changes=(change,)), "test")
    assert sorted(attempts(house.match(pilot))) == [(2, 1), (3, 1)]
    assert attempts(house.match(south(house))) == []


def full_site(house: House, pilots: int, current: int, most: int = 5, **told: int) -> list[int]:
    """Pilots of a slot each that run in the south, which tells what is there, and the most that may be."""
    element = ComputingElement(kind="fake", max_pilots=most)
    declare(house, computing_element=element)
    waiting(house, 30, minutes=1000)
    found = [house.pilot(queue="south-queue", site="south") for _ in range(pilots)]
    for pilot in found:
        house.match(pilot, most=0)
    counts = {"MaxJobs": most, "CurrentJobs": current, **told}
    ad = NewAdvertisement(site="south", source="pushed", attributes=counts, replaces=None)
    change = Create(records=(ad,), cause="told")
    house.store.commit(Decision(step="t", time=house.now, seed=1, changes=(change,)), "test")
    house.now += 6
    return found


def test_m8_a_site_that_its_own_pilots_fill_goes_on_borrowing(house: House) -> None:
    pilots = full_site(house, pilots=5, current=5)
    given = 0
    for _ in range(3):
        held = {pilot: attempts(house.match(pilot, most=1)) for pilot in pilots}
        assert [len(jobs) for jobs in held.values()] == [1] * 5, "a job in a pilot counts once"
        for pilot, jobs in held.items():
            house.report(pilot, "done", jobs)
            given += len(jobs)
        house.now += 6
    assert given == 15


def test_m5_a_borrowed_job_counts_at_the_site_that_runs_it(house: House) -> None:
    """Pilots of the south take what waits in the north, and no more than the limit of the south."""
    declare(house)
    known = house.store.federation()
    sites = tuple(replace(site, max_jobs=4 if site.name == "south" else None) for site in known.sites)
    house.store.save_federation(replace(known, sites=sites), "test")
    house.take("advertise")
    task = waiting(house, 12, minutes=1000)
    pilots = [house.pilot(queue="south-queue", site="south", slots=4) for _ in range(3)]
    held = [attempts(house.match(pilot, most=3)) for pilot in pilots]
    assert [len(jobs) for jobs in held] == [3, 1, 0]
    house.report(pilots[0], "running", held[0])
    house.report(pilots[0], "done", held[0][:2])
    for name in ("stage", "finish"):
        house.take(name)
    house.now += 6
    south_ = {state: count for (queue, state), count in queues(house, task).items() if queue != "north-queue"}
    assert south_ == {J.FINISHED: 2, J.RUNNING: 1, J.SENT: 1}
    assert sum(len(attempts(house.match(pilot, most=3))) for pilot in pilots) == 2


@pytest.mark.parametrize(
    "told",
    [
        {"MaxSubmittingJobs": 2, "CurrentSubmittingJobs": 5},
        {"MaxPendingJobs": 2, "PendingJobs": 5},
    ],
    ids=["submitting", "pending"],
)
def test_m8_where_too_many_wait_at_a_site_pilots_that_run_there_go_on_borrowing(
    house: House, told: dict[str, int]
) -> None:
    pilots = full_site(house, pilots=5, current=5, **told)
    assert [len(attempts(house.match(pilot, most=1))) for pilot in pilots] == [1] * 5


def test_m8_what_others_have_at_a_site_is_not_taken_by_pilots_that_count_already(house: House) -> None:
    pilots = full_site(house, pilots=4, current=7)
    given = [len(attempts(house.match(pilot, most=1))) for pilot in pilots]
    assert sum(given) == 2, "three of the seven are others': two of five are left for ours"


def borrowed(decision: Decision) -> list[BorrowableAttempt]:
    """The jobs that pilots of a decision take first of other queues."""
    requests = [one for one in decision.requests if isinstance(one, BorrowRequest)]
    return [one for request in requests for one in request.jobs[: request.most]]


def test_m8_the_plan_claims_what_the_match_does(house: House) -> None:
    full_site(house, pilots=5, current=5)
    world = house.store.snapshots.whole(house.now, 1)
    (queue,) = [one for one in world.federation.queues if one.name == "south-queue"]
    (claim, _), _ = claims(world, queue)
    assert claim.limit == 5


def test_m8_the_plan_gives_a_site_no_more_than_the_match_does(house: House) -> None:
    pilots = full_site(house, pilots=4, current=7)
    decision = plan("match", house.store.snapshots.whole(house.now, 1))
    planned = [one.borrowing.job for one in borrowed(decision)]
    taken = [job for pilot in pilots for job, _ in attempts(house.match(pilot, most=1))]
    assert (planned, len(planned)) == (taken, 2)


def test_the_same_is_decided_from_a_saved_world(house: House) -> None:
    declare(house)
    waiting(house, 3, minutes=1000)
    pilot = house.pilot(queue="south-queue")
    house.match(pilot, most=0)
    world = house.store.snapshots.whole(house.now, 1)
    decision = plan("match", world)
    planned = {one.borrowing.job: one.borrowing.preferred for one in borrowed(decision)}
    taken = dict.fromkeys((job for job, _ in attempts(house.match(pilot, most=4))), "north-queue")
    assert planned == taken == {1: "north-queue", 2: "north-queue", 3: "north-queue"}
    house.store.commit(decision, "test")
    assert kept(house.store) == 2


def test_candidates_go_when_nobody_waits_for_their_choice(house: House) -> None:
    declare(house)
    waiting(house, 1)
    assert attempts(house.match(house.pilot())) == [(1, 1)]
    waiting(house, 1)
    assert kept(house.store) == 2


def test_candidates_are_kept_of_the_newest_choices_and_the_best_of_each(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(house)
    monkeypatch.setattr(borrowings, "MOST_CHOICES", 1)
    for _ in range(2):
        house.task(walltime=3600)
    house.take("broker")
    house.now += 60_000
    assert kept(house.store) == 2
    pilot = south(house)
    assert attempts(house.match(pilot)) == [(2, 1)], "the other stays where it is"
    monkeypatch.setattr(borrowings, "MOST_QUEUES", 0)
    waiting(house, 1, minutes=1000)
    assert attempts(house.match(pilot)) == []


@pytest.mark.parametrize("wanted", ["elastic", "late"])
def test_what_failed_elsewhere_is_brokered_anew(house: House, wanted: str) -> None:
    declare(house)
    task = waiting(house, 1, minutes=1000, binding=wanted)
    pilot = south(house)
    house.report(pilot, "failed", attempts(house.match(pilot)))
    house.take("broker")
    assert queues(house, task) == {("north-queue", J.ACTIVATED): 1}
    assert house.store.queries.job(1).attempt == 2  # type: ignore[union-attr]


def lines(house: House, job: int) -> list[str]:
    found = house.store.queries.job(job)
    assert found is not None
    return explained_job(house.runtime, found, (), TextForm(400)).lines


def test_explain_says_who_took_a_job_and_why_and_who_left_it(house: House) -> None:
    declare(house)
    waiting(house, 2, minutes=6)
    pilot = south(house)
    assert attempts(house.match(pilot)) == []
    assert "south-queue's pilot left it: gain 360 s, 420 s needed" in lines(house, 1)
    house.now += 3600
    assert attempts(house.match(pilot, most=1)) == [(2, 1)]
    (told,) = (line for line in lines(house, 2) if "preferred" in line)
    assert told == (
        "attempt 1 preferred north-queue; taken by south-queue at 09:06:00: ends 10:06:00 there, "
        "11:12:00 at north-queue, where 1 are ahead, none of its share runs, "
        "and it waited, or nothing started, for 3960 s"
    )
    assert any("takes it in its turn: gain 3960 s" in line for line in lines(house, 1))


def test_explain_names_the_brake_and_what_is_bound_to_none(house: House) -> None:
    assert read_afar(house, 1_000_000_000, walltime=60) == []
    told = "south-queue's pilot left it: reading takes 100 s, and the job 60 s"
    assert told in lines(house, 1)
    waiting(house, 1, minutes=0, binding="late")
    assert any(
        "bound to none: the next free slot at north-queue or south-queue" in x for x in lines(house, 2)
    )
