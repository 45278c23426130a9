"""The payload's statistics against modules small enough to count by hand, and its merge of tables."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pilotage.demo import standard_library
from pilotage.demo.payload import merge
from pilotage.demo.payload import module_statistics as statistics
from tests.waiting import PATIENCE

SCRIPTS = Path(statistics.__file__).parent

MODULE = b'''"""Doc."""
import os  # a comment


class Thing:
    def sign(self, value):
        if value > 0 and value < 10:
            return "small"
        elif value > 0:
            return "large"
        for item in [x for x in range(3) if x]:
            while item:
                item -= 1
        return "none"
'''


def row(source: bytes) -> dict[str, object]:
    return dict(zip(statistics.COLUMNS, statistics.statistics_of("m.py", source), strict=True))


def test_a_module_is_counted_as_by_hand() -> None:
    found = row(MODULE)
    # if, and, elif, for, comprehension with one condition (2), while, and the module itself
    assert found["complexity"] == 8
    # class > def > for > while; the elif is no deeper than its if
    assert found["nesting"] == 4
    assert (found["lines"], found["functions"], found["classes"], found["parsed"]) == (14, 1, 1, 1)


def test_comments_and_layout_are_not_tokens() -> None:
    assert row(b"x = 1\n")["tokens"] == row(b"\n\n# words\nx    =  1  # more\n")["tokens"] == 3


def test_a_chain_of_elifs_is_one_deep() -> None:
    assert row(b"if a:\n  1\nelif b:\n  2\nelif c:\n  3\nelse:\n  4\n")["nesting"] == 1


@pytest.mark.parametrize(
    "source",
    [b"def f(:\n", b"x = (1\n", b"\xff\xfe\x00", b"x = '\x00'\n", b"# coding: nonsense\n", b"  x\n y\n"],
)
def test_what_does_not_parse_is_recorded_as_such(source: bytes) -> None:
    assert row(source)["parsed"] == 0


def test_an_empty_module_parses() -> None:
    assert statistics.statistics_of("empty.py", b"") == ("empty.py", 0, 0, 0, 0, 1, 0, 1)


def run(script: str, directory: Path, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONWARNINGS": "error", "MPLCONFIGDIR": str(directory), **more}
    command = [sys.executable, str(SCRIPTS / script)]
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
    )


@pytest.mark.slow
def test_the_scripts_run_alone_and_their_tables_join(tmp_path: Path) -> None:
    for job, names in {"one": ["json/decoder.py", "ast.py"], "two": ["abc.py", "broken.py"]}.items():
        for name in names:
            path = tmp_path / job / "inputs" / "python" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"def f(:\n" if "broken" in name else MODULE)
        done = run("module_statistics.py", tmp_path / job)
        assert done.returncode == 0, done.stderr
        gathered = tmp_path / "merge" / "inputs" / "tasks" / job
        gathered.mkdir(parents=True)
        (tmp_path / job / "statistics.csv").rename(gathered / "statistics.csv")
    done = run("merge.py", tmp_path / "merge")
    assert done.returncode == 0, done.stderr
    with (tmp_path / "merge" / "statistics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["module"] for row in rows] == [
        "python/abc.py",
        "python/ast.py",
        "python/broken.py",
        "python/json/decoder.py",
    ]
    assert [row["parsed"] for row in rows] == ["1", "1", "0", "1"]
    assert (tmp_path / "merge" / "statistics.png").read_bytes().startswith(b"\x89PNG")


def test_tables_join_also_where_nothing_can_draw(tmp_path: Path) -> None:
    """``matplotlib`` is an extra: a plain installation makes the table."""
    (tmp_path / "inputs").mkdir()
    (tmp_path / "inputs" / "a.csv").write_text("module,lines\nx.py,1\n")
    (tmp_path / "hidden").mkdir()
    hide = "import sys\nsys.modules['matplotlib'] = None\n"
    (tmp_path / "hidden" / "sitecustomize.py").write_text(hide)
    done = run("merge.py", tmp_path, PYTHONPATH=str(tmp_path / "hidden"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "statistics.csv").read_text() == "module,lines\nx.py,1\n"
    assert not (tmp_path / "statistics.png").exists()


def test_a_job_without_modules_fails(tmp_path: Path) -> None:
    (tmp_path / "inputs").mkdir()
    assert run("module_statistics.py", tmp_path).returncode != 0


def test_tables_of_other_columns_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("module,lines\nx.py,1\n")
    (tmp_path / "b.csv").write_text("module,words\ny.py,1\n")
    with pytest.raises(ValueError, match=r"b\.csv has columns \['module', 'words'\]"):
        merge.read(tmp_path)


def test_the_largest_packages_come_first_and_single_modules_are_none() -> None:
    tokens = {"python/a/x.py": 5, "python/a/b/y.py": 6, "python/c/z.py": 9, "python/alone.py": 99}
    rows = [{"module": name, "tokens": str(number)} for name, number in tokens.items()]
    assert merge.largest_packages(rows) == [("a", 11, 2), ("c", 9, 1)]


def test_the_library_is_taken_without_its_tests(tmp_path: Path) -> None:
    for name in (
        "ast.py",
        "json/decoder.py",
        "json/tests/test_x.py",
        "test/support.py",
        "site-packages/p.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert [name for name, _ in standard_library.sources(tmp_path)] == [
        "python/ast.py",
        "python/json/decoder.py",
    ]


def test_the_files_are_spread_over_the_storages_evenly(tmp_path: Path) -> None:
    sources = standard_library.sources()[:7]
    storages = [tmp_path / "one", tmp_path / "two"]
    standard_library.spread(sources, storages)
    found = [sorted(p.relative_to(s).as_posix() for p in s.rglob("*.py")) for s in storages]
    assert [len(names) for names in found] == [4, 3]
    assert sorted(found[0] + found[1]) == [name for name, _ in sources]


def test_this_library_has_enough_modules_to_be_worth_a_federation() -> None:
    assert 200 < len(standard_library.sources()) < 2000
