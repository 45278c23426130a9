"""The demonstration from start to end: one real task, all the way, on this machine."""

import json
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from string import Template
from types import FrameType
from typing import Any

from rich.console import Console

from pilotage.demo import checking, service, standard_library, summary
from pilotage.demo.outcome import DemoOutcome, choice_of, document, show
from pilotage.demo.progress import Moment, display
from pilotage.demo.service import DemoServer, ServerError
from pilotage.federation.documents import read, read_tasks
from pilotage.model.documents.serialization import to_document
from pilotage.model.records.federation import Federation
from pilotage.model.records.states import LIVE_TASKS, TaskState
from pilotage.model.values.phrases import not_installed

HERE = Path(__file__).parent
HOLDERS = ("borealis", "cirrus")
"""The sites with the input in their storages, half each."""

PERIOD = 0.25
"""Seconds between two requests to the server."""

TABLE = "statistics.csv"
NO_PICTURE = f"No picture is drawn: {not_installed('matplotlib', 'pictures')}"


class DemonstrationError(Exception):
    """The task did not end as expected."""


def run(directory: Path | None, keep: bool, json_output: bool, port: int | None) -> int:
    """Run the demonstration. Return 0 if the result equals the direct computation, else 1.

    The results go to ``directory``, by default ``./pilotage-demo``. ``keep`` also keeps the sites with their
    storages and the server's home. ``json_output`` prints one document at the end, and progress on standard
    error.
    """
    console = Console(stderr=json_output)
    work = Path(tempfile.mkdtemp(prefix="pilotage-demo-"))
    try:
        with _interruptible():
            return _run(work, directory or Path("pilotage-demo"), console, json_output, port)
    except (ServerError, DemonstrationError) as error:
        console.print("The demonstration failed:", style="red", end=" ")
        console.print(str(error), markup=False, highlight=False, soft_wrap=True)
        if not keep:
            console.print("With --keep the server's log and the pilots' directories can be looked at.")
        return 1
    except KeyboardInterrupt:
        console.print("Interrupted; everything that was started is stopped.")
        return 130
    finally:
        if keep:
            console.print(f"The sites and the server's home stay in {work}", highlight=False)
        else:
            shutil.rmtree(work)


def _run(work: Path, directory: Path, console: Console, json_output: bool, port: int | None) -> int:
    files = standard_library.sources()
    federation = prepare(work, files)
    console.print(
        f"{len(files)} modules of Python's standard library, half at each of {' and '.join(HOLDERS)};\n"
        "five sites on this machine, each with its own storage, pilots and limits.",
        highlight=False,
        soft_wrap=True,
    )
    if find_spec("matplotlib") is None:
        console.print(NO_PICTURE, markup=False, highlight=False, soft_wrap=True)
    with service.running(federation, work / "home", port) as server:
        outcome = _work(server, work, directory, console)
    console.print("Comparing the result with a direct computation of the same files ...")
    expected = checking.directly(files, processes=2)
    differences = checking.differences(checking.table(outcome.results[0]), expected)
    if json_output:
        print(json.dumps(document(outcome, differences), indent=2))
    else:
        show(console, outcome, differences, len(expected) - 1)
    return 1 if differences else 0


def prepare(work: Path, files: Sequence[tuple[str, Path]]) -> Path:
    """Make the sites' directories with their input. Return the federation file."""
    sites = work / "sites"
    standard_library.spread(files, [sites / name / "storage" for name in HOLDERS])
    template = Template((HERE / "federation.yaml").read_text(encoding="utf-8"))
    federation = work / "federation.yaml"
    federation.write_text(template.substitute(directory=sites), encoding="utf-8")
    for storage in read(Federation, federation).storages:
        Path(storage.url.removeprefix("file://")).mkdir(parents=True, exist_ok=True)
    return federation


def _work(server: DemoServer, work: Path, directory: Path, console: Console) -> DemoOutcome:
    """Submit the task, show it until it ends, and gather its results."""
    begun = time.monotonic()
    specs = read_tasks(HERE / "task.yaml")
    submitted = server.post("/tasks", {"tasks": [to_document(spec) for spec in specs]})
    number = submitted["tasks"][0]["id"]
    with display(console) as progress:
        while (task := server.get(f"/tasks/{number}"))["state"] in LIVE_TASKS:
            server.check()
            progress.show(moment(server, task))
            time.sleep(PERIOD)
    seconds = time.monotonic() - begun
    if task["state"] != TaskState.FINISHED:
        raise DemonstrationError(f"the task is {task['state']}: {task['error']}{_failures(server, number)}")
    federation = read(Federation, work / "federation.yaml")
    return DemoOutcome(
        task=task,
        queues=summary.by_queue(
            federation.queues,
            server.get(f"/tasks/{number}/jobs", limit=10_000)["jobs"],
            server.get("/transfers", state="done", limit=10_000)["transfers"],
        ),
        choices=[choice_of(choice) for choice in server.get(f"/tasks/{number}/explain")["choices"]],
        results=fetch(server.get(f"/tasks/{number}/outputs")["files"], directory),
        seconds=seconds,
    )


def moment(server: DemoServer, task: dict[str, Any]) -> Moment:
    """Return the current state for display."""
    transfers: Counter[str] = Counter()
    for share in server.get("/shares")["shares"]:
        transfers.update(share["transfers"])
    queues = tuple(server.get("/queues")["queues"])
    return Moment(
        task=f"{task['name']} {task['state']}", jobs=task["jobs"], transfers=transfers, queues=queues
    )


def fetch(files: Sequence[dict[str, Any]], directory: Path) -> list[Path]:
    """Copy the merge job's outputs from the nucleus, the table first.

    Raises ``DemonstrationError`` where the table, or a copy of a file, is missing.
    """
    directory.mkdir(parents=True, exist_ok=True)
    merged = {file["name"].rpartition("/")[2]: file for file in files if file["kind"] == "merge"}
    copied: list[Path] = []
    for name in (TABLE, *sorted(merged.keys() - {TABLE})):
        if name not in merged or not merged[name]["replicas"]:
            raise DemonstrationError(f"the merge job's {name} is nowhere")
        url = merged[name]["replicas"][0]["url"]
        copied.append(Path(shutil.copyfile(url.removeprefix("file://"), directory / name)))
    return copied


def _failures(server: DemoServer, task: int) -> str:
    jobs = server.get(f"/tasks/{task}/jobs", state="failed", limit=5)["jobs"]
    return "".join(f"\n  job {job['id']} at {job['queue']}: {job['error']}" for job in jobs)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C or SIGTERM end the demonstration, but let nothing interrupt the cleanup."""
    numbers = (signal.SIGINT, signal.SIGTERM)

    def interrupt(_: int, __: FrameType | None) -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    previous = [signal.signal(number, interrupt) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, previous, strict=True):
            signal.signal(number, handler)
