"""Back up the store, bring it back, and upgrade it."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pilotage.cli.configuration import has_store, settings, store_name, using_store
from pilotage.cli.errors import BadInput, CommandFailure
from pilotage.cli.terminal.output import Json, echo, show_json

if TYPE_CHECKING:
    from pilotage.settings import Settings
    from pilotage.store.restored import Restored

PilotsEnded = Annotated[
    bool, typer.Option("--pilots-ended", help="No earlier pilot runs at any site: jobs wait for none.")
]

app = typer.Typer(help="Back up the store, bring it back, and upgrade it.", no_args_is_help=True)


@app.command(epilog="Example: pilotage store backup /backup/pilotage-2026-11-26")
def backup(file: Annotated[Path, typer.Argument(help="A new file.")], json_output: Json = False) -> None:
    """Write the whole store to a file, while servers run.

    It runs on a machine that reaches the store itself; for PostgreSQL it needs pg_dump. The file has no
    tokens, and only you may read it. Outputs and inputs stay at their storages.
    """
    from pilotage.store import backup as backups

    config = _with_store()
    with _using(config.store):
        written = backups.backup(config.store, file)
    if json_output:
        show_json({"file": str(file), "bytes": written})
    else:
        echo(f"{file}: {written / 1e6:.1f} MB")


@app.command(epilog="Example: pilotage store restore /backup/pilotage-2026-11-26")
def restore(
    file: Annotated[Path, typer.Argument(help="A file that `pilotage store backup` wrote.")],
    replace: Annotated[bool, typer.Option("--replace", help="Delete what the store has now.")] = False,
    pilots_ended: PilotsEnded = False,
    json_output: Json = False,
) -> None:
    """Put a backup in the place of an empty store, and do what `restored` does.

    No server may run. PILOTAGE_STORE names the store; for PostgreSQL this needs pg_restore.
    """
    from pilotage.store import restore as restores

    config = settings()
    store_name(config.store)
    with _using(config.store):
        restores.restore(config.store, file, replace)
    _show(_restored(config, pilots_ended, str(file)), pilots_ended, json_output)


@app.command(epilog="Example: pilotage store rehearse /backup/pilotage-2026-11-26")
def rehearse(
    file: Annotated[Path, typer.Argument(help="A file that `pilotage store backup` wrote.")],
    json_output: Json = False,
) -> None:
    """Restore a backup into a scratch place, compare each row, and delete it again.

    Servers may run. For that time it needs as much space as the store, beside it.
    """
    from pilotage.store import rehearsal

    config = _with_store()
    with _using(config.store):
        done = rehearsal.rehearse(config.store, file)
    if json_output:
        show_json(asdict(done))
    else:
        echo(f"{file} can be restored: {done.rows:,} rows of {done.tables} tables, all alike")


@app.command(epilog="Example: pilotage store move postgresql+psycopg://pilotage@/pilotage")
def move(
    target: Annotated[str, typer.Argument(help="The URL of an empty database of PostgreSQL.")],
    json_output: Json = False,
) -> None:
    """Move the store from SQLite to PostgreSQL, with all that is under way.

    End all servers first. Tokens remain valid and pilots go on, if the servers return within their leases.
    The command compares each row, and renames the old file, so that no server uses it by mistake.
    """
    from pilotage.store import Store, moving
    from pilotage.store.audit.commands import commanded

    config = _with_store()
    with _using(config.store), _using(target):
        done = moving.move(config.store, target)
        with closing(Store.open(target)) as store, commanded(store, "move", "store"):
            pass
    if json_output:
        show_json(asdict(done))
        return
    echo(f"{done.rows:,} rows of {done.tables} tables are in PostgreSQL, all alike")
    echo(f"the old store is now {done.former}")
    echo("next: set PILOTAGE_STORE to the new URL, and start the servers")


@app.command(epilog="Example: pilotage store restored")
def restored(pilots_ended: PilotsEnded = False, json_output: Json = False) -> None:
    """Prepare a store that went back to an earlier time, before its first server starts.

    `restore` does this itself. Run it once after any other way back: a snapshot of a disk, PostgreSQL's
    archived log, a replica that lacked the last commits.

    No two records get the same number or attempt: new ones skip the numbers that the store may have
    forgotten. All tokens and pilots end. Jobs go to pilots again when the earlier payloads have surely ended.
    If you run it again while they still wait, the tokens that you have made since stay.
    """
    _show(_restored(_with_store(), pilots_ended), pilots_ended, json_output)


@app.command(epilog="Example: pilotage store upgrade\n\nExample: pilotage store upgrade --finish")
def upgrade(
    finish: Annotated[
        bool, typer.Option("--finish", help="Drop what only servers of the earlier version need.")
    ] = False,
    json_output: Json = False,
) -> None:
    """Bring the store up to date, while servers of the earlier version run on.

    Afterwards end each server, install the new version there, and start it. When no server of the earlier
    version is left, run it again with --finish.
    """
    from pilotage.store import upgrading

    config = _with_store()
    with _using(config.store):
        if finish:
            upgrading.finish(config.store)
        else:
            done = upgrading.upgrade(config.store)
    if json_output:
        show_json({"finished": True} if finish else asdict(done))
    elif finish:
        echo("the upgrade is finished: servers of the earlier version cannot use this store now")
    elif done.before == done.after:
        echo(f"the store is up to date: its tables have version {done.after}")
    else:
        echo(f"the tables had version {done.before}, and have version {done.after}")
        echo("next: end, upgrade and start each server; then pilotage store upgrade --finish")


@contextmanager
def _using(url: str) -> Iterator[None]:
    """Turn errors of a backup, of the store and of its database into a ``CommandFailure``."""
    from pilotage.store.backup import BackupError

    try:
        with using_store(url):
            yield
    except BackupError as error:
        raise CommandFailure(str(error)) from error


def _with_store() -> "Settings":
    config = settings()
    if not has_store(config.store):
        raise BadInput(f"there is no store at {store_name(config.store)}; PILOTAGE_STORE names it")
    return config


def _restored(settings: "Settings", pilots_ended: bool, file: str = "") -> "Restored":
    from pilotage.store import Store
    from pilotage.store import backup as backups
    from pilotage.store.audit.commands import commanded
    from pilotage.store.restored import restored

    with _using(settings.store):
        backups.refuse_while_used(settings.store)
        with closing(Store.open(settings.store)) as store:
            with commanded(store, "restore", "store", file=file, pilots_ended=pilots_ended):
                done = restored(store, pilots_ended)
            token = settings.home / "token"
            if token.is_file() and store.tokens.find(token.read_text().strip()) is None:
                # The next server writes a new one there.
                token.unlink()
    return done


def _show(done: "Restored", pilots_ended: bool, json_output: bool) -> None:
    from pilotage.model.values.phrases import moment

    if json_output:
        show_json(asdict(done))
        return
    if done.newest_task is None or done.accepted is None:
        echo("the store has no task: submit again all that were submitted")
    else:
        echo(f"the newest task is {done.newest_task}, accepted {moment(done.accepted)}")
        echo("later ones must be submitted again")
    echo(f"new tasks have numbers from {done.next_task}")
    echo(f"{done.jobs} live jobs go on; {done.pilots} pilots and the earlier tokens have ended")
    echo(f"jobs go to pilots again from {moment(done.matches_begin)}")
    if not pilots_ended:
        echo("    if no earlier pilot runs at any site, now: pilotage store restored --pilots-ended")
    echo("next: pilotage up, which writes a new operator's token where there is none")
