"""The parts of the demonstration: its federation and task, its comparison, its table and its display."""

import io
from pathlib import Path
from typing import Any

from rich.console import Console

from pilotage.demo import checking, standard_library, summary
from pilotage.demo.outcome import refusal_lines
from pilotage.demo.payload.module_statistics import COLUMNS
from pilotage.demo.progress import Moment, display, line
from pilotage.demo.run import HERE, prepare
from pilotage.federation.documents import read, read_tasks
from pilotage.model.documents.decision import Refusal
from pilotage.model.records.federation import Federation, Queue


def test_the_federation_is_valid_and_its_input_lies_where_the_task_looks(tmp_path: Path) -> None:
    federation = read(Federation, prepare(tmp_path, standard_library.sources()[:4]))
    assert len(federation.sites) == 5
    assert [site.name for site in federation.sites if site.nucleus] == ["aurora"]
    urls = {storage.name: Path(storage.url.removeprefix("file://")) for storage in federation.storages}
    (task,) = read_tasks(HERE / "task.yaml")
    (pattern,) = task.inputs
    held = {storage: len(list(urls[storage].rglob("*.py"))) for storage in getattr(pattern, "storages", ())}
    assert held == {"borealis-disk": 2, "cirrus-disk": 2}
    assert all(url.is_dir() for url in urls.values())
    assert task.nucleus == "aurora"
    assert set(task.payload_files) == {"module_statistics.py", "merge.py"}


def test_the_direct_computation_has_a_row_for_each_file(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    rows = checking.directly([("python/a.py", tmp_path / "a.py")], processes=1)
    assert rows == [list(COLUMNS), ["python/a.py", "1", "3", "0", "0", "1", "0", "1"]]


def test_every_kind_of_difference_is_seen() -> None:
    table = [["module"], ["a"], ["b"]]
    assert checking.differences(table, table) == []
    assert checking.differences(table, [*table, ["c"]]) == [
        "row 4: the federation has nothing, directly it is c"
    ]
    assert len(checking.differences([["m"], ["b"], ["a"]], table)) == 3


def job(queue: str, created: float, started: float | None, wall: float | None) -> dict[str, Any]:
    return {"queue": queue, "created": created, "started": started, "wall_seconds": wall}


def test_the_summary_counts_by_queue() -> None:
    queues = [
        Queue(name=name, site="s", storage=storage) for name, storage in (("a", "x"), ("b", "x"), ("c", "y"))
    ]
    jobs = [job("b", 10, 12, 4), job("b", 10, 16, 2), job("c", 10, None, None)]
    moved = [
        {"direction": "download", "source": "y", "destination": "x"},
        {"direction": "download", "source": "y", "destination": "x"},
        {"direction": "upload", "source": "y", "destination": "z"},
    ]
    rows = summary.by_queue(queues, jobs, moved)
    assert [(row.queue, row.jobs, row.files_in, row.files_out) for row in rows] == [
        ("a", 0, 0, 0),
        ("b", 2, 2, 0),
        ("c", 1, 0, 1),
    ]
    assert [(row.waiting, row.running) for row in rows] == [(None, None), (4, 3), (None, None)]


def moment(finished: int) -> Moment:
    queue = {
        "name": "north",
        "jobs": {"running": 1, "finished": finished},
        "pilots": {"running": 2, "failed": 1},
    }
    jobs = {"running": 1, "finished": finished}
    return Moment(task="work running", jobs=jobs, transfers={"done": 3, "queued": 0}, queues=(queue,))


def test_a_moment_in_one_line() -> None:
    assert line(moment(2)) == "jobs: 1 running, 2 finished | transfers: 3 done | pilots: 2"


def test_without_a_terminal_a_line_is_printed_when_something_changed() -> None:
    output = io.StringIO()
    with display(Console(file=output, width=80)) as shown:
        for _ in range(3):
            shown.show(moment(1))
    assert output.getvalue().count("\n") == 1
    assert output.getvalue().startswith("work running: 1 of 2 jobs; jobs: 1 running, 1 finished")


def test_on_a_terminal_every_queue_is_shown() -> None:
    output = io.StringIO()
    with display(Console(file=output, width=100, force_terminal=True)) as shown:
        shown.show(moment(1))
        shown.show(moment(2))
    assert "north" in output.getvalue()
    assert "2/3" in output.getvalue()


def test_a_refusal_names_each_queue_with_need_and_have() -> None:
    refusal = Refusal(
        rule="B15",
        name="memory",
        mend="user",
        queues=("a", "b"),
        have=(512.0, 100.0),
        need=(720.0, 800.0),
        unit="MB",
    )
    assert refusal_lines(refusal) == [
        "  a: B15 memory, need 720 MB, have 512 MB",
        "  b: B15 memory, need 800 MB, have 100 MB",
    ]
