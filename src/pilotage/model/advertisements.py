"""Advertisements of sites: what they tell of themselves, and what was matched since (M2, M5)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from .classad import ClassAdError, Lexeme, constant, read, tokens
from .types import DESCRIBED

Constant = Any
"""A number, a text, a truth value, or a list of these."""

AdSource = Literal["native", "pushed"]

MOST_BYTES = 20_000
"""Bytes of an advertisement that a site sends."""

MOST_ATTRIBUTES = 200
"""Attributes of an advertisement."""

PERIODS = 3
"""Periods of ``brokerage.advertise_period`` after which an advertisement matches nothing any more (M2)."""

COUNTS = ("CurrentJobs", "CurrentSubmittingJobs", "MaxJobs", "MaxSubmittingJobs")
"""Attributes that are counts: whole numbers, none below 0."""

KEPT = frozenset(
    ["name", "mytype", "curmatches", "jobsmatchedsincelastadvertisement", "worldtime", "worldchance"]
)
"""Attributes that are Pilotage's own, in lower case: no site sets them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAdvertisement:
    """A new advertisement of a site, with which its matches start anew (M5)."""

    __pydantic_config__ = DESCRIBED

    site: str
    """The site."""
    source: AdSource
    """Whether it was read from the batch system, or sent by the site's administrators."""
    attributes: Mapping[str, Constant] = field(default_factory=dict)
    """Attributes of its ClassAd; those read from a batch system have what it runs besides our pilots too."""
    requirements: str = ""
    """What it asks of jobs, beside what the federation declares for it; empty: nothing."""
    replaces: int | None = None
    """Number of the advertisement that it takes the place of, 0 for none: where another stands it is left
    out. None: whichever stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advertisement:
    """An advertisement as it stands, with what was handed to the site since."""

    __pydantic_config__ = DESCRIBED

    site: str
    """The site."""
    source: AdSource
    """Whether it was read from the batch system, or sent by the site's administrators."""
    attributes: Mapping[str, Constant] = field(default_factory=dict)
    """Attributes of its ClassAd."""
    requirements: str = ""
    """What it asks of jobs, beside what the federation declares for it; empty: nothing."""
    number: int
    """Counts the site's advertisements."""
    time: float
    """When it was made, in s since 1970."""
    pilots: int
    """Our pilots there when it was made, those not submitted yet left out where the site told its counts."""
    submitting: int
    """Those of them that were created or submitted."""
    matched: int = 0
    """Jobs that were matched to it since (M5)."""
    live_pilots: int = 0
    """Our pilots there now."""

    @property
    def current_jobs(self) -> int:
        """Jobs at the site when it was made, running and submitting (M5)."""
        return self._count("CurrentJobs", self.pilots)

    @property
    def current_submitting_jobs(self) -> int:
        """Jobs among them that were submitting (M5)."""
        return self._count("CurrentSubmittingJobs", self.submitting)

    @property
    def handed(self) -> int:
        """JobsMatchedSinceLastAdvertisement (M5).

        A job that was matched and the pilot that runs it are at the site once: whichever are more count.
        """
        return max(self.matched, self.live_pilots - self.pilots, 0)

    def _count(self, name: str, seen: int) -> int:
        told = self.attributes.get(name)
        if not isinstance(told, int):
            return seen
        # A site that counts itself counts our pilots too; a batch system may not list yet what was just
        # submitted.
        return told if self.source == "pushed" else max(told, seen)


def current(advertisement: Advertisement | None, time: float, period: float) -> bool:
    """Tell whether there is an advertisement that is not too old to match (M2)."""
    return advertisement is not None and time - advertisement.time <= PERIODS * period


def parsed(text: str, site: str) -> NewAdvertisement:
    """Read a ClassAd, ``[ Name = value; ... ]``, that a site sends. Raises :class:`ClassAdError`.

    Its values are constants; only ``Requirements`` is an expression.
    """
    if len(text.encode()) > MOST_BYTES:
        raise ClassAdError(1, f"has more than {MOST_BYTES} bytes")
    found = _Ad(text)
    found.read()
    for name in COUNTS:
        value = found.attributes.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 10**9:
            raise ClassAdError(found.places[name] + 1, f"{name} is {value!r}, no count from 0 to 10**9")
    return NewAdvertisement(
        site=site, source="pushed", attributes=found.attributes, requirements=found.requirements
    )


