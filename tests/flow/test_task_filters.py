"""Filters of lists of tasks, on both databases."""

import pytest

from pilotage.store import TaskFilter, TaskPage

from .house import House


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*", ["a_b", "a-b", "A-b", "ab"]),
        ("a*", ["a_b", "a-b", "ab"]),
        ("a_b", ["a_b"]),
        ("a?b", ["a_b", "a-b"]),
        ("*%*", []),
        ("[a]*", []),
        ("\\", []),
    ],
)
def test_names_match_by_their_very_characters(house: House, pattern: str, names: list[str]) -> None:
    house.submit(*({"name": name} for name in ("a_b", "a-b", "A-b", "ab")))
    found = house.store.task_lists.page(TaskPage(limit=100, task_filter=TaskFilter(name=pattern)))
    assert [task.name for task in found][::-1] == names


def test_tasks_are_found_by_all_of_some_labels(house: House) -> None:
    labels = [{"campaign": "a", "day": "1"}, {"campaign": "a"}, {"campaign": "ab"}, {"my": "campaign=a"}, {}]
    house.submit(*({"name": f"t{at}", "labels": found} for at, found in enumerate(labels)))

    def of(*wanted: str) -> list[int]:
        found = house.store.task_lists.page(TaskPage(limit=100, task_filter=TaskFilter(labels=wanted)))
        assert all(task.labels == labels[int(task.name[1:])] for task in found)
        return sorted(int(task.name[1:]) for task in found)

    assert of("campaign=a") == [0, 1]
    assert of("campaign=a", "day=1") == [0]
    assert of("campaign") == [0, 1, 2]
    assert of("CAMPAIGN=a") == of("campaign=%") == of("campaign=") == []
    assert of("my=campaign=a") == [3]


def test_tasks_are_found_where_jobs_are_that_have_not_ended_well(house: House) -> None:
    first, other = house.task(), house.task()
    house.take("broker")

    def at(*queues: str) -> list[int]:
        return [
            task.id
            for task in house.store.task_lists.page(TaskPage(limit=9, task_filter=TaskFilter(queues=queues)))
        ]

    assert at("north-queue") == [other, first]
    assert at("south-queue") == []
    assert at() == []
    pilot = house.pilot()
    (job, *_) = [(one.job, one.attempt) for work in house.match(pilot).works for one in work.jobs]
    house.report(pilot, "running", [job])
    house.report(pilot, "done", [job])
    assert len(at("north-queue")) == 1
