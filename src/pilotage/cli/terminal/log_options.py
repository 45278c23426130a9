"""Options of the server's own log."""

from enum import StrEnum
from typing import Annotated

import typer


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


FormatOption = Annotated[
    LogFormat,
    typer.Option("--log-format", envvar="PILOTAGE_LOG_FORMAT", help="The form of the log on standard error."),
]
LevelOption = Annotated[
    LogLevel,
    typer.Option("--log-level", envvar="PILOTAGE_LOG_LEVEL", help="The least severe lines of the log."),
]
AccessOption = Annotated[
    bool,
    typer.Option("--access-log", envvar="PILOTAGE_ACCESS_LOG", help="Log a line for each request."),
]