def faults(attributes: Mapping[str, object]) -> list[tuple[str, str]]:
    """The names of attributes that a site cannot have, each with what is wrong."""
    found = []
    for name, value in attributes.items():
        if not (name.isascii() and name.isidentifier()) or name.lower() in KEPT | {"requirements", "rank"}:
            found.append((name, "is no name of an attribute that a site may set"))
        elif not _is_constant(value):
            found.append((name, "is no number, text, truth value, or list of these"))
    return found


def _is_constant(value: object) -> bool:
    if isinstance(value, list | tuple):
        return len(value) <= 1000 and all(_is_constant(part) for part in value)
    return isinstance(value, bool | int | str) or (isinstance(value, float) and abs(value) < 1e300)


class _Ad:
    """Reads the text of an ad."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens(text, MOST_BYTES, 20 * MOST_ATTRIBUTES)
        self._at = 0
        self.attributes: dict[str, Constant] = {}
        self.places: dict[str, int] = {}
        self.requirements = ""

    def read(self) -> None:
        """Read all of it."""
        self._needs("[")
        while not self._takes("]"):
            self._attribute()
            if not self._takes(";"):
                self._needs("]")
                break
        if self._now.kind != "end":
            raise self._unexpected("the end")

    def _attribute(self) -> None:
        token = self._now
        if token.kind != "name":
            raise self._unexpected("the name of an attribute")
        self._at += 1
        self._needs("=")
        # Attributes have no case: counts are kept under the name by which Pilotage looks for them.
        name = {known.lower(): known for known in COUNTS}.get(token.text.lower(), token.text)
        if name.lower() in {known.lower() for known in self.places} or name.lower() in KEPT:
            raise ClassAdError(token.start + 1, f"{name} is given twice, or is not the site's to give")
        if len(self.places) >= MOST_ATTRIBUTES:
            raise ClassAdError(token.start + 1, f"has more than {MOST_ATTRIBUTES} attributes")
        self.places[name] = self._now.start
        if name.lower() == "requirements":
            self.requirements = self._expression()
        else:
            self.attributes[name] = self._value(0)

    def _expression(self) -> str:
        start = self._now.start
        while self._now.text not in (";", "]", "") or self._now.kind == "text":
            self._at += 1
        text = self._text[start : self._now.start].strip()
        try:
            read(text, of_site=True)
        except ClassAdError as error:
            raise ClassAdError(start + error.place, error.problem) from error
        return text

    def _value(self, depth: int) -> Constant:
        sign = -1 if self._takes("-") else 1
        token = self._now
        self._at += 1
        if token.kind == "number":
            number = constant(token.text, token.start)
            return sign * number if isinstance(number, int | float) else number
        if sign == 1 and token.kind == "text":
            return constant(token.text, token.start)
        if sign == 1 and token.text.lower() in ("true", "false"):
            return token.text.lower() == "true"
        if sign == 1 and token.text == "{" and depth < 3:
            return self._list(depth)
        self._at -= 1
        raise self._unexpected("a number, a text, true, false or a list of these")

    def _list(self, depth: int) -> Constant:
        values: list[Constant] = []
        while not self._takes("}"):
            values.append(self._value(depth + 1))
            if not self._takes(","):
                self._needs("}")
                break
        return tuple(values)

    @property
    def _now(self) -> Lexeme:
        return self._tokens[self._at]

    def _takes(self, sign: str) -> bool:
        if self._now.kind == "sign" and self._now.text == sign:
            self._at += 1
            return True
        return False

    def _needs(self, sign: str) -> None:
        if not self._takes(sign):
            raise self._unexpected(repr(sign))

    def _unexpected(self, expected: str) -> ClassAdError:
        found = repr(self._now.text) if self._now.text else "the end"
        return ClassAdError(self._now.start + 1, f"{expected} was expected, found {found}")
