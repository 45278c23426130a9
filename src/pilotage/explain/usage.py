"""Lines of text about an attempt's use of resources, from its time line."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from pilotage.model.records.logs import Point

_BARS = " ▁▂▃▄▅▆▇█"


def of_attempt(attempt: int, points: Sequence[Point]) -> Iterator[str]:
    """Yield an attempt's total usage, and its cores and memory over time; nothing without points."""
    if not points:
        return
    seconds, cpu, _, read, written, received, sent = points[-1]
    moved = f"{_io(read, written)}, {_net(received, sent)}"
    yield f"  attempt {attempt} over {seconds:.0f} s: {cpu:.0f} s of CPU time, {moved}"
    cores = [
        max(0.0, after[1] - before[1]) / max(after[0] - before[0], 0.001)
        for before, after in pairwise(((0.0,) * 7, *points))
    ]
    memory = [point[2] for point in points]
    yield f"    cores in use  |{bars(cores, max(cores))}| at most {max(cores):.1f}"
    yield f"    memory in use |{bars(memory, max(memory))}| at most {max(memory):.0f} MB"


def _io(read: float, written: float) -> str:
    return f"{read / 1000:.1f} MB read from disks and {written / 1000:.1f} MB written"


def _net(received: float, sent: float) -> str:
    return f"{received / 1000:.1f} MB received and {sent / 1000:.1f} MB sent"


def bars(values: Sequence[float], maximum: float) -> str:
    """Return values from 0 to ``maximum`` as bars of one character each."""
    maximum = maximum or 1.0
    return "".join(_BARS[round(value / maximum * (len(_BARS) - 1))] for value in values)
