"""Each job knows which one of its task it is: it has one index, which its texts and variables name."""

from collections.abc import Iterable
from pathlib import Path
from threading import Barrier, Thread
from typing import Literal

import pytest

from pilotage.agent.wire import JobOrder, MatchAnswer, Work
from pilotage.flow.calls.pilots.match import specification
from pilotage.flow.calls.work import retry
from pilotage.flow.calls.work.changes import Wanted, set_fields
from pilotage.flow.runtime import Runtime
from pilotage.flow.step import take
from pilotage.flow.steps import step
from pilotage.model.documents.world import Output, Report
from pilotage.model.records.requirements import Requirements
from pilotage.store import JobView, Store

from .house import House, attempts, meanwhile

COMMAND = ("run", "{index}", "--seed={seed}", "--skip={first_event}")


def jobs(house: House, task: int) -> list[JobView]:
    return house.store.queries.jobs(task, None, 10_000)


def orders(answer: MatchAnswer) -> list[tuple[Work, JobOrder]]:
    return sorted(((work, one) for work in answer.works for one in work.jobs), key=lambda pair: pair[1].job)


def told(answer: MatchAnswer, name: str) -> list[str | None]:
    return [order.environment.get(name) for _, order in orders(answer)]


def report(
    house: House, pilot: int, state: Literal["done", "failed"], pairs: Iterable[tuple[int, int]], *names: str
) -> None:
    made = tuple(Output(name=name, size=1, checksum="") for name in names)
    house.tell(pilot, *(Report(job=j, attempt=a, state=state, outputs=made, error="") for j, a in pairs))


def test_each_job_is_told_its_index_and_what_follows_from_it(house: House) -> None:
    task = house.task(jobs=3, events_per_job=50, seed=7, command=COMMAND, environment={"N": "n-{index}"})
    house.take("broker")
    found = orders(house.match(house.pilot()))
    assert [job.index for job in jobs(house, task)] == [0, 1, 2]
    for index, (work, order) in enumerate(found):
        assert work.command == ("run", str(index), f"--seed={7 + index}", f"--skip={50 * index}")
        assert work.environment["N"] == f"n-{index}"
        assert order.environment == {
            "PILOTAGE_INDEX": str(index),
            "PILOTAGE_JOBS": "3",
            "PILOTAGE_SEED": str(7 + index),
            "PILOTAGE_FIRST_EVENT": str(50 * index),
        }


def test_seeds_differ_between_tasks_and_stay_within_what_generators_take(house: House) -> None:
    for _ in range(2):
        house.task(jobs=3)
    house.take("broker")
    seeds = [int(seed or -1) for seed in told(house.match(house.pilot()), "PILOTAGE_SEED")]
    assert len(set(seeds)) == 6
    assert all(0 < seed <= 900_000_000 for seed in seeds)


@pytest.mark.parametrize(
    "text",
    [
        "{print $1}",
        "${index}",
        "{{index}}",
        "${VAR:-{x}}",
        "{}",
        '{"a": {"b": 1}}',
        "f'{name}'",
        "{ echo; }",
        "{index",
        "{0}",
        "{index:03d}",
        "}{",
    ],
)
def test_braces_of_other_languages_stay_as_they_are(house: House, text: str) -> None:
    house.task(command=("sh", "-c", text), environment={"A": text})
    house.take("broker")
    ((work, _),) = orders(house.match(house.pilot()))
    assert (work.command, work.environment["A"]) == (("sh", "-c", text), text)


def test_jobs_that_name_no_index_share_their_work(house: House) -> None:
    house.task(jobs=5, command=("run",))
    house.take("broker")
    assert [len(work.jobs) for work in house.match(house.pilot()).works] == [5]


def test_outputs_named_by_index_are_expected_and_missed_by_these_names(house: House) -> None:
    task = house.task(jobs=2, command=("run",), outputs=("part-{index}.txt",), max_attempts=1)
    house.take("broker")
    pilot = house.pilot()
    answer = house.match(pilot)
    assert [work.outputs for work, _ in orders(answer)] == [("part-0.txt",), ("part-1.txt",)]
    first, second = attempts(answer)
    report(house, pilot, "done", [first], "part-0.txt")
    report(house, pilot, "done", [second], "part-0.txt")
    good, bad = jobs(house, task)
    assert (good.state, bad.error) == ("holding", "output part-1.txt missing")
    assert [file.name.rpartition("/")[2] for file in house.store.queries.outputs(task)] == ["part-0.txt"]


