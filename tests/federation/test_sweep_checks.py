"""Checks of large sweeps take time in proportion to a submission, not to the product of its parts."""

import random
import time
from typing import Any

import pytest

from pilotage.federation.placeholder_checks import placeholder_faults
from pilotage.federation.shell_words import code_words
from pilotage.federation.stdin_checks import stdin_faults
from pilotage.model.records.work import InputFile, InputPattern, TaskSpec
from pilotage.model.values.parameters import parameter_names, row_at, row_count, values_of
from pilotage.model.values.placeholders import filled
from pilotage.model.values.shell_texts import SHELLS, shell_texts

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
        (
            {
                "command": ("env", *(f"/{at}/{{a}}" for at in range(2000)), "sh"),
                "parameters": {"a": (*(f"{at}/sh" for at in range(50_000)),)},
            },
            ["command"],
        ),
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


WORDS = (
    "{s}",
    "{o}",
    "{s}{o}",
    "-{o}",
    "/bin/{s}",
    "ba{s}",
    "{s}sh",
    "sh",
    "-c",
    "-o",
    "x",
    "{{{s}",
    "{index}",
)
VALUES = ("sh", "-c", "", "/bin/b", "a/sh", "h", "as", "c", "-", "o", "x/", "+o", "bash", "b")


def test_words_that_shells_run_are_those_of_all_rows_tried_one_by_one() -> None:
    chance = random.Random(1)
    some = 0
    for _ in range(3000):
        grid = {name: tuple(chance.choices(VALUES, k=2)) for name in "so"}
        rows = tuple({name: chance.choice(VALUES) for name in "so"} for _ in range(3))
        command = tuple(chance.choices(WORDS, k=chance.randint(1, 7)))
        spec = TaskSpec(name="t", command=command, parameters=chance.choice((grid, rows)))
        values = {name: values_of(spec.parameters, name) for name in parameter_names(spec.parameters)}
        expected = shell_texts(command, SHELLS)
        for number in range(row_count(spec.parameters)):
            row = {"index": "1", **row_at(spec.parameters, number)}
            expected |= shell_texts([filled(word, row, strict=True) for word in command], SHELLS)
        assert code_words(spec, values, SHELLS) == expected, spec
        some += bool(expected)
    assert some > 100
