"""Parameters in a file of tasks: rows, a grid or a CSV file, bounded before they are expanded."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from pilotage.federation.documents import checked, read_tasks
from pilotage.federation.faults import BadDocument, BadFile
from pilotage.federation.task_checks import task_faults
from pilotage.model.records.work import TaskSpec
from pilotage.model.values.parameter_bounds import MOST_ROWS
from pilotage.model.values.parameters import row_at, row_count

TASK = "name: t\ncommand: [run, '{k}']\nparameters: "


def read(folder: Path, parameters: str) -> TaskSpec:
    file = folder / "task.yaml"
    file.write_text(f"{TASK}{parameters}\n")
    (spec,) = read_tasks(file)
    return spec


def rows(spec: TaskSpec) -> list[dict[str, str]]:
    return [row_at(spec.parameters, number) for number in range(row_count(spec.parameters))]


def refused(folder: Path, parameters: str) -> str:
    with pytest.raises(BadFile) as bad:
        read(folder, parameters)
    return str(bad.value)


def test_rows_and_values_of_every_kind(tmp_path: Path) -> None:
    spec = read(tmp_path, "\n- {k: 21, b: true, x: 0.5}\n- {x: a b, b: yes, k: '007'}")
    assert rows(spec) == [{"k": "21", "b": "true", "x": "0.5"}, {"k": "007", "b": "yes", "x": "a b"}]


def test_a_grid_has_all_combinations_the_last_name_fastest(tmp_path: Path) -> None:
    spec = read(tmp_path, "{sample: [a, b], k: [21, 31]}")
    assert [(row["sample"], row["k"]) for row in rows(spec)] == [
        ("a", "21"),
        ("a", "31"),
        ("b", "21"),
        ("b", "31"),
    ]


@pytest.mark.parametrize("begin", ["", "\ufeff"])
def test_a_csv_file_beside_the_task(tmp_path: Path, begin: str) -> None:
    text = f'{begin}k, sample\r\n1,"a, b"\r\n\r\n2,"two\nlines"\r\n'
    (tmp_path / "rows.csv").write_bytes(text.encode())
    assert rows(read(tmp_path, "rows.csv")) == [
        {"k": "1", "sample": "a, b"},
        {"k": "2", "sample": "two\nlines"},
    ]


@pytest.mark.parametrize("mark", ["\f", "\v", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"])
def test_only_line_breaks_end_a_row(tmp_path: Path, mark: str) -> None:
    (tmp_path / "rows.csv").write_text(f"k\na{mark}b\r\nc\n")
    assert rows(read(tmp_path, "rows.csv")) == [{"k": f"a{mark}b"}, {"k": "c"}]


def test_a_file_with_tabs(tmp_path: Path) -> None:
    (tmp_path / "rows.tsv").write_text("k\tsample\n1\ta,b\n")
    assert rows(read(tmp_path, "rows.tsv")) == [{"k": "1", "sample": "a,b"}]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("k,s\n1\n", "rows.csv: line 2: has 1 values, the first line 2 names"),
        ("k,k\n1,2\n", "has two columns 'k'"),
        ("\ufeffk;s\r\n3,5;7\r\n", "rows.csv: line 1: is separated by ';'; save it with commas"),
        ("k\ts\n1\t2\n", r"is separated by '\t'"),
        ("k\n", "has no rows"),
        ("", "has no rows"),
        ('k\n"1\n', "is no CSV"),
        ("k\n" + "1\n" * (MOST_ROWS + 1), f"has more than {MOST_ROWS} rows"),
        ("a b\n1\n", "have a name 'a b'"),
        ("index\n1\n", "have a name 'index'"),
    ],
)
def test_a_csv_file_with_a_fault_is_refused_in_words(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "rows.csv").write_text(text)
    found = refused(tmp_path, "rows.csv")
    assert words in found
    assert "task.yaml:3: parameters" in found
    assert len(found.splitlines()) == 1


@pytest.mark.parametrize("empty", [",\n,\n", " , \n", "   \n", '"",""\n'])
def test_rows_that_a_spreadsheet_left_empty_are_none(tmp_path: Path, empty: str) -> None:
    (tmp_path / "rows.csv").write_text(f"k,s\na,1\n{empty}b,2\n{empty}")
    assert rows(read(tmp_path, "rows.csv")) == [{"k": "a", "s": "1"}, {"k": "b", "s": "2"}]


@pytest.mark.parametrize("name", ["none.csv", ".", "/dev/zero"])
def test_what_is_no_csv_file(tmp_path: Path, name: str) -> None:
    assert "parameters" in refused(tmp_path, name)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ("[{k: 1}, {s: 2}]", "row 1 that lacks 'k'"),
        ("[{k: 1}, {k: 1, s: 2}]", "row 1 that alone has 's'"),
        ("[{k: [1]}]", "no text or number at row 0, k"),
        ("[{k: null}]", "no value at row 0, k"),
        ("[1]", "a row 0 without names"),
        ("[{}]", "a row without names"),
        ("{k: 21}", "no list of values"),
        ("{k: []}", "give k no values"),
        ("7", "neither rows nor a grid"),
        ("{seed: [1]}", "every job has already"),
        ("{'a-b': [1]}", "have a name 'a-b'"),
        (f"{{k: ['{'x' * 5000}']}}", "more than 4096 bytes"),
        ("{s: [1]}", "there is no parameter {k}"),
        ("{k: [1]}\ninputs: [{name: '{k}.fa', size: 1}]", "write it as a glob"),
    ],
)
def test_other_faults_are_refused_in_words(tmp_path: Path, parameters: str, words: str) -> None:
    assert words in refused(tmp_path, parameters)


def test_a_grid_of_ten_million_rows_is_refused_before_it_is_made() -> None:
    begun = time.process_time()
    document = {
        "name": "t",
        "command": ["run"],
        "parameters": {name: [*range(1000)] for name in ("a", "b", "c", "d", "e")},
    }
    with pytest.raises(BadDocument) as bad:
        checked(TaskSpec, document)
    assert "1000 × 1000 × 1000 × 1000 × 1000 = 1000000000000000 rows, above 100000" in str(bad.value)
    assert time.process_time() - begun < 1


def test_ten_million_rows_of_a_file_are_refused_unread(tmp_path: Path) -> None:
    with (tmp_path / "rows.csv").open("wb") as file:
        file.write(b"k\n" + b"1\n" * 10_000_000)
    begun = time.process_time()
    assert f"at most {MOST_ROWS} rows" in refused(tmp_path, "rows.csv")
    assert time.process_time() - begun < 1


def test_too_many_rows_and_bytes_in_a_document() -> None:
    def fault(parameters: Any) -> str:
        with pytest.raises(BadDocument) as bad:
            checked(
                TaskSpec, json.loads(json.dumps({"name": "t", "command": ["r"], "parameters": parameters}))
            )
        return str(bad.value)

    assert f"have {MOST_ROWS + 1} rows" in fault([{"k": 1}] * (MOST_ROWS + 1))
    assert "bytes; submit several tasks" in fault([{"k": "x" * 4000}] * 2000)
    assert "bytes; submit several tasks" in fault({"k": ["x" * 4000] * 2000})
    assert "101 names" in fault([{f"k{n}": 1 for n in range(101)}])


@pytest.mark.parametrize("text", ["{indx}.txt", "{seeds}.txt", "a-{firstevent}"])
def test_a_misspelt_name_in_an_output_is_refused(text: str) -> None:
    spec = {"name": "t", "command": ["run"], "outputs": [text]}

    try:
        faults = task_faults(checked(TaskSpec, spec))
    except BadDocument as bad:
        faults = [*bad.faults]
    assert [fault.path for fault in faults] == [("outputs", 0)]


def test_few_of_many_unknown_names_are_compared_with_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []

    def close(name: str, known: list[str], *_: float) -> list[str]:
        if known:
            compared.append(name)
        return []

    monkeypatch.setattr("difflib.get_close_matches", close)
    text = " ".join(f"{{q{number}}}" for number in range(200))
    faults = task_faults(TaskSpec(name="t", command=("run", text), parameters=({"k": "1"},)))
    assert (len(faults), len(compared)) == (200, 20)
