"""Pictures of compared runs, as SVG: ratios with their intervals, and every run of every policy."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import log
from xml.sax.saxutils import escape

from pilotage.simulation.metrics import label, number
from pilotage.simulation.trials import Estimate, Trial

SHOWN = ("work", "done_99", "wait", "short_wait", "task_time", "task_time_95", "share_error", "moved")
"""Metrics with their own panel and row of ratios."""

COLOURS = ("#1b6ca8", "#d1495b", "#3a7d44", "#8d5a97", "#b8860b", "#2f4858", "#e07a5f", "#5f6f52")
LEFT, WIDTH, ROW = 110, 640, 22
PANEL, TALL, ACROSS = 240, 170, 3


def ratios(compared: Mapping[str, Mapping[str, Estimate]]) -> str:
    """Draw the ratio of each policy to the first, with its interval, on a logarithmic scale with a line at
    1."""
    first, *policies = compared
    drawn = [(name, policy, compared[policy][name]) for name in SHOWN for policy in policies]
    drawn = [(name, policy, estimate) for name, policy, estimate in drawn if estimate.ratio is not None]
    ends = [
        value for *_, estimate in drawn for value in (estimate.ratio, estimate.low, estimate.high) if value
    ]
    low, high = max(0.1, min([0.8, *ends])), min(10.0, max([1.25, *ends]))

    def at(value: float) -> float:
        inside = min(high, max(low, value))
        return LEFT + (WIDTH - LEFT - 150) * (log(inside) - log(low)) / (log(high) - log(low))

    rows = 0
    parts = [_text(LEFT, 16, f"ratio to {first}, paired by seed, with 95 % intervals", "start")]
    for name in SHOWN:
        of_metric = [(policy, estimate) for metric, policy, estimate in drawn if metric == name]
        if of_metric:
            parts.append(_text(LEFT - 8, 44 + ROW * rows, name.replace("_", " "), "end"))
        for policy, estimate in of_metric:
            y = 40 + ROW * rows
            parts += _interval(at, estimate, y, _colour(compared, policy))
            parts.append(_text(WIDTH - 4, y + 4, f"{policy} {estimate.ratio:.2f}", "end"))
            rows += 1
    bottom = 36 + ROW * rows
    parts.append(_line(at(1), 24, at(1), bottom, "#888"))
    parts += [_text(at(mark), bottom + 14, f"{mark:g}", "middle") for mark in _marks(low, high)]
    return _svg(WIDTH, bottom + 24, parts)


def runs(trials: Sequence[Trial]) -> str:
    """Draw a panel per metric, with a dot per run and a line at the mean of each policy."""
    policies = list(dict.fromkeys(trial.policy for trial in trials))
    parts: list[str] = []
    for place, name in enumerate(SHOWN):
        x, y = PANEL * (place % ACROSS), TALL * (place // ACROSS)
        values = [(trial.policy, getattr(trial.metrics, name)) for trial in trials]
        parts += _panel(x, y, name, policies, [(of, value) for of, value in values if value is not None])
    return _svg(PANEL * ACROSS, TALL * -(-len(SHOWN) // ACROSS), parts)


def _panel(
    x: int, y: int, name: str, policies: Sequence[str], values: Sequence[tuple[str, float]]
) -> Iterator[str]:
    top = max((value for _, value in values), default=0.0)
    words = f"up to {number(top)}" if values else "in no run"
    yield _text(x + 10, y + 16, f"{label(name)}, {words}", "start")
    yield _line(x + 10, y + TALL - 30, x + PANEL - 10, y + TALL - 30, "#888")
    step = (PANEL - 20) / len(policies)
    for place, policy in enumerate(policies):
        policy_values = [value for of, value in values if of == policy]
        middle, colour = x + 10 + step * (place + 0.5), COLOURS[place % len(COLOURS)]
        heights = [y + TALL - 30 - (TALL - 60) * value / (top or 1.0) for value in policy_values]
        if heights:
            mean = sum(heights) / len(heights)
            yield _line(middle - step / 3, mean, middle + step / 3, mean, colour)
        yield from (_dot(middle, height, colour) for height in heights)
        yield _text(middle, y + TALL - 14, policy, "middle", size=9)


def _interval(at: Callable[[float], float], estimate: Estimate, y: float, colour: str) -> Iterator[str]:
    if estimate.low is not None and estimate.high is not None:
        yield _line(at(estimate.low), y, at(estimate.high), y, colour)
    if estimate.ratio is not None:
        yield _dot(at(estimate.ratio), y, colour)


def _colour(policies: Iterable[str], policy: str) -> str:
    return COLOURS[list(policies).index(policy) % len(COLOURS)]


def _marks(low: float, high: float) -> Iterator[float]:
    return (mark for mark in (0.1, 0.2, 0.5, 1, 2, 5, 10) if low <= mark <= high)


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{colour}" stroke-width="1.5"/>'


def _dot(x: float, y: float, colour: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}" fill-opacity="0.8"/>'


def _text(x: float, y: float, words: str, anchor: str, size: int = 11) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"'
    return f"<text {place}>{escape(words)}</text>"


def _svg(width: float, height: float, parts: Iterable[str]) -> str:
    box = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {box} font-family="sans-serif">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>", ""])
