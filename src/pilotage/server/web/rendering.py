"""Pages as HTML: the templates, and the words that they share with the command line."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Protocol

from pilotage.explain.remarks import sentence
from pilotage.explain.words import amount, few, number
from pilotage.model.values.phrases import LAST_MOMENT, core_time, day, duration, moment, percent, plural, size
from pilotage.release import full_version
from pilotage.server.web import drawing

if TYPE_CHECKING:
    from jinja2 import Environment


NAVIGATION: Sequence[tuple[str, str]] = (
    ("Now", "/"),
    ("Tasks", "/tasks"),
    ("Workflows", "/workflows"),
    ("Sites", "/sites"),
    ("Queues", "/queues"),
    ("Storages", "/storages"),
    ("Shares", "/shares"),
    ("Use", "/use"),
)
"""Sections of the page, with their addresses."""

FOR_OPERATORS: Sequence[tuple[str, str]] = (
    ("Pilots", "/pilots"),
    ("Transfers", "/transfers"),
    ("Simulate", "/simulate"),
    ("Admin", "/admin"),
)
"""Further sections that only operators have."""


def capital(text: str) -> str:
    """Return a text with a capital at its beginning, as a sentence."""
    return text[:1].upper() + text[1:]


def page(template: str, context: Mapping[str, object], *, is_fragment: bool = False) -> str:
    """Return a page as HTML; as a fragment only its block ``live``."""
    templates = environment()
    values = dict(context)
    values["parts"] = templates.get_template("parts.html").module
    values["layout"] = "fragment.html" if is_fragment else "base.html"
    return templates.get_template(template).render(values)


def sign_in(after: str, fault: str) -> str:
    """Return the page of the form for a token."""
    return environment().get_template("sign-in.html").render(after=after, fault=fault)


def refusal(status: int, detail: str) -> str:
    """Return the page with the reason of a refusal."""
    return (
        environment()
        .get_template("refusal.html")
        .render(status=status, phrase=HTTPStatus(status).phrase, detail=detail)
    )


@cache
def environment() -> "Environment":
    """Return the templates. They are loaded at the first page: most servers of tests show none."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(
        loader=PackageLoader("pilotage.server.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    templates.filters |= {
        "thousands": thousands,
        "plural": plural,
        "number": number,
        "amount": amount,
        "moment": moment,
        "day": day,
        "span": span,
        "size": size,
        "core_time": core_time,
        "percent": percent,
        "iso": iso,
        "in_short": in_short,
        "sentence": sentence,
        "capital": capital,
    }
    templates.globals |= {
        "navigation": NAVIGATION,
        "for_operators": FOR_OPERATORS,
        "version": full_version(),
        "asset": asset,
        "draw": drawing,
        "state_class": drawing.state_class,
    }
    return templates


@cache
def asset(name: str) -> str:
    """Return the address of a static file, which changes with its content."""
    content = (files("pilotage.server.web") / "static" / name).read_bytes()
    return f"/static/{name}?{hashlib.sha256(content).hexdigest()[:12]}"


def thousands(count: float) -> str:
    """Return a number with its thousands apart: ``2,210``."""
    return f"{count:,.0f}"


def span(seconds: float | None) -> str:
    """Return a duration in its largest unit; a dash for none."""
    return "–" if seconds is None else duration(seconds)


def iso(time: float) -> str:
    """Return a moment (s since 1970 UTC) for machines."""
    return datetime.fromtimestamp(min(max(time, 0.0), LAST_MOMENT), UTC).isoformat(timespec="seconds")


def counted(counts: Mapping[Any, int]) -> str:
    """Return counts as words: ``3 running, 2 failed``."""
    return ", ".join(f"{value:,} {key}" for key, value in counts.items() if value) or "none"


class _TrippedBreaker(Protocol):
    @property
    def what(self) -> str: ...
    @property
    def reason(self) -> str: ...


def in_short(breakers: Iterable[_TrippedBreaker]) -> list[str]:
    """Return the subjects of breakers, grouped by reason."""
    by_reason: dict[str, list[str]] = {}
    for breaker in breakers:
        by_reason.setdefault(breaker.reason, []).append(breaker.what)
    return [f"{few(list(dict.fromkeys(subjects)))}: {reason}" for reason, subjects in by_reason.items()]
