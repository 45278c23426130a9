"""Pages as HTML: the templates, and the words that they share with the command line."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Protocol

from pilotage.explain.remarks import sentence
from pilotage.explain.words import amount, few, number
from pilotage.model.rules.plain_states import job_state, task_state
from pilotage.model.values.phrases import LAST_MOMENT, core_time, day, duration, moment, percent, plural, size
from pilotage.release import full_version
from pilotage.server.web import drawing

if TYPE_CHECKING:
    from jinja2 import Environment


Sections = Mapping[str, str]
"""Addresses of sections by their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Menu:
    """A menu of the page: sections that all people have, and those for operators and site admins."""

    label: str
    everybody: Sections
    operators: Sections
    site_admins: Sections = field(default_factory=dict)

    def sections(self, sees_all: bool, is_site_admin: bool) -> Sections:
        """Return what a person has of it."""
        more = self.operators if sees_all else self.site_admins if is_site_admin else {}
        return {**self.everybody, **more}


MENUS = (
    Menu(
        label="Work",
        everybody={
            "Now": "/",
            "Tasks": "/tasks",
            "Workflows": "/workflows",
            "Datasets": "/datasets",
            "Use": "/use",
        },
        operators={},
    ),
    Menu(
        label="Places",
        everybody={"Sites": "/sites", "Queues": "/queues", "Storages": "/storages"},
        operators={"Pilots": "/pilots", "Transfers": "/transfers"},
        site_admins={"Pilots": "/pilots"},
    ),
    Menu(
        label="Administration",
        everybody={"Shares": "/shares", "Quotas": "/quotas", "Sessions": "/sessions", "Audit": "/audit"},
        operators={
            "Breakers": "/admin",
            "Simulate": "/simulate",
            "Servers": "/admin/servers",
            "Federation": "/admin/federation",
            "Tokens": "/admin/tokens",
            "Days": "/admin/days",
        },
    ),
)
"""The menus of the page."""


def capital(text: str) -> str:
    """Return a text with a capital at its beginning, as a sentence."""
    return text[:1].upper() + text[1:]


def middle(text: str, most: int = 40) -> str:
    """Return a text of at most so many characters: the middle of a longer one is left out."""
    if len(text) <= most:
        return text
    end = (most - 1) // 2
    return f"{text[: most - 1 - end]}…{text[-end:]}"


def page(template: str, context: Mapping[str, object], *, is_fragment: bool = False) -> str:
    """Return a page as HTML; as a fragment only its block ``live``."""
    templates = environment()
    values = dict(context)
    values["parts"] = templates.get_template("parts.html").module
    values["layout"] = "fragment.html" if is_fragment else "base.html"
    return templates.get_template(template).render(values)


def sign_in(after: str, fault: str, providers: Sequence[str]) -> str:
    """Return the page with the ways to sign in."""
    return environment().get_template("sign-in.html").render(after=after, fault=fault, providers=providers)


def signed_in(after: str) -> str:
    """Return the page that leads a person who signed in with a provider to a page."""
    return environment().get_template("signed-in.html").render(after=after)


def refusal(status: int, detail: str, visit: object = None) -> str:
    """Return the page with the reason of a refusal, and the menus if a person asked."""
    values = {"status": status, "phrase": HTTPStatus(status).phrase, "detail": detail}
    return environment().get_template("refusal.html").render(**values, visit=visit, page=None)


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
        "middle": middle,
    }
    templates.globals |= {
        "menus": MENUS,
        "version": full_version(),
        "asset": asset,
        "draw": drawing,
        "state_class": drawing.state_class,
        "job_state": job_state,
        "task_state": task_state,
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
