"""The server, and the demonstration."""

import logging
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pilotage.cli.administration import serving
from pilotage.cli.configuration import settings, store_name, using_store
from pilotage.cli.errors import BadInput, CommandFailure
from pilotage.cli.places.adding import FILE
from pilotage.cli.terminal.output import Json, echo

if TYPE_CHECKING:
    from socket import socket

    from pilotage.settings import Settings


class LogFormat(StrEnum):
    """Lines for people, or a JSON object a line for programs."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """The least severe lines that are shown."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class AccessLog(StrEnum):
    """What is logged of requests: nothing, counts by the minute, or a line for each."""

    OFF = "off"
    SUMMARY = "summary"
    FULL = "full"


FormatOption = Annotated[
    LogFormat,
    typer.Option("--log-format", envvar="PILOTAGE_LOG_FORMAT", help="The form of the log on standard error."),
]

LevelOption = Annotated[
    LogLevel,
    typer.Option("--log-level", envvar="PILOTAGE_LOG_LEVEL", help="The least severe lines of the log."),
]

AccessOption = Annotated[
    AccessLog,
    typer.Option(
        "--access-log",
        envvar="PILOTAGE_ACCESS_LOG",
        help="Log requests: full is a line for each, summary a line a minute for each route and status.",
    ),
]

app = typer.Typer()
log = logging.getLogger(__name__)

DeclaredFederation = Annotated[
    Path | None,
    typer.Argument(
        metavar="[FEDERATION]", help="A federation to put in force first, else federation.yaml of the home."
    ),
]


@app.command(epilog="Example: pilotage up federation.yaml")
def up(
    file: DeclaredFederation = None,
    federation: Annotated[Path | None, typer.Option(help="The same as an option.")] = None,
    only: Annotated[str | None, typer.Option(metavar="LOOP,...", help="Run these loops only.")] = None,
    no_api: Annotated[bool, typer.Option("--no-api", help="Run loops without the API.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Put the file in force also where it loses jobs or files.")
    ] = False,
    host: Annotated[
        str | None, typer.Option(help="The address to listen on; by default PILOTAGE_URL's.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="The port to listen on, likewise.")
    ] = None,
    log_format: FormatOption = LogFormat.TEXT,
    log_level: LevelOption = LogLevel.INFO,
    access_log: AccessOption = AccessLog.OFF,
) -> None:
    """Start the server: the API and the loops, until it is interrupted.

    The server loads the file if it has changed since its last load. Otherwise the current federation stays in
    force, with all later changes, and the server prints this.

    The first start makes an operator's token and writes it to the file token in the home.
    """
    import gc

    from pilotage import log_lines

    # Loaded modules stay for ever: searching them for garbage took a quarter of the start. The server
    # collects once it runs.
    gc.disable()
    config = settings()
    if not no_api:
        config = serving.reachable(config.at(host, port))
    elif host or port is not None:
        config = config.at(host, port)
    file = file or federation or _of_home(config)
    with log_lines.logged(log_format.value, log_level.value, access=access_log.value):
        _run(config, file, only, with_api=not no_api, force=force, is_terminal=log_format is LogFormat.TEXT)


def _of_home(settings: "Settings") -> Path | None:
    file = settings.home / FILE
    return file if file.is_file() else None


def _run(
    settings: "Settings",
    declared: Path | None,
    only: str | None,
    *,
    with_api: bool,
    force: bool,
    is_terminal: bool,
) -> None:
    if is_terminal:  # what follows loads much of Python, for many seconds on a busy machine
        echo(f"starting the server for {settings.url}, with {declared or 'no federation'} ...", err=True)
    from pilotage.federation.documents import read
    from pilotage.flow.calls.administration import acceptance
    from pilotage.flow.calls.administration.federation_changes import WorkInTheWay
    from pilotage.model.records.federation import Federation
    from pilotage.server import process as server

    loops = _loops(only)
    federation = read(Federation, declared, acceptance.faults) if declared else None
    store = store_name(settings.store)
    with ExitStack() as stack:
        # Open the port first, so that a port in use fails before the store is touched.
        listener = stack.enter_context(_listener(settings)) if with_api else None
        if with_api:
            stack.enter_context(serving.home_of(settings))
        address = serving.place(settings) if with_api else serving.sibling_path(settings)
        if is_terminal:
            echo(f"Pilotage {address}, store {store}; Ctrl-C ends it", err=True)
        else:
            log.info("Pilotage %s, store %s", address, store)
        stack.enter_context(using_store(settings.store))
        path = str(declared.resolve()) if declared else ""
        # A log is read by others, and later: the code is for a terminal alone.
        if code := serving.one_time_code(settings) if with_api and is_terminal else None:
            page = f"{settings.url}/open?code={code.code}"
            echo(f"the page, signed in, once, within 10 minutes: {page}", err=True)
        try:
            server.run(settings, federation, only=loops, listener=listener, path=path, force=force, code=code)
        except WorkInTheWay as error:
            raise BadInput(f"{declared} is not put in force: {error}. Or lose it, with --force") from error


def _loops(only: str | None) -> tuple[str, ...]:
    """Return the named loops; none means all. Raises ``BadInput`` for an unknown loop."""
    from pilotage.server import process as server

    loops = tuple(name.strip() for name in only.split(",")) if only is not None else ()
    unknown = [name for name in loops if name not in server.LOOPS]
    if unknown:
        raise BadInput(f"there is no loop {', '.join(unknown)}; there are {', '.join(server.LOOPS)}")
    return loops


def _listener(settings: "Settings") -> "socket":
    """Open the API's socket. Raises ``CommandFailure`` if something else already listens."""
    import os

    from pilotage.cli.administration.home_lock import server_of
    from pilotage.server import process as server

    try:
        return server.listen(settings.host, settings.port)
    except OSError as error:
        if holder := server_of(settings.home):
            raise serving.home_taken(settings, holder) from error
        remedy = "give another with --port and in PILOTAGE_URL, or end what listens there"
        address = f"port {settings.port} of {settings.host}"
        # If the host has no address, this number is no errno.
        number = error.errno or 0
        reason = os.strerror(number) if number > 0 else error.strerror
        raise CommandFailure(f"{address} cannot be listened on: {reason}; {remedy}") from error


@app.command(epilog="Example: pilotage demo --directory results")
def demo(
    directory: Annotated[
        Path | None, typer.Option(help="Where the results go; ./pilotage-demo without.")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the sites and the server's home behind.")
    ] = False,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="The server's port, else a free one.")
    ] = None,
    json_output: Json = False,
) -> None:
    """Run one real task all the way on this machine: five sites, their pilots and their transfers."""
    from pilotage.demo.run import run

    raise typer.Exit(run(directory, keep, json_output, port))
