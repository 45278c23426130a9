"""The links between sites: drawn up to a dozen sites, a matrix above that. Both have a table as text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import cos, hypot, log10, pi, sin

from markupsafe import Markup, escape

from pilotage.model.values.phrases import plural

MOST_DRAWN = 12
"""Most sites of a picture."""

WIDTH, HEIGHT, RADIUS = 720, 440, 150
MOST_IN_ROW, ROW_HEIGHT = 3, 170
"""Most sites that are drawn side by side, and the height of such a picture."""

LARGE, SMALL = 24, 18
"""Radius of a nucleus, and of any other site."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapSite:
    """A site of the picture."""

    name: str
    is_nucleus: bool
    is_bad: bool
    running: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MapLink:
    """The traffic from one site to another: MB/s, none if unknown, and the files on their way."""

    source: str
    destination: str
    rate: float | None
    files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteMap:
    """Links as a picture or as a matrix, and the busiest ones as rows."""

    picture: Markup
    links: Sequence[MapLink]
    more: int
    sources: Sequence[str] = ()
    destinations: Sequence[str] = ()
    cells: Mapping[tuple[str, str], MapLink]


def drawn(sites: Sequence[MapSite], links: Sequence[MapLink], limit: int, side: int) -> SiteMap:
    """Return the links between sites; at most so many rows, and so many sites on each side of a matrix."""
    busiest = sorted(links, key=lambda link: (-link.files, -(link.rate or 0), link.source, link.destination))
    if len(sites) <= MOST_DRAWN:
        return SiteMap(
            picture=picture(sites, links), links=busiest[:limit], more=max(len(links) - limit, 0), cells={}
        )
    sources = _first(busiest, "source", side)
    destinations = _first(busiest, "destination", side)
    cells = {(link.source, link.destination): link for link in links}
    count = sum(link.source in sources and link.destination in destinations for link in links)
    return SiteMap(
        picture=Markup(""),
        links=(),
        more=len(links) - count,
        sources=sources,
        destinations=destinations,
        cells=cells,
    )


def _first(links: Sequence[MapLink], end: str, limit: int) -> list[str]:
    return sorted(list(dict.fromkeys(getattr(link, end) for link in links))[:limit])


def picture(sites: Sequence[MapSite], links: Sequence[MapLink]) -> Markup:
    """Return sites on a circle around the nuclei, or a few side by side, with links as wide as their
    throughput."""
    if not sites:
        return Markup("")
    height = ROW_HEIGHT if len(sites) <= MOST_IN_ROW else HEIGHT
    places = _places(sites)
    lines = [_line(link, places) for link in links if link.source in places and link.destination in places]
    label = (
        f"Map of {len(sites)} sites and {len(lines)} links between them; the table below has their numbers"
    )
    return Markup(
        f'<svg class="map" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">'
        f"{''.join(lines)}{''.join(_site(site, *places[site.name]) for site in sites)}</svg>"
    )


def _places(sites: Sequence[MapSite]) -> dict[str, tuple[float, float]]:
    nuclei = [site.name for site in sites if site.is_nucleus]
    satellites = [site.name for site in sites if not site.is_nucleus]
    if len(sites) <= MOST_IN_ROW:
        half = len(satellites) // 2
        return _row([*satellites[:half], *nuclei, *satellites[half:]])
    if not satellites:
        nuclei, satellites = [], nuclei
    inner = 0 if len(nuclei) == 1 else 60
    return _ring(nuclei, inner, 0.0) | _ring(satellites, RADIUS, pi / max(len(nuclei), 2))


def _row(names: Sequence[str]) -> dict[str, tuple[float, float]]:
    step = WIDTH / len(names)
    return {name: (step * (at + 0.5), ROW_HEIGHT / 2 - 10) for at, name in enumerate(names)}


def _ring(names: Sequence[str], radius: float, turn: float) -> dict[str, tuple[float, float]]:
    places = {}
    for at, name in enumerate(names):
        angle = 2 * pi * at / len(names) + turn - pi / 2
        # Wider than high: names need room beside their sites.
        places[name] = (WIDTH / 2 + 1.7 * radius * cos(angle), HEIGHT / 2 - 8 + radius * sin(angle))
    return places


def _line(link: MapLink, places: Mapping[str, tuple[float, float]]) -> str:
    (x1, y1), (x2, y2) = places[link.source], places[link.destination]
    length = hypot(x2 - x1, y2 - y1) or 1.0
    # Bent to the right of its way, so that both ways of a pair are visible.
    bend = max(18.0, 0.16 * length)
    x, y = (x1 + x2) / 2 - bend * (y2 - y1) / length, (y1 + y2) / 2 + bend * (x2 - x1) / length
    width = 1.0 if link.rate is None else 1.0 + 2.5 * log10(1 + max(link.rate, 0.0))
    rate = [f"{link.rate:.3g} MB/s"] if link.rate is not None else []
    files = [plural(link.files, "file")] if link.files else []
    facts = [f"{link.source} to {link.destination}", *rate, *files]
    look = "busy" if link.files else "idle"
    path = f"M{x1:.0f} {y1:.0f}Q{x:.0f} {y:.0f} {x2:.0f} {y2:.0f}"
    # The middle of the curve is half as far from the chord as the point that bends it.
    middle_x, middle_y = (x + (x1 + x2) / 2) / 2, (y + (y1 + y2) / 2) / 2 + 4
    words = ", ".join([*rate, *files])
    text = f'<text x="{middle_x:.0f}" y="{middle_y:.0f}" class="files">{words}</text>' if words else ""
    return (
        f'<path d="{path}" class="{look}" stroke-width="{min(width, 12):.1f}">'
        f"<title>{escape(', '.join(facts))}</title></path>{text}"
    )


def _site(site: MapSite, x: float, y: float) -> str:
    name = site.name if len(site.name) <= 18 else f"{site.name[:17]}…"
    sign = "✕ " if site.is_bad else ""
    label = f"{site.name}: {site.running:,} jobs at pilots" + (", in trouble" if site.is_bad else "")
    radius = LARGE if site.is_nucleus else SMALL
    return (
        f'<circle cx="{x:.0f}" cy="{y:.0f}" r="{radius}" '
        f'class="{"err" if site.is_bad else "ok"}"><title>{escape(label)}</title></circle>'
        f'<text x="{x:.0f}" y="{y + 5:.0f}" class="count">{_short(site.running)}</text>'
        f'<text x="{x:.0f}" y="{y + radius + 18:.0f}" class="name">{sign}{escape(name)}</text>'
    )


def _short(count: int) -> str:
    """Return a number in four characters at most: ``12k``."""
    for size, unit in ((1_000_000, "M"), (1000, "k")):
        if count >= size:
            return f"{count // size}{unit}"
    return str(count)
