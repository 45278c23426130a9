"""The first minute: a federation of this machine, and a task for it."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer

from pilotage.cli.configuration import settings
from pilotage.cli.errors import CommandFailure
from pilotage.cli.places import adding
from pilotage.cli.terminal.output import Json, echo, show_json

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
    Files that are there already stay as they are.
    """
    file, task = settings().home / adding.FILE, Path("task.yaml")
    is_new = not file.exists()
    records = _described(file) if is_new else _federation(file)
    storage = _storage_here(records)
    written = [*([str(file)] if is_new else ()), *(_example(task, storage) if storage else ())]
    if json_output:
        described = records if is_new else {}
        show_json({"federation": str(file), "task": str(task), "written": written, **described})
        return
    echo(_line_of_federation(file, records, is_new=is_new))
    if storage is None:
        echo(f"{task}: not written, for no queue of this machine has a storage in a folder")
    else:
        status = "an example" if str(task) in written else "kept as it is; the example"
        echo(f"{task}: {status}; its files are in {_folder(storage)}")
    echo("\nNext:\n    pilotage up                          # the server; leave it running")
    echo("    pilotage submit task.yaml --watch    # in another terminal")


def _described(file: Path) -> Mapping[str, Any]:
    """Write the federation of this machine, and return it."""
    records = adding.local().records
    records["sites"][0]["nucleus"] = True
    adding.write(file, records)
    return records


def _federation(file: Path) -> Mapping[str, Any]:
    """Return the federation that is there already."""
    from pilotage.federation.documents import read
    from pilotage.model.documents.serialization import to_document
    from pilotage.model.records.federation import Federation

    return dict(to_document(read(Federation, file)))


def _line_of_federation(file: Path, records: Mapping[str, Any], *, is_new: bool) -> str:
    if not is_new:
        return f"{file}: kept as it is; pilotage federation add adds to it"
    queue = records["queues"][0]
    cores, memory = queue["computing_element"]["max_pilots"], queue.get("max_memory")
    return f"{file}: this machine, {cores} jobs at a time" + (f" of {memory} MB each" if memory else "")


def _storage_here(records: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the first storage in a folder of this machine that a queue of this machine uses."""
    storages = {
        storage["name"]: storage for storage in records["storages"] if storage["url"].startswith("file://")
    }
    queues = (
        queue for queue in records["queues"] if (queue["computing_element"] or {}).get("kind") == "process"
    )
    return next((storages[queue["storage"]] for queue in queues if queue["storage"] in storages), None)


def _folder(storage: Mapping[str, Any]) -> str:
    return str(storage["url"]).removeprefix("file://")


def _example(task: Path, storage: Mapping[str, Any]) -> Iterator[str]:
    """Write the files of the example that are not there yet. Yield which."""
    folder = Path(_folder(storage)) / "example"
    files = {folder / name: text for name, text in TEXTS.items()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in {**files, task: TASK.format(storage=storage["name"])}.items():
            if not path.exists():
                path.write_text(text)
                yield str(path)
    except OSError as error:
        raise CommandFailure(f"{error.filename} cannot be written: {error.strerror}") from error
