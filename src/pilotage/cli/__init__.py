"""The command line: what people type. Commands parse, ask the server or a pure policy, and print."""

import sys

# httpx imports a command line of its own, with pygments and rich: a third of the time of a short command.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]


def main() -> None:
    """The ``pilotage`` command."""
    from .app import app

    app()
