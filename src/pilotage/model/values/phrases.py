"""Numbers and times as people read them."""

from datetime import UTC, datetime

from pilotage.model.values.durations import DAY, HOUR, MINUTE

LAST_MOMENT = 253_402_300_799.0
"""The last second that has a date of four digits for its year, in s since 1970."""


def moment(time: float) -> str:
    """Return a moment (s since 1970) as date and time in UTC."""
    return datetime.fromtimestamp(min(max(time, 0.0), LAST_MOMENT), UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def day(time: float) -> str:
    """Return the day of a moment (s since 1970) in UTC: ``2026-11-27``."""
    return moment(time)[:10]


def plural(count: int, noun: str) -> str:
    """Return ``1 job`` or ``3 jobs``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def reuse(stage: str, task: int | None, reason: str) -> str:
    """Return what a resumed workflow does with a stage: it skips it for a task, or runs it for a reason."""
    return f"{stage} runs: {reason}" if reason else f"{stage} is skipped: task {task} has made its outputs"


def jobs_wait(count: int) -> str:
    """Return ``1 job waits`` or ``3 jobs wait``."""
    return f"{plural(count, 'job')} {'waits' if count == 1 else 'wait'}"


def duration(seconds: float) -> str:
    """Return a time in one unit: ``40 s``, ``1 min``, ``90 min``, ``5 h``, ``3 d``. It is at least 0."""
    for least, length, unit in ((2 * DAY, DAY, "d"), (2 * HOUR, HOUR, "h"), (MINUTE, MINUTE, "min")):
        if seconds >= least:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def size(count: float | None) -> str:
    """Return bytes with three digits: ``1.2 GB``; a dash for none."""
    if count is None:
        return "–"
    value = float(count)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} PB"


def core_time(seconds: float) -> str:
    """Return core time: ``40 s``, ``12 min``, and from an hour on ``1,250.5 h``."""
    return f"{seconds / HOUR:,.1f} h" if seconds >= HOUR else duration(seconds)


def percent(part: float, whole: float) -> str:
    """Return a part of a whole: ``81%``; empty if there is no whole."""
    return f"{100 * part / whole:.0f}%" if whole else ""


def not_installed(package: str, extra: str) -> str:
    """Return that a package is missing, and the command that installs it, quoted for every shell."""
    return f"{package} is not installed: pip install 'pilotage[{extra}]'"