def test_a_retried_job_keeps_its_index_and_seed(house: House) -> None:
    task = house.task(jobs=3, command=("run",), max_attempts=1)
    house.take("broker")
    pilot = house.pilot()
    before = house.match(pilot)
    report(house, pilot, "failed", attempts(before))
    house.take("finish")
    retry.retry(house.runtime, task, "user:alice")
    house.take("broker")
    again = house.match(house.pilot())
    for name in ("PILOTAGE_INDEX", "PILOTAGE_SEED"):
        assert told(again, name) == told(before, name)
    assert all(attempt > 1 for _, attempt in attempts(again))


def test_the_number_of_jobs_is_told_once_all_are_made(house: House) -> None:
    ((_, task),) = house.submit({"jobs": 2500}).tasks
    take(step("split"), house.runtime, house.runtime.begin(1000))
    house.take("broker")
    assert {*told(house.match(house.pilot(), 10), "PILOTAGE_JOBS")} == {None}
    house.take("split")
    assert {*told(house.match(house.pilot(), 10), "PILOTAGE_JOBS")} == {"2500"}
    assert [job.index for job in jobs(house, task)] == [*range(2500)]


def test_work_of_failed_scouts_keeps_its_index(house: House) -> None:
    task = house.task(jobs=9, scouts=4, command=("run",), max_attempts=1)
    house.take("broker")
    pilot = house.pilot()
    answer = house.match(pilot)
    assert (told(answer, "PILOTAGE_INDEX"), {*told(answer, "PILOTAGE_JOBS")}) == (
        ["0", "1", "2", "3"],
        {None},
    )
    first, *others = attempts(answer)
    report(house, pilot, "failed", [first])
    report(house, pilot, "done", others)
    house.take("finish")
    house.take("split")
    made = jobs(house, task)
    assert sorted(job.index or 0 for job in made if job.state != "failed") == [*range(9)]
    (replacing,) = (job for job in made if job.index == 0 and job.kind == "normal")
    assert replacing.id != first[0]


def test_two_servers_that_split_at_once_give_no_index_twice(
    house: House, store_url: str, tmp_path: Path
) -> None:
    made = [task for _, task in house.submit(*({"jobs": 1200},) * 3).tasks]
    other = House(Store.open(store_url), tmp_path)
    barrier = Barrier(2)

    def split(runtime: Runtime) -> None:
        barrier.wait()
        for _ in range(12):
            take(step("split"), runtime, runtime.begin(1000))

    threads = [Thread(target=split, args=(one.runtime,)) for one in (house, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.store.close()
    house.take("split")
    for task in made:
        assert sorted(job.index or 0 for job in jobs(house, task)) == [*range(1200)]


def test_a_forwarded_job_goes_with_its_own_texts(house: House) -> None:
    house.task(jobs=2, command=COMMAND)
    house.take("broker")
    pilot = house.pilot()
    for job, _ in attempts(house.match(pilot)):
        told_ = specification(house.runtime, job, pilot)
        assert told_
        assert told_.spec["command"][1] == str(job - 1)


@pytest.mark.parametrize("first", ["set", "finish"])
def test_work_of_failed_scouts_has_a_change_made_at_the_same_time(
    house: House, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    task = house.task(jobs=9, scouts=4, command=("run",), max_attempts=1, ram=1000)
    house.take("broker")
    pilot = house.pilot()
    failed, *others = attempts(house.match(pilot))
    report(house, pilot, "failed", [failed])
    report(house, pilot, "done", others)

    def change() -> None:
        set_fields(house.runtime, task, Wanted(fields={"ram": 4000}), "user:alice")

    if first == "set":
        meanwhile(house, monkeypatch, lambda: house.take("finish"))
        change()
    else:
        meanwhile(house, monkeypatch, change)
        house.take("finish")
    house.take("finish")
    house.take("split")
    normal = [job.id for job in jobs(house, task) if job.kind == "normal"]
    asked = {Requirements.from_text(house.store.queries.requirements(job)).memory for job in normal}
    assert (len(normal), asked) == (6, {4000})
