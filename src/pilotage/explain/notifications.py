"""Sent notifications of a task, and those that failed."""

from collections.abc import Mapping

from pilotage.model.documents.remarks import Remark
from pilotage.model.records.states import NotificationState
from pilotage.model.values.phrases import duration

Found = Mapping[NotificationState, tuple[int, str, float]]
"""By state: how many notifications, an error of one of them, and when the next is sent, in s since 1970."""


def of_task(task: int, found: Found, time: float) -> Remark | None:
    """Return a remark on the notifications of a task; None: it has none. ``time`` is in s since 1970."""
    if not found:
        return None
    counted = ", ".join(f"{found[state][0]} {state}" for state in NotificationState if state in found)
    line = f"notifications: {counted}"
    many, error, wake_at = found.get(NotificationState.WAITING, (0, "", 0.0))
    if many and error:
        line = f"{line}; the next goes out in {duration(wake_at - time)}: {error}"
    _, error, _ = found.get(NotificationState.FAILED, (0, "", 0.0))
    if error:
        line = f"{line}; failed: {error}"
    command = f"pilotage notify list --task {task}"
    return Remark(kind="notification", subject=f"task:{task}", text=line, command=command)
