"""The lines of an error that people read first."""

LONGEST_ENDING = 200
"""Most characters kept from the end of an error."""

PAYLOAD = "payload exited with code"
"""How the error of a payload begins."""


def telling_line(error: str) -> str:
    """Return the most useful line of an error: a payload's last line, else the first line."""
    lines = _lines(error)
    if not lines:
        return ""
    return lines[-1] if lines[0].startswith(PAYLOAD) else lines[0]


def last_line(error: str) -> str:
    """Return the last line of an error as it was written; of a long one, its end."""
    return _lines(error)[-1][-LONGEST_ENDING:] if error.strip() else ""


def in_short(error: str) -> str:
    """Return the error of a task in one line: of a traceback its last line, then which jobs failed."""
    lines = _lines(error)
    if len(lines) > 1 and PAYLOAD in lines[0]:
        return f"{lines[-1]} ({lines[0]})"
    return lines[0] if lines else ""


def is_long(error: str) -> bool:
    """Return whether ``in_short`` leaves out lines of an error."""
    return len(_lines(error)) > (2 if PAYLOAD in error else 1)


def _lines(error: str) -> list[str]:
    return [line.strip() for line in error.splitlines() if line.strip()]
