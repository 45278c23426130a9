"""All commands together, and how each ends."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from pilotage.cli.commands import LazyGroup
from pilotage.cli.errors import CommandFailure
from pilotage.cli.exit_codes import tell
from pilotage.cli.terminal.output import echo
from pilotage.client.errors import ClientError
from pilotage.federation.faults import BadFile
from pilotage.model.values.phrases import not_installed

EPILOG = (
    "Exit codes: 0 done; 1 something is not there or failed; 2 bad input or usage; "
    "3 the server cannot be reached; 4 wait --timeout ended before the tasks; run ends with its payload's. "
    "Settings: PILOTAGE_URL (else the home's running server, else http://127.0.0.1:8470), "
    "PILOTAGE_TOKEN (else that of pilotage login, else the file token in the home), PILOTAGE_HOME "
    "(~/.pilotage), PILOTAGE_STORE (else the file pilotage.sqlite in the home)."
)


class _Commands(LazyGroup):
    """Turns the exceptions of commands into a sentence and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        _open_what_is_closed()
        try:
            return super().invoke(ctx)
        except (BadFile, CommandFailure, ClientError) as failure:
            raise typer.Exit(tell(failure)) from None
        except ModuleNotFoundError as error:
            _needs_server(error)
            raise typer.Exit(CommandFailure.code) from None
        except BrokenPipeError:
            # The reader closed the pipe: end without a message.
            raise
        except OSError as error:
            if os.environ.get("PILOTAGE_DEBUG"):
                raise
            echo(_reason(error), err=True)
            raise typer.Exit(CommandFailure.code) from None


def _needs_server(error: ModuleNotFoundError) -> None:
    """Say what installs a package that the base installation lacks. Raise the error for others."""
    if os.environ.get("PILOTAGE_DEBUG") or (error.name or "pilotage").partition(".")[0] == "pilotage":
        raise error
    echo(not_installed(error.name or "a package", "server"), err=True)


def _open_what_is_closed() -> None:
    """Discard output to a stream that the shell closed, as with ``>&-``."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 -- for as long as the command runs


def _reason(error: OSError) -> str:
    """Return the system's message, with its file if there is one."""
    return ": ".join(str(part) for part in (error.filename, error.strerror or error) if part)


app = typer.Typer(
    cls=_Commands,
    name="pilotage",
    help="Submit work once; Pilotage chooses where each job runs, moves its data, and can say why.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        from pilotage.release import full_version

        typer.echo(full_version())
        raise typer.Exit


def _list_commands(context: typer.Context, value: bool) -> None:
    if value and isinstance(context.command, LazyGroup):
        typer.echo(context.command.all_commands(context))
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    commands: Annotated[
        bool,
        typer.Option("--commands", callback=_list_commands, is_eager=True, help="List all commands."),
    ] = False,
) -> None:
    """Options of every command."""
