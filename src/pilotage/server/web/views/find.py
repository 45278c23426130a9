"""The field in the header: a task by number, a job, or tasks by name."""

from collections.abc import Sequence
from urllib.parse import urlencode

from starlette.routing import Route

from pilotage.server.web.pages import Redirect, Visit, view

LONGEST = 150
"""Most characters of a word; a name in a filter may have some more."""


def find(visit: Visit) -> Redirect:
    """Go to what a word names."""
    word = visit.request.query_params.get("for", "").strip()[:LONGEST]
    kind, _, number = word.rpartition(":")
    if number.isdecimal() and len(number) <= 18 and kind.lower() in ("", "task", "job"):
        return Redirect(address=f"/{kind.lower() or 'task'}s/{int(number)}")
    pattern = word if "*" in word or "?" in word else f"*{word}*"
    return Redirect(address=f"/tasks?{urlencode({'name': pattern})}")


ROUTES: Sequence[Route] = (view("/find", find),)
