"""Catalogues that others keep, as a federation declares them. Their scopes are ``CATALOGUE~SCOPE``."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field

from .identity import Identity
from .types import CLOSED, Name

Rse = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedStorage:
    """The storage that another catalogue knows by a name of its own."""

    __pydantic_config__ = CLOSED

    rse: Rse
    """What the catalogue calls it."""
    storage: Name
    """The storage of this federation."""
    prefix: Annotated[str, Field(max_length=1000)] = ""
    """How the catalogue's addresses of files there begin; what follows is the path below the storage's URL.
    Empty: as the storage's URL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalCatalogue:
    """A catalogue that others keep, read with one account for the people of some VOs."""

    __pydantic_config__ = CLOSED

    name: Annotated[str, Field(max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]
    """What tasks call it: its scopes are ``NAME~SCOPE``."""
    kind: Name = "rucio"
    """The adapter for it."""
    vos: Annotated[tuple[Name, ...], Field(min_length=1)]
    """VOs whose people read all that its account may read."""
    storages: Annotated[tuple[MappedStorage, ...], Field(min_length=1)]
    """The storages that both know; replicas elsewhere are not used."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the adapter, the account's credentials among them."""


def external_scope(catalogue: str, scope: str) -> str:
    """Return the scope of another catalogue's files."""
    return f"{catalogue}~{scope}"


def open_to(
    catalogues: Iterable[ExternalCatalogue], scope: str, owner: Identity
) -> tuple[ExternalCatalogue, str] | None:
    """Return the catalogue that a scope is of, and what that calls it; None where it is not the owner's."""
    name, tilde, inner = scope.partition("~")
    for one in catalogues if tilde and inner else ():
        if one.name == name and owner.vo in one.vos:
            return one, inner
    return None
