"""External catalogues, as a federation declares them. Their scopes are ``CATALOGUE~SCOPE``."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from pilotage.model.values.identity import FIT, Identity
from pilotage.model.values.scopes import vo_scope
from pilotage.model.values.types import CLOSED, FINITE, Name, Options, Seconds, Whole

Rse = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]

OutputScope = Annotated[str, Field(max_length=300, pattern=r"^([A-Za-z0-9_.-]|\{name\}|\{vo\})+$")]


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedStorage:
    """A storage that another catalogue knows under its own name."""

    __pydantic_config__ = CLOSED

    rse: Rse
    """Its name in the catalogue."""
    storage: Name
    """The storage of this federation."""
    prefix: Annotated[str, Field(max_length=1000)] = ""
    """The beginning of the catalogue's file addresses there. The rest is the path below the storage's URL.
    Empty: the storage's URL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationRule:
    """The rule for a dataset of outputs: where the catalogue should keep it."""

    __pydantic_config__ = CLOSED

    rse_expression: Annotated[str, Field(min_length=1, max_length=1000)]
    """The RSEs that may hold it, in the catalogue's syntax."""
    copies: Annotated[Whole, Field(ge=1, le=100)] = 1
    """Number of copies to keep."""
    lifetime: Annotated[Whole, Field(ge=1, le=10**10)] | None = None
    """s after which the rule ends and the catalogue may delete data that no other rule keeps; none: it
    stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTerms:
    """The terms for registering outputs of tasks in an external catalogue."""

    __pydantic_config__ = CLOSED

    scopes: Annotated[tuple[OutputScope, ...], Field(min_length=1)]
    """Scopes where people may put datasets of outputs. ``{name}`` stands for a person's name, ``{vo}`` for
    their VO."""
    rule: ReplicationRule | None = None
    """The rule to set for each dataset; none: set none."""
    retry_delay: Annotated[float, Field(gt=0, le=86_400), FINITE] = 30
    """s before a second attempt, if the catalogue did not answer or refused it for now. Each further wait
    is twice as long, up to an hour."""
    give_up_after: Seconds = 86_400
    """s after which an unregistered output is given up, until a person requests it again."""

    def scopes_of(self, owner: Identity) -> list[str]:
        """Return the scopes where a person may put datasets."""
        # Fill both in one step: a person may be named {vo}.
        return [scope.format(name=owner.name, vo=owner.vo) for scope in self.scopes]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalCatalogue:
    """An external catalogue, read with one account for the people of some VOs."""

    __pydantic_config__ = CLOSED

    name: Annotated[str, Field(max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]
    """Its name in tasks: its scopes are ``NAME~SCOPE``."""
    kind: Name = "rucio"
    """The adapter for it."""
    vos: Annotated[tuple[Annotated[Name, FIT], ...], Field(min_length=1)]
    """VOs whose people may read everything that its account may read."""
    storages: Annotated[tuple[MappedStorage, ...], Field(min_length=1)]
    """The storages that both know. Replicas elsewhere are not used."""
    outputs: OutputTerms | None = None
    """The terms for registering outputs there; none: outputs are not registered."""
    options: Options = field(default_factory=dict)
    """Options of the adapter, including the account's credentials."""


def external_scope(catalogue: str, scope: str) -> str:
    """Return the scope of an external catalogue's files."""
    return f"{catalogue}~{scope}"


def moving_scope(catalogues: Iterable[ExternalCatalogue], scope: str) -> str:
    """Return the scope that has the credentials for moving a scope's files.

    Files of an external catalogue move with the credentials of the first VO that may read them.
    """
    name, tilde, _ = scope.partition("~")
    scopes = (vo_scope(catalogue.vos[0]) for catalogue in catalogues if tilde and catalogue.name == name)
    return next(scopes, scope)


def open_to(
    catalogues: Iterable[ExternalCatalogue], scope: str, owner: Identity
) -> tuple[ExternalCatalogue, str] | None:
    """Return the catalogue of a scope, and its own name for that; None if the owner may not use it."""
    name, tilde, inner = scope.partition("~")
    for catalogue in catalogues if tilde and inner else ():
        if catalogue.name == name and owner.vo in catalogue.vos:
            return catalogue, inner
    return None
