"""Pictures that the server draws as SVG: bars by state. Each has its numbers as text for screen readers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from pilotage.model.rules.plain_states import JOB_STATES, TASK_STATES, PlainWord

MOST_MARKS = 500
"""Most marks of a picture. What has more becomes a table."""

LABELS: Mapping[str, str] = {
    "ok": PlainWord.DONE,
    "move": PlainWord.FINISHING,
    "run": PlainWord.RUNNING,
    "wait": PlainWord.WAITING,
    "err": PlainWord.FAILED,
    "off": PlainWord.CANCELLED,
}
"""Looks in the order of a bar, with their words."""

_LOOKS = {word: look for look, word in LABELS.items()}
CLASSES: Mapping[str, str] = {
    **{str(state): _LOOKS[plain.word] for state, plain in (*JOB_STATES.items(), *TASK_STATES.items())},
    **dict.fromkeys(("done", "published"), "ok"),
    "delivering": "move",
}
"""Looks of states; all others wait."""

SIGNS = {"ok": "✓", "run": "▶", "move": "⇄", "wait": "…", "err": "✕", "off": "–"}
"""A sign beside each state, because many people cannot tell the colours apart."""


def state_class(state: str) -> str:
    """Return the look of a state."""
    return CLASSES.get(state, "wait")


def look(word: str) -> str:
    """Return the look of a word."""
    return _LOOKS[word]


def sign(state: str) -> str:
    """Return the sign of a state."""
    return SIGNS[state_class(state)]


@dataclass(frozen=True, slots=True)
class BarPart:
    """Records of one look: their number and their name."""

    look: str
    count: int
    label: str


def parts(counts: Mapping[str, int]) -> list[BarPart]:
    """Return counts by state as parts of a bar."""
    counts_by_look: dict[str, int] = {}
    for state, count in counts.items():
        look = state_class(str(state))
        counts_by_look[look] = counts_by_look.get(look, 0) + count
    return [BarPart(look, counts_by_look[look], LABELS[look]) for look in LABELS if counts_by_look.get(look)]


def done(counts: Mapping[str, int]) -> int:
    """Return how many records ended well."""
    return sum(count for state, count in counts.items() if state_class(str(state)) == "ok")


def bar(counts: Mapping[str, int], height: int = 10, look: str = "") -> Markup:
    """Return one bar of all jobs by state. Even one job in a million is visible."""
    bar_parts = parts(counts)
    whole = sum(part.count for part in bar_parts)
    label = ", ".join(f"{part.count:,} {part.label}" for part in bar_parts) or "no jobs yet"
    widths = _widths([part.count for part in bar_parts], whole)
    rectangles, x = [], 0.0
    for part, width in zip(bar_parts, widths, strict=True):
        rectangles.append(
            f'<rect x="{x:.1f}" width="{max(width - 2, 1):.1f}" height="{height}" class="{part.look}"/>'
        )
        x += width
    track = "" if bar_parts else f'<rect width="1000" height="{height}" class="t"/>'
    return Markup(
        f'<svg class="states {look}" viewBox="0 0 1000 {height}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(label)}">{track}{"".join(rectangles)}</svg>'
    )


def _widths(counts: Sequence[float], whole: float, least: float = 8.0) -> list[float]:
    if not whole:
        return []
    raw = [max(least, 1000 * count / whole) for count in counts]
    return [width * 1000 / sum(raw) for width in raw]


def meter(part: float, whole: float, label: str) -> Markup:
    """Return a small bar that shows a part of a whole."""
    width = 0.0 if whole <= 0 else min(100.0, 100 * part / whole)
    return Markup(
        f'<svg class="meter" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(label)}">'
        f'<rect width="100" height="8" class="t"/><rect width="{width:.1f}" height="8" class="f"/></svg>'
    )


def slots(occupied: float, emergency: float, promised: float, whole: float) -> Markup:
    """Return the slots that a share holds, the emergency ones apart, with a mark at its promised number."""
    label = f"{occupied:g} held, {emergency:g} of them in emergency, {promised:g} promised, of {whole:g}"
    scale = 100 / max(whole, occupied, promised, 1.0)
    return _marked(scale * occupied, scale * promised, label, scale * emergency)


def use(used: float, target: float) -> Markup:
    """Return a fraction that is used, with a mark at its target."""
    return _marked(100 * used, 100 * target, f"{used:.0%} used, target {target:.0%}")


def _marked(filled: float, mark: float, label: str, urgent: float = 0.0) -> Markup:
    """Return a bar of percents. The last ``urgent`` ones of the filled part look different."""
    return Markup(
        f'<svg class="meter" viewBox="0 0 100 12" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(label)}">'
        f'<rect y="2" width="100" height="8" class="t"/>'
        f'<rect y="2" width="{filled:.1f}" height="8" class="f"/>'
        f'<rect y="2" x="{filled - urgent:.1f}" width="{urgent:.1f}" height="8" class="err"/>'
        f'<rect x="{min(mark, 98):.1f}" width="2" height="12" class="mark"/></svg>'
    )


@dataclass(frozen=True, slots=True)
class TrendStep:
    """A value of a line from ``time`` (s since 1970) on."""

    time: float
    value: float


def trend(
    steps: Sequence[TrendStep],
    targets: Sequence[TrendStep],
    begin: float,
    end: float,
    length: float,
    label: str,
) -> Markup:
    """Return values over time as a line of steps, each ``length`` s long, with their targets as a second one.

    Where a step is missing, the line has a gap. Values above 1 need a scale: the largest one is the top.
    """
    top = max([1.0, *(step.value for step in (*steps, *targets))])

    def path(line: Sequence[TrendStep], look: str) -> str:
        parts, last = [], None
        for step in line:
            x = 600 * (max(step.time, begin) - begin) / (end - begin)
            until = 600 * (min(step.time + length, end) - begin) / (end - begin)
            y = 2 + 76 * (1 - step.value / top)
            parts.append(f"{'V' if last == step.time else f'M{x:.1f} '}{y:.1f}H{until:.1f}")
            last = step.time + length
        return f'<path class="{look}" d="{"".join(parts)}"/>' if parts else ""

    return Markup(
        f'<svg class="trend" viewBox="0 0 600 80" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(label)}"><path class="base" d="M0 79H600"/>'
        f"{path(targets, 'target')}{path(steps, 'value')}</svg>"
    )


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """A state of a record from ``start`` to ``end`` (s since 1970 UTC), and why it was entered."""

    state: str
    start: float
    end: float
    cause: str


def time_line(spans: Sequence[TimeSpan]) -> Markup:
    """Return the states of a record along time; the last ones only, if there are very many."""
    latest = spans[-MOST_MARKS:]
    if not latest:
        return Markup("")
    counts = [max(span.end - span.start, 0.0) for span in latest]
    whole = sum(counts)
    widths = _widths(counts, whole, 3.0) if whole else [1000 / len(latest)] * len(latest)
    marks, x = [], 0.0
    for span, width in zip(latest, widths, strict=True):
        look = state_class(span.state)
        marks.append(
            f'<rect x="{x:.1f}" width="{max(width - 1, 1):.1f}" height="20" class="{look}">'
            f"<title>{escape(span.state)}, {span.end - span.start:,.0f} s</title></rect>"
        )
        x += width
    label = ", then ".join(f"{span.state} for {span.end - span.start:,.0f} s" for span in latest[-12:])
    return Markup(
        '<svg class="states tall" viewBox="0 0 1000 20" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(label)}">{"".join(marks)}</svg>'
    )
