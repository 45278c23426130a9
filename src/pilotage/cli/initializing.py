"""The first minute: a federation of this machine, and a task for it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from . import adding
from .configuration import settings
from .errors import BadInput, CommandFailure
from .output import Json, echo, show_json

TASK = """\
# Counts the words of each file, one job a file. Then: pilotage fetch NUMBER --to results
name: words
command: [sh, -c, 'xargs -d "\\n" wc -w < inputs.txt > words.txt']
inputs:
  - {{ storages: [{storage}], glob: "example/*.txt" }}
outputs: [words.txt]
ram: 100                # MB
walltime: 600           # s
"""

TEXTS = {"one.txt": "one\n", "two.txt": "one two\n", "three.txt": "one two three\n"}
"""The inputs of the example, by name."""

app = typer.Typer()


@app.command(epilog="Example: pilotage init && pilotage up")
def init(json_output: Json = False) -> None:
    """Describe this machine as a federation, and write an example task.

    The federation goes to the home's federation.yaml, the task and the storage to the working directory.
    """
    file, task = settings().home / adding.FILE, Path("task.yaml")
    for known, remedy in (
        (file, "pilotage up uses it; add to it with pilotage federation add, or remove it to begin again"),
        (task, "begin in another directory"),
    ):
        if known.exists():
            raise BadInput(f"{known} is there already: {remedy}")
    records = adding.local().records
    records["sites"][0]["nucleus"] = True
    adding.write(file, records)
    _example(task, records)
    if json_output:
        show_json({"federation": str(file), "task": str(task), **records})
        return
    queue, storage = records["queues"][0], records["storages"][0]
    cores, memory = queue["computing_element"]["max_pilots"], queue.get("max_memory")
    echo(f"{file}: this machine, {cores} jobs at a time" + (f" of {memory} MB each" if memory else ""))
    echo(f"{task}: an example; its files are in {storage['url'].removeprefix('file://')}")
    echo("\nNext:\n    pilotage up                          # the server; leave it running")
    echo("    pilotage submit task.yaml --watch    # in another terminal")


def _example(task: Path, records: Mapping[str, list[dict[str, Any]]]) -> None:
    storage = records["storages"][0]
    folder = Path(storage["url"].removeprefix("file://")) / "example"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in TEXTS.items():
            (folder / name).write_text(text)
        task.write_text(TASK.format(storage=storage["name"]))
    except OSError as error:
        raise CommandFailure(f"{error.filename} cannot be written: {error.strerror}") from error
