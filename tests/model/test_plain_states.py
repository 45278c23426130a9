"""People see a few words. Each state of the engine has one."""

import pytest

from pilotage.model.records.states import ENDED, JobState, TaskState
from pilotage.model.rules.plain_states import (
    JOB_STATES,
    TASK_STATES,
    PlainWord,
    engine_states,
    job_state,
    jobs_phrase,
    task_state,
    word_counts,
)

ENDS = {PlainWord.DONE, PlainWord.FAILED, PlainWord.CANCELLED}


def test_each_state_of_jobs_and_tasks_has_a_word_and_only_waiting_has_a_reason() -> None:
    assert set(JOB_STATES) == set(JobState)
    assert set(TASK_STATES) == set(TaskState)
    for plain in (*JOB_STATES.values(), *TASK_STATES.values()):
        assert bool(plain.reason) == (plain.word is PlainWord.WAITING)
    assert {state for word in PlainWord for state in engine_states(word)} == set(JobState)


def test_only_records_that_ended_have_words_of_an_end() -> None:
    assert {state for state, plain in JOB_STATES.items() if plain.word in ENDS} == set(ENDED["job"])
    assert {state for state, plain in TASK_STATES.items() if plain.word in ENDS} == set(ENDED["task"])


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ("activated", "waiting for a slot"),
        ("assigned", "waiting for inputs"),
        ("pending", "waiting for a queue"),
        ("held", "held"),
        ("transferring", "finishing"),
        ("finished", "done"),
        ("closed", "cancelled"),
    ],
)
def test_a_job_as_people_see_it(state: str, text: str) -> None:
    assert str(job_state(state)) == text


@pytest.mark.parametrize(
    ("state", "jobs", "held", "text"),
    [
        ("running", {"activated": 1}, "", "waiting for a slot"),
        ("running", {"assigned": 5, "activated": 2}, "", "waiting for inputs"),
        ("running", {"activated": 9, "sent": 1}, "", "running"),
        ("running", {"activated": 9}, "ann", "held"),
        ("running", {"running": 1, "held": 9}, "ann", "running"),
        ("running", {"merging": 3}, "", "finishing"),
        ("running", {"finished": 3}, "", "finishing"),
        ("merging", {"merging": 3, "activated": 1}, "", "waiting for a slot"),
        ("merging", {"merging": 3}, "", "finishing"),
        ("scouting", {}, "", "waiting for a queue"),
        ("waiting", {}, "", "waiting for other tasks"),
        ("waiting", {}, "ann", "held"),
        ("finished", {"finished": 3}, "", "done"),
        ("failed", {"finished": 3, "failed": 1}, "", "failed"),
        ("cancelled", {"closed": 3}, "", "cancelled"),
    ],
)
def test_a_task_runs_only_if_a_job_of_it_does(state: str, jobs: dict[str, int], held: str, text: str) -> None:
    assert str(task_state(state, jobs, held)) == text


def test_counts_follow_the_life_of_a_job() -> None:
    jobs = {"finished": 1200, "closed": 1, "cancelled": 1, "running": 1, "sent": 1, "activated": 2, "held": 0}
    assert jobs_phrase(jobs) == "2 waiting for a slot, 2 running, 1,200 done, 2 cancelled"
    assert word_counts(jobs) == {"waiting": 2, "running": 2, "done": 1200, "cancelled": 2}
    assert jobs_phrase({}) == ""
