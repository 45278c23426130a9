"""Advertisements of sites: descriptions of themselves (M2), and counts of other people's jobs (M5)."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Literal, NamedTuple

from pilotage.model.values.classad import LARGEST, ClassAdError, TokenReader, constant, read
from pilotage.model.values.types import DESCRIBED, SMALLEST

Constant = Any
"""A number, a text, a boolean, or a list of these."""

AdSource = Literal["native", "pushed"]

MOST_BYTES = 20_000
"""Most bytes of an advertisement that a site sends."""

MOST_ATTRIBUTES = 200
"""Most attributes of an advertisement."""

MOST_COUNT = 10**9
"""The largest count or limit of an advertisement."""

PERIODS = 3
"""Periods of ``brokerage.advertise_period`` after which an advertisement matches nothing (M2)."""


class AttributeType(NamedTuple):
    """A type of the attributes that Pilotage reads: its test of a value, and its name."""

    holds: Callable[[object], bool]
    words: str


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_COUNT


def _is_number(value: object) -> bool:
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    return numeric and 0 <= value <= LARGEST  # type: ignore[operator]


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(part, str) for part in value)


_COUNT = AttributeType(_is_count, f"count from 0 to {MOST_COUNT}")
_NUMBER = AttributeType(_is_number, f"number from 0 to {LARGEST}")
_TEXT = AttributeType(lambda value: isinstance(value, str), "text")
_TEXTS = AttributeType(_is_list_of_texts, "list of texts")
_TRUTH = AttributeType(lambda value: isinstance(value, bool), "truth value")

LIMITS = {
    "MaxJobs": "max_jobs",
    "MaxSubmittingJobs": "max_submitting_jobs",
    "MaxPendingJobs": "max_pending_jobs",
}
"""Attributes that limit a site's jobs, with the federation field where operators set the same."""

COUNTS = ("CurrentJobs", "CurrentSubmittingJobs", "PendingJobs", "RunningJobs")
"""Attributes that count a site's jobs: only the site, or its batch system, knows them."""

COUNTS_EVERYBODY = "CountsEverybody"
"""The attribute of a native site for whether its batch system shows other people's jobs."""

TYPES: Mapping[str, AttributeType] = {
    **dict.fromkeys((*LIMITS, *COUNTS, "Slots", "Cpus", "Gpus"), _COUNT),
    **dict.fromkeys(("MaxMemory", "MaxWalltime"), _NUMBER),
    **dict.fromkeys(("StationName", "EntryPoint", "MonitoringUrl"), _TEXT),
    **dict.fromkeys(("StationNames", "EntryPoints", "Queues"), _TEXTS),
    **dict.fromkeys(("Nucleus", COUNTS_EVERYBODY), _TRUTH),
}
"""The attributes that Pilotage reads, in its spelling, with their types."""

_KNOWN = {name.lower(): name for name in TYPES}

KEPT = frozenset(
    [
        *("name", "mytype", "curmatches", "jobsmatchedsincelastadvertisement", "advertisedat"),
        *("worldtime", "worldchance"),
    ]
)
"""Pilotage's own attributes, in lower case: no site sets them."""

_RESERVED = frozenset(["true", "false", "undefined", "error", "is", "isnt", "my", "target", "parent"])
"""Words of expressions, in lower case: no expression could read an attribute with such a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldPlaces:
    """Places at a site that waiting jobs could take in the next match-making cycle (M7, M8)."""

    __pydantic_config__ = DESCRIBED

    site: str
    """The site."""
    priority: int
    """The priority of these jobs: places are held against lower ones."""
    jobs: int
    """How many."""


@dataclass(frozen=True, kw_only=True)
class SitesWord:
    """A site's description of itself."""

    __slots__ = ()

    site: str
    """The site."""
    source: AdSource
    """Whether it comes from the batch system or from the site's administrators."""
    attributes: Mapping[str, Constant] = field(default_factory=dict)
    """Attributes of its ClassAd. From a batch system they include what it runs besides our pilots."""
    requirements: str = ""
    """What it requires of jobs, besides the federation's requirements for it; empty: nothing."""
    pilots: int = 0
    """Our pilots that its counts include. If the site counts, the commit fills this in."""
    submitting: int = 0
    """How many of these pilots wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAdvertisement(SitesWord):
    """A new advertisement of a site."""

    __pydantic_config__ = DESCRIBED

    replaces: int | None = None
    """Number of the advertisement that it replaces, 0 for none. If another one is current, this one is
    dropped. None: it replaces any."""
    answered: float | None = None
    """When the site's batch system was asked, in s since 1970. That is the age of the advertisement (M2).
    None: its age counts from the commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advertisement(SitesWord):
    """A current advertisement, with our pilots at the site."""

    __pydantic_config__ = DESCRIBED

    number: int
    """Number among the site's advertisements."""
    time: float
    """When the site, or its batch system, reported it, in s since 1970."""
    matched: int = 0
    """Jobs matched to it since, ended ones too (M5)."""
    pilot_slots: int = 0
    """Payloads that our pilots there can run at once (M5)."""

    @property
    def other_jobs(self) -> int:
        """Return how many jobs in its batch system are not our pilots (M5)."""
        return self._foreign_jobs("CurrentJobs", self.pilots)

    @property
    def other_submitting_jobs(self) -> int:
        """Return how many of the other jobs are entering its batch system (M5)."""
        return self._foreign_jobs("CurrentSubmittingJobs", self.submitting)

    @property
    def other_pending_jobs(self) -> int:
        """Return how many of the other jobs wait in its batch system (M6)."""
        name = "PendingJobs" if "PendingJobs" in self.attributes else "CurrentSubmittingJobs"
        return self._foreign_jobs(name, self.submitting)

    def count(self, name: str) -> int | None:
        """Return its count or limit; None if it has none, or an invalid one."""
        return as_count(self.attributes.get(name))

    def _foreign_jobs(self, name: str, our_jobs: int) -> int:
        return max(0, (self.count(name) or 0) - our_jobs)


