"""Questions to people at a terminal."""

import sys

import typer


def is_interactive() -> bool:
    """Return whether somebody can answer: standard input is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


def confirmed(question: str) -> bool:
    """Ask a question on standard error. Return whether the answer is yes; no answer means no."""
    return typer.confirm(question, err=True)
