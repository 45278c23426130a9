"""Why jobs are held for their secrets, in the words that stand for who holds the task."""

NO_KEY = "its server, which lacks the key of the secrets (secrets.key in the server's home),"
"""Holds a task whose secrets its server cannot decrypt."""


def missing(name: str) -> str:
    """Return what holds a task whose secret is not set."""
    return f"its missing secret {name} (pilotage secrets set {name})"
