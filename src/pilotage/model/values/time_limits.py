"""Time limits in Slurm's syntax."""

import re


def seconds(limit: str) -> int | None:
    """Return the seconds of a time limit in Slurm's syntax; None for none.

    ``30`` means minutes, ``30:00`` minutes and seconds, ``1-12`` days and hours, ``1-12:30`` also minutes.
    """
    match = re.fullmatch(r"(?:(\d{1,6})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?", limit.strip(), re.ASCII)
    if match is None:
        return None
    days, *rest = match.groups()
    numbers = [int(part) for part in rest if part is not None]
    # After days, hours come first. Without days, minutes come first, unless there are three parts.
    first = 0 if days is not None or len(numbers) == 3 else 1
    clock = sum(number * unit for number, unit in zip(numbers, (3600, 60, 1)[first:], strict=False))
    return int(days or 0) * 86_400 + clock
