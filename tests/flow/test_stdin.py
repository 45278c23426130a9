"""Standard input of payloads: a file that the job has, or a text."""

from typing import Any

import pytest

from pilotage.model.records.work import InputFile, InputPattern, MergeSpec, TaskSpec

from .house import House
from .test_parameters import ROWS, matched, refusals

FILES = tuple(InputFile(name=f"data/{name}", size=1, replicas=("north-disk",)) for name in ("a", "b"))


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({}, [("", "")]),
        ({"stdin": "some {index}\n{text}\n"}, [("some 0\n{text}\n", "")]),
        ({"stdin": "q.sql", "payload_files": {"q.sql": "x"}}, [("", "q.sql")]),
        ({"parameters": ROWS, "stdin": "{sample} {{}}\n"}, [("a {}\n", ""), ("b {}\n", "")]),
        (
            {"parameters": ROWS, "stdin": "{sample}.txt", "payload_files": {"a.txt": "1", "b.txt": "2"}},
            [("", "a.txt"), ("", "b.txt")],
        ),
        (
            {"jobs": 2, "stdin": "{index}.q", "payload_files": {"0.q": "", "1.q": ""}},
            [("", "0.q"), ("", "1.q")],
        ),
    ],
)
def test_a_text_or_a_payload_file(house: House, spec: dict[str, Any], found: list[tuple[str, str]]) -> None:
    got = matched(house, **{"command": ("cat",), **spec})
    assert [(work.stdin, order.stdin) for work, order in got] == found


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"stdin": "x\n", "command": ()}, "empty payload"),
        ({"stdin": "q.sq", "payload_files": {"q.sql": "x"}}, "did you mean q.sql?"),
        ({"stdin": "hello"}, "end it with a line break"),
        ({"stdin": "x" * 100_000 + "\n"}, "longer than 100000 bytes"),
        ({"stdin": "{input}"}, "there are none"),
        ({"stdin": "{input}", "inputs": FILES, "files_per_job": 2}, "leave files_per_job out"),
        ({"stdin": "data/a", "inputs": FILES}, "write {input} for each job's own"),
        ({"stdin": "data/c", "inputs": FILES}, "did you mean data/"),
        ({"stdin": "{smple}\n", "parameters": ROWS}, "did you mean {sample}?"),
        (
            {"stdin": "{sample}.txt", "parameters": ROWS, "payload_files": {"a.txt": ""}},
            "'b.txt' is no input",
        ),
    ],
)
def test_what_no_job_has_is_refused(house: House, spec: dict[str, Any], words: str) -> None:
    found = refusals(house, **spec)
    assert any(field == "stdin" and words in told for field, told in found), found


def test_an_input_is_each_jobs_own_or_one_that_all_read(house: House) -> None:
    for spec in ({"stdin": "{input}"}, {"stdin": "data/a", "files_per_job": 2}):
        assert house.submit({"command": ("cat",), "inputs": FILES, **spec}).tasks


def test_the_names_of_a_pattern_are_known_once_it_is_resolved(house: House) -> None:
    for name in ("one.txt", "two.txt"):
        (house.place / "north" / name).write_text("x")
    glob = (InputPattern(storages=("north-disk",), glob="*.txt"),)
    given = {"command": ("cat",), "inputs": glob, "files_per_job": 2}
    assert house.submit({**given, "stdin": "one.txt"}).tasks
    assert refusals(house, **given, stdin="on.txt")


def test_a_merge_job_reads_nothing() -> None:
    merge = MergeSpec(command=("cat",), outputs=("all",))
    spec = TaskSpec(name="t", command=("cat",), stdin="x\n", outputs=("o",), merge=merge)
    assert spec.for_job("merge").stdin == ""
