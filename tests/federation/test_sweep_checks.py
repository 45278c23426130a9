"""Checks of large sweeps take time in proportion to a submission, not to the product of its parts."""

import time
from typing import Any

import pytest

from pilotage.federation.placeholder_checks import placeholder_faults
from pilotage.federation.stdin_checks import stdin_faults
from pilotage.model.records.work import InputFile, InputPattern, TaskSpec

SOON = 3.0
"""CPU time in s that is far below what the product would take."""


def inputs(many: int) -> tuple[InputFile, ...]:
    return tuple(InputFile(name=f"f{at}", size=1, replicas=("a",)) for at in range(many))


def names_of(many: int) -> tuple[str, ...]:
    return tuple(f"f{at}" for at in range(many))


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        # Rows × inputs were joined for each row.
        ({"stdin": "{a}", "files_per_job": 20_000, "parameters": {"a": names_of(20_000)}}, []),
        # Groups × rows above the most jobs were read all the same.
        (
            {
                "stdin": "{a}",
                "inputs": (*inputs(20_000), InputPattern(glob="*")),
                "parameters": {"a": ("x",) * 50_000},
            },
            ["parameters"],
        ),
        ({"command": ("env", *["{a}"] * 2000, "sh"), "parameters": {"a": names_of(50_000)}}, []),
    ],
)
def test_a_large_sweep_is_checked_soon(spec: dict[str, Any], fields: list[str]) -> None:
    given: dict[str, Any] = {"name": "t", "command": ("cat", "{a}"), **spec}
    if "stdin" in spec:
        given.setdefault("inputs", inputs(20_000))
    task = TaskSpec(**given)
    begun = time.process_time()
    faults = [*placeholder_faults(task), *stdin_faults(task)]
    assert time.process_time() - begun < SOON
    assert [fault.path[0] for fault in faults] == fields
