"""Writes the reference pages from the code: ``make docs``. A test holds that they are up to date."""

import re
from pathlib import Path

from draw import draw_stale
from generators.conformance import brokerage, conformance
from generators.dependencies import dependencies
from generators.fields import fields_of_files
from generators.flow import pictures, states, steps, time_outs
from generators.interfaces import api, command_line, python_client, settings
from generators.roles import roles

_RULES = re.compile(r" \((?:[BDEFMPX]\d{1,2}|T)(?:(?:, ?| to | and )(?:[BDEFMPX]\d{1,2}|T))*\)")
NOTE = "<!-- Written by `make docs` from the code; do not edit. -->\n\n"


def pages() -> dict[str, str]:
    """The reference's files by name, with their text."""
    return {
        "states.md": NOTE + _for_users(states()),
        "timeouts.md": NOTE + _for_users(time_outs()),
        "brokerage.md": NOTE + brokerage(),
        "conformance.md": NOTE + conformance(),
        "documents.md": NOTE + _for_users(fields_of_files()),
        "api.md": NOTE + _for_users(api()),
        "cli.md": NOTE + _for_users(command_line()),
        "settings.md": NOTE + settings(),
        "client.md": NOTE + _for_users(python_client()),
        "dependencies.md": NOTE + dependencies(),
        "roles.md": NOTE + roles(),
        "steps.md": NOTE + _for_users(steps()),
        **pictures(),
    }


def _for_users(text: str) -> str:
    """Take the numbers of published rules out of sentences; the pages on rules keep them."""
    return _RULES.sub("", text)


if __name__ == "__main__":
    reference = Path(__file__).parent / "reference"
    reference.mkdir(exist_ok=True)
    for name, text in pages().items():
        (reference / name).write_text(text)
    draw_stale()
