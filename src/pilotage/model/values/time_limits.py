"""Time limits as Slurm writes them."""

import re


def seconds(limit: str) -> int | None:
    """Seconds of a time limit as Slurm writes it; None for none.

    ``30`` are minutes, ``30:00`` minutes and seconds, ``1-12`` days and hours, ``1-12:30`` and minutes.
    """
    match = re.fullmatch(r"(?:(\d{1,6})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?", limit.strip(), re.ASCII)
    if match is None:
        return None
    days, *rest = match.groups()
    numbers = [int(part) for part in rest if part is not None]
    # Behind days hours come first, and minutes where no days are said, unless all three parts are.
    first = 0 if days is not None or len(numbers) == 3 else 1
    clock = sum(number * unit for number, unit in zip(numbers, (3600, 60, 1)[first:], strict=False))
    return int(days or 0) * 86_400 + clock
