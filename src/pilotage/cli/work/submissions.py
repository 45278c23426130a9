"""Remember which documents this home submitted, so that the same one is not submitted twice by mistake."""

import hashlib
import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pilotage.cli.configuration import settings
from pilotage.cli.errors import CommandFailure
from pilotage.cli.terminal.output import ago, confirmed, echo, is_interactive
from pilotage.cli.terminal.states import state_of_task

if TYPE_CHECKING:
    from pilotage.client import Client

MOST = 200
"""Most documents that are remembered, the latest ones."""

MOST_SKEW = 600.0
"""Most seconds between the submission by this clock and the creation by the server's."""

FILE = "submitted.json"


def ask_if_known(client: "Client", content: str) -> None:
    """Ask on a terminal whether to submit a document again; elsewhere only say that it was submitted.

    Raises CommandFailure if the user declines.
    """
    submission = _read().get(_key(content))
    if not submission:
        return
    tasks = [view for task in submission["tasks"] if (view := _task(client, task, submission["time"]))]
    if not tasks:
        return
    named = ", ".join(f"task {view['id']} ({state_of_task(view)})" for view in tasks[:5])
    more = f" and {len(tasks) - 5} more" if len(tasks) > 5 else ""
    echo(f"the same document was submitted {ago(submission['time'])} ago as {named}{more}", err=True)
    if is_interactive() and not confirmed("submit it again?"):
        raise CommandFailure("not submitted; --yes submits it without a question")


def remember(content: str, tasks: list[int]) -> None:
    """Remember the tasks of a document. A home that cannot be written remembers nothing."""
    submissions = _read()
    submissions[_key(content)] = {"time": time.time(), "tasks": tasks[:10]}
    latest = sorted(submissions.items(), key=lambda item: item[1]["time"])[-MOST:]
    path = _path()
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{FILE}.{os.getpid()}")
        part.write_text(json.dumps(dict(latest)))
        part.replace(path)


def _read() -> dict[str, Any]:
    try:
        submissions = json.loads(_path().read_text())
        return {
            key: submission
            for key, submission in submissions.items()
            if isinstance(submission["time"], float) and submission["tasks"]
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _task(client: "Client", task: int, submitted: float) -> Any:
    # Another store may be at the same address now: then the number means nothing, or another task.
    from pilotage.client import NotFound

    with suppress(NotFound):
        view = client.task(task)
        return view if abs(view["created"] - submitted) < MOST_SKEW else None
    return None


def _key(content: str) -> str:
    """Return the document's name: the same text at the same server."""
    return hashlib.sha256(f"{settings().url}\n{content}".encode()).hexdigest()


def _path() -> Path:
    return settings().home / FILE