def current(advertisement: Advertisement | None, time: float, period: float) -> bool:
    """Return whether there is an advertisement recent enough to match (M2)."""
    return advertisement is not None and time - advertisement.time <= PERIODS * period


def as_count(value: object) -> int | None:
    """Return a value if it is a count; None for any other."""
    return value if _is_count(value) else None  # type: ignore[return-value]


def canonical(attributes: Mapping[str, Constant]) -> dict[str, Constant]:
    """Return the attributes. Names that Pilotage reads get its spelling.

    Names ignore case. If one occurs twice, the last value stays.
    """
    return {_KNOWN.get(name.lower(), name): value for name, value in attributes.items()}


def usable(*parts: Mapping[str, Constant]) -> tuple[dict[str, Constant], dict[str, str]]:
    """Return the attributes that can be used, by Pilotage's names, and the faults of the others by name.

    If several parts give an attribute, the last one counts.
    """
    attributes: dict[str, Constant] = {}
    for part in parts:
        attributes |= canonical(part)
    faults = {name: fault for name, value in attributes.items() if (fault := problem(name, value))}
    return {name: value for name, value in attributes.items() if name not in faults}, faults


def problem(name: str, value: object) -> str:
    """Return the fault of an attribute in a site's advertisement; empty if it has none."""
    if not (name.isascii() and name.isidentifier()) or name.lower() in _RESERVED:
        return "is no name of an attribute"
    if name.lower() in KEPT:
        return "is Pilotage's own attribute, and not the site's to give"
    if not _is_constant(value):
        return f"is no text, truth value, number up to {LARGEST}, or list of these"
    type_ = TYPES.get(_KNOWN.get(name.lower(), name))
    if type_ is not None and not type_.holds(value):
        return f"is {_short_text(value)}, no {type_.words}"
    return ""


def _short_text(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def parsed(text: str, site: str) -> NewAdvertisement:
    """Parse a ClassAd, ``[ Name = value; ... ]``, sent by a site. Raises ``ClassAdError``.

    Its values are constants. Only ``Requirements`` is an expression.
    """
    if len(text.encode()) > MOST_BYTES:
        raise ClassAdError(1, f"has more than {MOST_BYTES} bytes")
    ad = _Ad(text)
    ad.read()
    for name, value in ad.attributes.items():
        if fault := problem(name, value):
            raise ClassAdError(ad.places[name] + 1, f"{name} {fault}")
    return NewAdvertisement(
        site=site, source="pushed", attributes=ad.attributes, requirements=ad.requirements
    )


def faults(attributes: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield attributes that operators cannot give a site, each with its fault."""
    names: set[str] = set()
    for name, value in attributes.items():
        standard_name = _KNOWN.get(name.lower(), name)
        if standard_name in LIMITS:
            yield name, f"is a limit; give {LIMITS[standard_name]} of the site"
        elif standard_name in COUNTS or name.lower() in ("requirements", "rank"):
            yield name, "is no attribute that operators may set"
        elif name.lower() in names:
            yield name, "is given twice: names of attributes have no case"
        elif fault := problem(name, value):
            yield name, fault
        names.add(name.lower())


def _is_constant(value: object) -> bool:
    if isinstance(value, list | tuple):
        return len(value) <= 1000 and all(_is_constant(part) for part in value)
    if isinstance(value, str):
        # The ClassAd library accepts no others.
        return (
            len(value) <= MOST_BYTES
            and "\x00" not in value
            and not any("\ud800" <= sign <= "\udfff" for sign in value)
        )
    return isinstance(value, bool) or (
        isinstance(value, int | float)
        and isfinite(value)
        and (not value or SMALLEST <= abs(value) <= LARGEST)
    )


class _Ad(TokenReader):
    """Parses the text of an ad."""

    def __init__(self, text: str) -> None:
        super().__init__(text, MOST_BYTES, 20 * MOST_ATTRIBUTES)
        self.attributes: dict[str, Constant] = {}
        self.places: dict[str, int] = {}
        self.requirements = ""

    def read(self) -> None:
        """Parse all of it."""
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
        # Attribute names ignore case.
        name = _KNOWN.get(token.text.lower(), token.text)
        if name.lower() in {place.lower() for place in self.places}:
            raise ClassAdError(token.start + 1, f"{name} is given twice")
        if name.lower() in KEPT:
            raise ClassAdError(
                token.start + 1, f"{name} is Pilotage's own attribute, and not the site's to give"
            )
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
