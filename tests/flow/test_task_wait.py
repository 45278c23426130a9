"""Why a task waits and its place in line, on both databases."""

from dataclasses import replace

from pilotage.flow.calls.pilots import report
from pilotage.flow.calls.work import remarks, steering
from pilotage.flow.calls.work.changes import Wanted, set_fields
from pilotage.flow.calls.work.retry import retry
from pilotage.flow.task_cancellation import cancel
from pilotage.model.documents.remarks import Remark, RemarkKind
from pilotage.model.documents.world import Report
from pilotage.model.records.federation import GlobalShare
from pilotage.store import TaskPage

from .house import House


def found(house: House, task: int, *kinds: RemarkKind) -> list[Remark]:
    known = house.store.queries.task(task)
    assert known is not None
    return [one for one in remarks.of_task(house.runtime, known) if one.kind in kinds]


def texts(house: House, task: int, *kinds: RemarkKind) -> list[str]:
    return [one.text for one in found(house, task, *kinds)]


def ahead(house: House, task: int) -> tuple[int, int]:
    """The tasks and jobs ahead of a task, as its remark says."""
    words = " ".join(texts(house, task, "line")).split()
    return (int(words[0]), int(words[3])) if words else (0, 0)


def test_tasks_of_the_share_with_jobs_to_start_are_ahead(house: House) -> None:
    first = house.task(jobs=3)
    urgent = house.task(jobs=4, priority=600)
    mine = house.task(jobs=2)
    house.task(jobs=7)
    assert ahead(house, mine) == (2, 7)
    assert ahead(house, first) == (1, 4)
    assert ahead(house, urgent) == (0, 0)
    assert house.store.job_lists.ahead("other", 1, 10**9) == (0, 0)
    assert texts(house, mine, "line") == ["2 tasks with 7 jobs are ahead in share default"]
    steering.hold(house.runtime, urgent, "user:bob")
    assert ahead(house, mine) == (1, 3)
    (held,) = found(house, urgent, "held", "wait", "line", "end")
    assert held.text == "held by user:bob: nothing of it starts", "a held task has no place in line"
    assert held.command == f"pilotage release {urgent}"


def test_jobs_that_run_or_have_ended_are_not_ahead(house: House) -> None:
    first, mine = house.task(jobs=2), house.task(jobs=1)
    house.take("broker")
    assert texts(house, mine, "wait") == ["1 job waits for a free pilot at north-queue"]
    pilot = house.pilot()
    attempts = [(one.job, one.attempt) for work in house.match(pilot, 2).works for one in work.jobs]
    house.report(pilot, "running", attempts[:2])
    assert ahead(house, mine) == (0, 0)
    assert texts(house, first, "wait") == []


def test_what_no_queue_takes_says_what_stands_in_the_way(house: House) -> None:
    house.federate(max_memory=1000)
    task = house.task(ram=5000, ram_unit="MB")
    house.take("broker")
    (fault,) = found(house, task, "fault", "wait", "warning")
    assert (fault.kind, fault.rule, fault.mend) == ("fault", "B15", "user")
    assert fault.text.startswith("1 job waits for a queue that can take them: memory at 1 queue (")
    assert fault.text.endswith(" MB needed, 1000 there at most)")
    assert fault.action.startswith("you: ask for ram: ")


def test_a_changed_priority_or_share_changes_what_is_shown_and_who_is_ahead(house: House) -> None:
    shares = (GlobalShare(name="physics", target=3), GlobalShare(name="default", target=1))
    house.store.save_federation(replace(house.store.federation(), shares=shares), "test")
    first, second = house.task(jobs=3), house.task(jobs=2)
    assert (ahead(house, first), ahead(house, second)) == ((0, 0), (1, 3))
    set_fields(house.runtime, second, Wanted(fields={"priority": 700}), "user:alice")
    assert (ahead(house, first), ahead(house, second)) == ((1, 2), (0, 0))
    (job, *_) = house.store.queries.jobs(second, None, 1)
    set_fields(house.runtime, second, Wanted(fields={"priority": 100}), "user:alice", job.id)
    assert shown(house, second) == ("default", 700), "a change of one job is not one of the task"
    set_fields(house.runtime, second, Wanted(fields={"share": "physics"}), "user:alice")
    assert (ahead(house, first), ahead(house, second)) == ((0, 0), (0, 0))
    assert shown(house, second) == ("physics", 700)
    assert {
        (task.id, task.share, task.priority) for task in house.store.task_lists.page(TaskPage(limit=10))
    } == {
        (first, "default", 500),
        (second, "physics", 700),
    }


def test_a_retry_with_another_priority_shows_it(house: House) -> None:
    task = house.task(jobs=1)
    cancel(house.runtime, task, "enough", "user:alice")
    retry(house.runtime, task, "user:alice", None, Wanted(fields={"priority": 700}))
    assert shown(house, task) == ("default", 700)


def shown(house: House, task: int) -> tuple[str, int]:
    """The task's share and priority, as ``status`` and lists show them."""
    known = house.store.queries.task(task)
    assert known is not None
    return known.share, known.priority


def test_a_task_with_finished_jobs_is_likely_to_end_in_an_interval(house: House) -> None:
    task = house.task(jobs=12)
    house.take("broker")
    pilot = house.pilot(slots=8)
    given = [(one.job, one.attempt) for work in house.match(pilot, 8).works for one in work.jobs]
    house.report(pilot, "running", given)
    assert texts(house, task, "end") == [], "nothing has finished"
    house.now += 600
    ends = [Report(job=job, attempt=attempt, state="done", wall_seconds=600) for job, attempt in given[:5]]
    report.report(house.runtime, pilot, given, ends)
    for name in ("stage", "finish"):
        house.take(name)
    (known,) = found(house, task, "end")
    progress = house.store.job_lists.progress(task, "default", house.now)
    assert (progress.runs, progress.running, progress.slots) == ([600.0] * 5, [600.0] * 3, 3)
    assert known.text.startswith("it is likely to end in ")
    assert known.text.endswith(", by 5 finished jobs")
    assert known.until is not None
    assert house.now < known.until
    steering.hold(house.runtime, task, "user:bob")
    assert texts(house, task, "end") == [], "nobody knows when a person releases it"
