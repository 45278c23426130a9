"""Catalogues that others keep, as a federation declares them. Their scopes are ``CATALOGUE~SCOPE``."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from pilotage.model.values.identity import Identity
from pilotage.model.values.scopes import vo_scope
from pilotage.model.values.types import CLOSED, FINITE, Name, Options, Seconds, Whole

Rse = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]

OutputScope = Annotated[str, Field(max_length=300, pattern=r"^([A-Za-z0-9_.-]|\{name\}|\{vo\})+$")]


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
class ReplicationRule:
    """The rule that is set for a dataset of outputs: where the catalogue is to keep it."""

    __pydantic_config__ = CLOSED

    rse_expression: Annotated[str, Field(min_length=1, max_length=1000)]
    """The RSEs that may hold it, as the catalogue writes it."""
    copies: Annotated[Whole, Field(ge=1, le=100)] = 1
    """Copies that it keeps."""
    lifetime: Annotated[Whole, Field(ge=1, le=10**10)] | None = None
    """s after which the rule ends, and the catalogue may delete what no other rule keeps; none: it stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTerms:
    """The terms on which outputs of tasks are registered in a catalogue that others keep."""

    __pydantic_config__ = CLOSED

    scopes: Annotated[tuple[OutputScope, ...], Field(min_length=1)]
    """Scopes that people may put datasets of outputs into; ``{name}`` stands for a person's name, ``{vo}``
    for their VO."""
    rule: ReplicationRule | None = None
    """The rule that is set for each dataset; none: none is."""
    retry_delay: Annotated[float, Field(gt=0, le=86_400), FINITE] = 30
    """s before a second attempt, where the catalogue did not answer or refused it for now; twice as long
    before each further one, up to an hour."""
    give_up_after: Seconds = 86_400
    """s after which an output that could not be registered is given up, until somebody asks for it again."""

    def scopes_of(self, owner: Identity) -> list[str]:
        """Return the scopes that a person may put datasets into."""
        return [scope.replace("{name}", owner.name).replace("{vo}", owner.vo) for scope in self.scopes]


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
    outputs: OutputTerms | None = None
    """The terms on which outputs are registered there; none: they are not."""
    options: Options = field(default_factory=dict)
    """Options of the adapter, the account's credentials among them."""


def external_scope(catalogue: str, scope: str) -> str:
    """Return the scope of another catalogue's files."""
    return f"{catalogue}~{scope}"


def moving_scope(catalogues: Iterable[ExternalCatalogue], scope: str) -> str:
    """Return the scope with whose credentials files of a scope are moved.

    Files of another's catalogue are moved as those of the first VO that may read them.
    """
    name, tilde, _ = scope.partition("~")
    found = (vo_scope(one.vos[0]) for one in catalogues if tilde and one.name == name)
    return next(found, scope)


def open_to(
    catalogues: Iterable[ExternalCatalogue], scope: str, owner: Identity
) -> tuple[ExternalCatalogue, str] | None:
    """Return the catalogue that a scope is of, and what that calls it; None where it is not the owner's."""
    name, tilde, inner = scope.partition("~")
    for one in catalogues if tilde and inner else ():
        if one.name == name and owner.vo in one.vos:
            return one, inner
    return None
