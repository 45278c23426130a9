"""The table of checks. Decorate a function with ``check``, in the module of its family, to add one."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from pilotage.server.doctor.installation import Installation

Severity = Literal["fault", "warning"]

FAMILIES = ("configuration", "machine", "server", "database", "federation", "places", "credentials")
"""Modules of checks, in the order in which they report."""

LONGEST_ERROR = 300
"""Most characters of an error that a finding cites."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is wrong, or soon will be."""

    what: str
    """The fact."""
    why: str
    """What follows from it."""
    mend: str
    """The command that mends it."""
    severity: Severity = "fault"
    """A fault stops work or loses something; a warning does not yet."""


def warning(problem: str, effect: str, mend: str) -> Finding:
    """Return a finding that stops no work yet."""
    return Finding(what=problem, why=effect, mend=mend, severity="warning")


def cited(error: object) -> str:
    """Return the text of an error on one line, as much of it as a finding cites."""
    return " ".join(str(error).split())[:LONGEST_ERROR]


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorCheck:
    """A check: of the installation, or of ``each`` of some things by name. ``first`` ones open what others
    need."""

    name: str
    examine: Callable[..., Iterable[Finding]]
    each: Callable[[Installation], Mapping[str, Any]] | None = None
    first: bool = False


CHECKS: dict[str, DoctorCheck] = {}
"""All checks, by name. The modules of ``FAMILIES`` fill it."""


def check(
    name: str, *, each: Callable[[Installation], Mapping[str, Any]] | None = None, first: bool = False
) -> Callable[[Callable[..., Iterable[Finding]]], Callable[..., Iterable[Finding]]]:
    """Add a function to the checks. With ``each`` it examines those things too, one at a call."""

    def add(examine: Callable[..., Iterable[Finding]]) -> Callable[..., Iterable[Finding]]:
        if name in CHECKS:
            raise ValueError(f"two checks have the name {name!r}")
        CHECKS[name] = DoctorCheck(name=name, examine=examine, each=each, first=first)
        return examine

    return add


def all_checks() -> tuple[DoctorCheck, ...]:
    """Return every check, in the order of their families."""
    for family in FAMILIES:
        import_module(f".{family}", __package__)
    return tuple(CHECKS.values())
