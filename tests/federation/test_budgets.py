"""One record may be as long as a request: its checks ask the budget as they go, and none is quadratic."""

from collections.abc import Callable
from typing import Any

import pytest

from pilotage import request_budget
from pilotage.federation.task_checks import task_faults
from pilotage.flow.calls.data import row_inputs
from pilotage.flow.calls.work import chains
from pilotage.model.records.inputs import TaskOutputs
from pilotage.model.records.work import InputFile, InputPattern, TaskSpec
from pilotage.ports.catalogue import FoundFile

MANY = 5000

FILES = tuple(InputFile(name=f"a/{number}", size=1) for number in range(MANY))
VARIABLES = {f"V{number}": "" for number in range(MANY)}
ROWS = tuple({"k": str(number)} for number in range(100))
SWEPT = TaskSpec(name="a", command=("x",), parameters=ROWS, inputs=FILES)


def _rows_of(pattern: str) -> list[FoundFile]:
    files = [FoundFile(file=file) for file in FILES]
    return row_inputs.files_of_rows(SWEPT, InputPattern(glob=pattern), lambda _: files, lambda _: True)


@pytest.mark.parametrize(
    "work",
    [
        lambda: task_faults(TaskSpec(name="a", command=("x",), inputs=FILES)),
        lambda: task_faults(TaskSpec(name="a", command=tuple("x" * MANY))),
        lambda: task_faults(TaskSpec(name="a", command=("x",), environment=VARIABLES)),
        lambda: task_faults(SWEPT),
        lambda: _rows_of("*[0-9]*{k}"),
        lambda: [*row_inputs.patterns(SWEPT, InputPattern(glob="{k}"))],
    ],
)
def test_the_checks_of_one_long_record_end_with_the_requests_budget(work: Callable[[], Any]) -> None:
    with request_budget.opened() as budget, budget.measured():
        budget.spent = request_budget.MOST_SECONDS
        with pytest.raises(request_budget.RequestTooLong):
            work()


def test_no_name_of_a_task_is_compared_with_all_others() -> None:
    """60,000 optional outputs took 49 s to check: each was searched for among all outputs."""
    compared = 0

    class Word(str):
        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    words = tuple(Word(f"o{number}") for number in range(MANY))
    others = tuple(Word(word) for word in words)
    assert not task_faults(TaskSpec(name="a", command=("x",), outputs=words, optional_outputs=others))
    spec = TaskSpec(name="a", after=words[:100], inputs=tuple(TaskOutputs(task=word) for word in words))
    assert len(chains.completed(spec).after) == MANY
    assert compared < 20 * MANY
