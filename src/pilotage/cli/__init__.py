"""The command line: what people type. Commands parse, ask the server or a pure policy, and print."""


def main() -> None:
    """The ``pilotage`` command."""
    from .app import app

    app()
