"""Archive ended records to files, and delete them from the store."""

import time
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from pilotage.cli.configuration import has_store, settings, store_name, using_store
from pilotage.cli.errors import BadInput, CommandFailure
from pilotage.cli.terminal.output import Json, echo, show_json
from pilotage.model.values.durations import LEAST_ARCHIVE_DAYS

app = typer.Typer(help="Archive what ended long ago.", no_args_is_help=True)


@app.command(epilog="Example: pilotage history archive --older-than 90 --to /archive/pilotage")
def archive(
    older_than: Annotated[
        float, typer.Option(min=LEAST_ARCHIVE_DAYS, help="Days since a task, transfer or pilot ended.")
    ],
    to: Annotated[Path, typer.Option(metavar="DIRECTORY", help="Where the file of this run goes.")],
    json_output: Json = False,
) -> None:
    """Write records that ended long ago to a file of JSON lines, and delete them from the store.

    It runs on a machine that can reach the store itself, even while a server runs. Outputs stay where they
    are.
    """
    from pilotage.flow.loops import archiving
    from pilotage.flow.outside.membership import joined
    from pilotage.store import ARCHIVE
    from pilotage.store.audit.commands import commanded

    config = settings()
    if not has_store(config.store):
        # Opening a missing store would create it, empty.
        raise BadInput(f"there is no store at {store_name(config.store)}; PILOTAGE_STORE names it")
    now = time.time()
    before = now - older_than * 86400
    moved: Counter[str] = Counter()
    with using_store(config.store), joined(config.store, (ARCHIVE,)) as (store, member):
        file = archiving.ArchiveFile(to, store.federation().name, now)
        try:
            with commanded(store, "archive", "store", changes_alone=True, older_than=older_than, to=str(to)):
                for batch in archiving.archive_alone(store, member, before, file.write):
                    moved[batch.kind] += len(batch.ids)
        except OSError as error:
            # Each batch is deleted from the store once it is in the file, so earlier batches stay archived.
            done = f"; {archiving.counted(moved)} were archived before" if moved else ""
            raise CommandFailure(f"{error.filename or file.path or to}: {error.strerror}{done}") from error
    if json_output:
        show_json({"file": str(file.path) if file.path else None, "records": dict(sorted(moved.items()))})
    elif moved:
        echo(f"{archiving.counted(moved)} archived to {file.path}")
    else:
        echo(f"nothing ended more than {older_than:g} days ago")
