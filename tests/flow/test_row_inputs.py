"""Inputs that name parameters: each row's job reads its own files, and those that all rows read."""

from dataclasses import replace
from typing import Any

import pytest

from pilotage.flow.calls.data import inputs
from pilotage.model.records.work import InputDataset, InputFile, InputPattern

from .house import House
from .test_parameters import GRID, matched, refusals

SAMPLES = ({"sample": "a"}, {"sample": "b c"}, {"sample": "d[1]"})
NAMES = [one["sample"] for one in SAMPLES]


def put(house: House, *names: str) -> None:
    for name in names:
        path = house.place / "north" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def glob(text: str, *storages: str) -> InputPattern:
    return InputPattern(storages=storages or ("north-disk",), glob=text)


def read(house: House, *patterns: InputPattern, **spec: Any) -> list[list[str]]:
    """The inputs of each job, in order of the jobs."""
    found = matched(house, inputs=patterns, **{"command": ("true",), "parameters": SAMPLES, **spec})
    return [[file.name for file in order.inputs] for _, order in found]


def test_each_row_reads_its_own_file_and_all_read_the_shared_one(house: House) -> None:
    put(house, "ref.fa", "raw/other.fq", *(f"raw/{name}.fq" for name in NAMES))
    found = read(house, glob("raw/{sample}.fq"), glob("ref.fa"), scouts=0)
    assert found == [[f"raw/{name}.fq", "ref.fa"] for name in NAMES]


def test_wildcards_beside_the_value_and_the_index_of_the_row(house: House) -> None:
    put(
        house,
        *(f"raw/{name}_{end}.fq" for name in NAMES for end in (1, 2)),
        "part-0",
        "part-1",
        "part-2",
        "part-3",
    )
    found = read(house, glob("raw/{sample}_*.fq"), glob("part-{index}"))
    assert found == [
        [f"part-{row}", f"raw/{name}_1.fq", f"raw/{name}_2.fq"] for row, name in enumerate(NAMES)
    ]


def test_rows_of_a_grid_share_the_file_that_they_name(house: House) -> None:
    put(house, "a.fq", "b.fq")
    assert read(house, glob("{sample}.fq"), parameters=GRID) == [["a.fq"], ["a.fq"], ["b.fq"], ["b.fq"]]


def test_values_that_lead_into_folders_are_looked_up_row_by_row(house: House) -> None:
    put(house, "x/y/one.fq", "two.fq")
    paths = ({"path": "x/y/one"}, {"path": "two"})
    assert read(house, glob("{path}.fq"), parameters=paths) == [["x/y/one.fq"], ["two.fq"]]


def test_files_that_were_named_before_are_found_in_the_catalogue(house: House) -> None:
    put(house, "raw/a.fq", "raw/b c.fq", "raw/d[1].fq")
    house.task(command=("true",), inputs=(glob("raw/*"),))
    found = read(house, InputPattern(glob="raw/{sample}.fq"), name="second")
    assert [f"raw/{name}.fq" for name in NAMES] == [one for (one,) in found[-3:]]


@pytest.mark.parametrize("pattern", ["raw/{sample}.fq", "raw/{sample}*.fq", "{sample}/../x.fq"])
def test_one_error_names_the_rows_whose_input_does_not_exist(house: House, pattern: str) -> None:
    put(house, "raw/a.fq")
    rows = tuple({"sample": name} for name in ("a", "b", "c", "d", "e"))
    ((field, told),) = refusals(house, inputs=(glob(pattern),), parameters=rows)
    assert field.startswith("inputs[0]")
    if ".." not in pattern:
        assert "row 1 (sample=b): no file matches 'raw/b" in told
        assert "and 1 more rows" in told


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"inputs": (glob("{smple}.fq"),)}, "there is no parameter {smple}"),
        ({"inputs": (glob("raw-{a{sample}.fq"),)}, "at '{a{sample}.fq'"),
        ({"inputs": (glob("{seed}.fq"),)}, "no parameter {seed}"),
        ({"inputs": (glob("{sample}.fq"),), "files_per_job": 2}, "leave files_per_job out"),
        ({"inputs": (InputFile(name="{sample}", size=1),)}, "write it as a glob"),
        ({"inputs": (InputFile(name="x", size=1, rows=(7,)),)}, "above 2"),
        ({"inputs": (InputFile(name="x", size=1, rows=(0,)),), "parameters": ()}, "without parameters"),
        ({"inputs": (glob("{sample}.fq", "no-disk"),)}, "no storage 'no-disk'"),
    ],
)
def test_what_names_no_row_is_refused(house: House, spec: dict[str, Any], words: str) -> None:
    found = refusals(house, **{"parameters": SAMPLES, **spec})
    assert any(words in told for _, told in found), found


def test_standard_input_is_the_one_input_of_each_row(house: House) -> None:
    put(house, "ref.fa", *(f"{name}.fq" for name in NAMES))
    one = (glob("{sample}.fq"),)
    found = matched(house, inputs=one, parameters=SAMPLES, stdin="{input}")
    assert [order.stdin for _, order in found] == [f"inputs/{name}.fq" for name in NAMES]
    refused = refusals(house, inputs=(*one, glob("ref.fa")), parameters=SAMPLES, stdin="{input}")
    assert any("row 0 has 2" in told for _, told in refused)


def test_nobody_reads_the_folders_of_others_by_a_value(house: House) -> None:
    put(house, "mine/a.fq", "theirs/a.fq")
    federation = house.store.federation()
    folders = {"mine": ("ligo",), "theirs": ("virgo",)}
    storages = tuple(replace(one, folders=folders) for one in federation.storages)
    house.store.save_federation(replace(federation, storages=storages), "test")
    ok = read(house, glob("{where}/a.fq"), parameters=({"where": "mine"},))
    assert ok == [["mine/a.fq"]]
    rows = ({"where": "mine"}, {"where": "theirs"})
    ((field, told),) = refusals(house, inputs=(glob("{where}/a.fq"),), parameters=rows)
    assert (field, "no folder of yours" in told) == ("inputs[0].glob", True)


def test_no_submission_looks_for_the_files_of_its_rows_without_end(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, late = inputs.lookup_for, iter([False] * 3)
    monkeypatch.setattr(
        inputs,
        "lookup_for",
        lambda runtime, owner: replace(real(runtime, owner), is_late=lambda: next(late, True)),
    )
    rows = tuple({"path": f"x/{one}"} for one in range(100))
    ((field, told),) = refusals(house, inputs=(InputPattern(glob="{path}.fq"),), parameters=rows)
    assert (field, told) == ("inputs[0]", inputs.NO_TIME)


def test_the_catalogue_finds_files_behind_links_where_they_lie(house: House) -> None:
    put(house, "real/a.fq")
    (house.place / "north/link").symlink_to("real")
    house.task(command=("true",), inputs=(glob("link/*"),))
    house.runtime.catalogues.own.edit(
        "ligo:linked", house.store.catalogue.files(["ligo:link/a.fq"]), "set", "user:alice"
    )
    by_name, by_dataset = InputPattern(glob="link/*"), InputDataset(dataset="linked", scope="ligo")
    for number, item in enumerate((by_name, by_dataset)):
        found = house.submit({"command": ("true",), "inputs": (item,), "name": f"n{number}"})
        assert found.tasks, found.refused
        house.take("split")
    house.take("broker")
    works = house.match(house.pilot()).works
    assert [[file.path for file in one.inputs] for work in works for one in work.jobs] == [["real/a.fq"]] * 3
