"""The command line: what people type. Commands parse, ask the server or a pure policy, and print."""

import gc
import sys

# httpx imports a command line of its own, with pygments and rich: a third of the time of a short command.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]


def main() -> None:
    """The ``pilotage`` command."""
    # A short command makes little garbage, but its modules make many objects to look through.
    gc.set_threshold(50_000)
    from .app import app

    app()
