"""Why jobs are held for their secrets, in the words that stand for who holds the task."""

STAYING = "its secrets, which no queue hands to another Pilotage: pilotage set TASK queues=OTHERS,"
"""Holds a task with secrets at a queue that forwards; the brokerages place none there."""


def missing(name: str) -> str:
    """Return what holds a task whose secret is not set."""
    return f"its missing secret {name} (pilotage secrets set {name})"


def damaged(name: str) -> str:
    """Return what holds a task whose secret is not what its key encrypted."""
    return f"its damaged secret {name} (pilotage secrets set {name})"
