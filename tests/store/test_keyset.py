"""Pages of lists by key: together they have each row once and in order, whatever comes or goes meanwhile."""

import base64
from collections.abc import Callable
from typing import Any, get_args

import pytest

from pilotage.model.records.states import JobState, PilotState, TransferState
from pilotage.store import BadCursor, JobPage, JobSort, ListPage, Store, TaskPage, TaskSort, named_page
from pilotage.testing import NOW
from pilotage.testing.stores import create, move, moved, new_jobs, new_pilot, new_task, new_transfer

J = JobState
Read = Callable[[str], ListPage[Any]]


def together(read: Read) -> list[int]:
    """The ids of all pages, which agree about what there is."""
    found = [read("")]
    while found[-1].next:
        found.append(read(found[-1].next))
        assert len(found) < 100
    ids = [row.id for page in found for row in page]
    assert [(page.total, page.counts) for page in found] == [(len(ids), found[0].counts)] * len(found)
    return ids


def fill(store: Store) -> list[int]:
    """Make a task of seven jobs in several states, some of which are alike but for their number."""
    jobs = new_jobs(store, new_task(store), 7)
    moved(store, move("job", jobs[1:5], J.DEFINED, J.ACTIVATED, {"queue": "CERN-q"}))
    moved(store, move("job", jobs[2:4], J.ACTIVATED, J.SENT), time=NOW + 5)
    moved(store, move("job", jobs[2:3], J.SENT, J.RUNNING, {"started": NOW + 9}), time=NOW + 9)
    return jobs


def test_pages_of_jobs_are_one_list_in_any_order(store: Store) -> None:
    fill(store)
    for sort in get_args(JobSort):
        whole = store.job_lists.page(1, JobPage(sort=sort), NOW + 20)
        assert (len(whole), whole.total, whole.next) == (7, 7, "")
        assert whole.counts == {J.DEFINED: 3, J.ACTIVATED: 2, J.SENT: 1, J.RUNNING: 1}
        # Runs and waits go on between two pages.
        times = iter(range(20, 100))
        pages = together(
            lambda after, sort=sort, times=times: store.job_lists.page(  # type: ignore[misc]
                1, JobPage(sort=sort, limit=2, after=after), NOW + next(times)
            )
        )
        assert pages == [job.id for job in whole], sort


def test_a_page_begins_where_the_one_before_ended_even_if_its_last_job_has_moved(store: Store) -> None:
    jobs = fill(store)
    first = store.job_lists.page(1, JobPage(sort="state", limit=2), NOW + 20)
    assert [job.state for job in first] == [J.ACTIVATED, J.ACTIVATED]
    moved(store, move("job", [first[1].id], J.ACTIVATED, J.SENT), time=NOW + 21)
    rest = store.job_lists.page(1, JobPage(sort="state", after=first.next), NOW + 21)
    assert {job.id for job in (*first, *rest)} == set(jobs)


def test_jobs_in_a_state_are_paged_by_number_and_counted_with_the_others(store: Store) -> None:
    jobs = fill(store)
    page = store.job_lists.page(1, JobPage(state=J.DEFINED, limit=2), NOW)
    assert ([job.id for job in page], page.total, page.next) == ([jobs[0], jobs[5]], 3, str(jobs[5]))
    assert page.counts[J.ACTIVATED] == 2
    rest = store.job_lists.page(1, JobPage(state=J.DEFINED, after=page.next), NOW)
    assert ([job.id for job in rest], rest.total, rest.next) == ([jobs[6]], 3, "")


def test_pages_of_tasks_pilots_and_transfers_are_one_list(store: Store) -> None:
    for name in ("b", "a", "b", "c", "a"):
        new_task(store, name=name)
    for sort in get_args(TaskSort):
        whole = store.task_lists.page(TaskPage(sort=sort))
        read: Read = lambda after, sort=sort: store.task_lists.page(  # type: ignore[misc] # noqa: E731
            TaskPage(sort=sort, limit=2, after=after)
        )
        assert together(read) == [task.id for task in whole], sort
    pilots = [new_pilot(store, time=NOW + second) for second in (3, 1, 1)]
    assert together(lambda after: store.queries.pilots(None, None, 2, after=after)) == pilots[::-1]
    found = together(lambda after: store.queries.pilots(PilotState.CREATED, None, 1, after=after))
    assert found == [pilots[0], pilots[2], pilots[1]]
    transfers = [*create(store, *(new_transfer(name) for name in "abc"))]
    assert together(lambda after: store.queries.transfers(None, 2, after)) == transfers[::-1]
    assert together(lambda after: store.queries.transfers(TransferState.QUEUED, 1, after)) == transfers[::-1]


def token(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


STRANGE: list[tuple[JobSort, str]] = [
    ("id", "x"),
    ("id", "-1"),
    ("id", str(2**63)),
    ("id", "9" * 4000),
    ("run", "7"),
    ("run", token('["wait",1,2.0,0]')),
    ("run", token('["run",1,"2",0]')),
    ("run", token('["run",1,NaN,0]')),
    ("run", token('["run",1,1e999,0]')),
    ("run", token('["run",true,1,0]')),
    ("run", token(f'["run",1,{"9" * 400},0]')),
    ("queue", token('["queue",1,2,0]')),
    ("queue", token('["queue",1,"\\u0000",0]')),
    ("queue", token('["queue",1,"\\ud800",0]')),
    ("wait", token(f'["wait",1,{2**63},0]')),
    ("wait", token(f'["wait",1,1,{2**63}]')),
    ("queue", token("[" * 2000)),
    ("queue", token("null")),
    ("queue", "é"),
]


def test_what_is_no_position_of_this_list_is_refused(store: Store) -> None:
    for sort, cursor in STRANGE:
        with pytest.raises(BadCursor, match="give the `next` of the page before"):
            store.job_lists.page(1, JobPage(sort=sort, after=cursor), NOW)


def test_lists_by_name_go_on_after_any_name() -> None:
    page = named_page(["c", "a", "d", "b"], str, "a", 2, lambda name: "vowel" if name == "a" else "other")
    assert ([*page], page.total, page.next) == (["b", "c"], 4, "c")
    assert page.counts == {"vowel": 1, "other": 3}
    assert named_page(["c", "a"], str, "a", 1).next == ""
