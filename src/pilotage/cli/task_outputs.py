"""The outputs of a task, read from the server page by page."""

from typing import TYPE_CHECKING, Any

from .errors import BadInput, CommandFailure

if TYPE_CHECKING:
    from .client import Client

PAGE = 10_000
"""Outputs of one request."""

MOST_PAGES = 1000
"""Most requests."""


def listed(client: "Client", task: int) -> list[dict[str, Any]]:
    """Return the descriptions of all outputs. The server may be anybody's. Raises CommandFailure."""
    found: list[dict[str, Any]] = []
    after = None
    for _ in range(MOST_PAGES):
        page = _files(client.get(f"/tasks/{task}/outputs", limit=PAGE, after=after))
        found += page
        # A server of an earlier release knows no pages, and answers all at once.
        if len(page) != PAGE:
            return found
        after = str(page[-1].get("file"))
    raise CommandFailure(f"task {task} has more than {MOST_PAGES * PAGE} outputs")


def _files(answer: Any) -> list[dict[str, Any]]:
    files = answer.get("files") if isinstance(answer, dict) else None
    if not isinstance(files, list) or not all(isinstance(file, dict) for file in files):
        raise BadInput("the server's answer is no list of outputs; set PILOTAGE_URL to a Pilotage's address")
    return files
