"""Notifications of a task: how many were sent, wait or failed."""

from collections.abc import Mapping

from pilotage.model.documents.remarks import Remark
from pilotage.model.records.states import NotificationState
from pilotage.model.values.phrases import duration

Counts = Mapping[NotificationState, tuple[int, str, float]]
"""By state: how many notifications, an error of one of them, and when the next is sent, in s since 1970."""


def of_task(task: int, counts: Counts, time: float) -> Remark | None:
    """Return a remark on the notifications of a task; None if it has none. ``time`` is in s since 1970."""
    if not counts:
        return None
    counted = ", ".join(f"{counts[state][0]} {state}" for state in NotificationState if state in counts)
    line = f"notifications: {counted}"
    count, error, wake_at = counts.get(NotificationState.WAITING, (0, "", 0.0))
    if count and error:
        line = f"{line}; the next goes out in {duration(wake_at - time)}: {error}"
    _, error, _ = counts.get(NotificationState.FAILED, (0, "", 0.0))
    if error:
        line = f"{line}; failed: {error}"
    command = f"pilotage notify list --task {task}"
    return Remark(kind="notification", subject=f"task:{task}", text=line, command=command)
