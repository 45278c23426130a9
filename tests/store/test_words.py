"""Lists by the word that people see agree with the words that are shown."""

from pilotage.model.records.states import JobState as J
from pilotage.model.records.states import TaskState as T
from pilotage.model.rules.plain_states import PlainWord, job_state, task_state
from pilotage.store import JobPage, Store, TaskPage
from pilotage.testing import NOW
from pilotage.testing.stores import bring, move, moved, new_jobs, new_task


def fill(store: Store) -> None:
    """Make tasks that wait in several ways, run, finish and have ended."""
    for at, target in enumerate((J.ACTIVATED, J.RUNNING, J.FINISHED)):
        task = new_task(store)
        moved(store, move("task", [task], T.REGISTERED, T.RUNNING))
        bring(store, new_jobs(store, task, 2), target, NOW, at + 1)
        if target is J.RUNNING:
            new_jobs(store, task)
    new_task(store)
    empty, failed, merging, stored, cancelled = (new_task(store) for _ in range(5))
    moved(store, move("task", [empty, failed, merging, stored], T.REGISTERED, T.RUNNING))
    moved(store, move("task", [failed], T.RUNNING, T.FAILED))
    moved(store, move("task", [merging], T.RUNNING, T.MERGING))
    moved(store, move("task", [cancelled], T.REGISTERED, T.CANCELLED))
    jobs = new_jobs(store, stored)
    bring(store, jobs, J.RUNNING, NOW, 4)
    moved(store, move("job", jobs, J.RUNNING, J.HOLDING))


def test_tasks_by_word_are_those_that_show_it(store: Store) -> None:
    fill(store)
    every = store.task_lists.page(TaskPage())
    seen = {task.id: task_state(task.state, task.jobs, task.held).word for task in every}
    assert set(seen.values()) == set(PlainWord) - {PlainWord.DONE}
    for word in PlainWord:
        page = store.task_lists.page(TaskPage(word=word))
        assert {task.id for task in page} == {id_ for id_, shown in seen.items() if shown is word}, word
        assert page.total == len(page)
        assert store.task_lists.page(TaskPage(word=word, limit=1)).total == len(page)


def test_jobs_by_word_are_those_that_show_it(store: Store) -> None:
    fill(store)
    whole = store.job_lists.page(2, JobPage(), NOW)
    for word in PlainWord:
        wanted = [job.id for job in whole if job_state(job.state).word is word]
        for sort in ("id", "wait"):
            page = store.job_lists.page(2, JobPage(word=word, sort=sort), NOW)
            assert (sorted(job.id for job in page), page.total) == (wanted, len(wanted)), word
