"""Identities of people and programs: one type from the token to the query."""

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from pilotage.model.values.types import DESCRIBED

Role = Literal["user", "pilot", "operator", "enrolment", "enrolled", "site"]
"""A pilot's order carries an ``enrolment``. The agent exchanges it once for the pilot's own credential,
and then it is ``enrolled``. A ``site`` has its name, and may send its advertisement (M2)."""

Right = Literal["read", "create", "modify", "cancel"]
"""What a token of an identity provider may be limited to, as in the WLCG's profile of tokens."""

RIGHTS: tuple[Right, ...] = get_args(Right)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The owner of work. Shares, private pilots and permissions depend on it."""

    __pydantic_config__ = DESCRIBED

    name: str
    """Name of the user."""
    vo: str = ""
    """Virtual organisation."""
    group: str = ""
    """Group in the VO."""
    vo_role: str = ""
    """Role in the VO."""

    @property
    def key(self) -> str:
        """Return ``VO:NAME``, for limits per person: two VOs may each have an alice.

        Neither name has a colon, so two identities never share a key.
        """
        return f"{self.vo}:{self.name}"


UNFIT = "has ~, =, :, an invisible character, or a blank at an end; leave it out"


class UnfitName(ValueError):
    """A name of a person, VO, group or role that could pass for another, or for two. ``field`` names it."""

    def __init__(self, field: str) -> None:
        self.field = field
        super().__init__(UNFIT)


def refuse_unfit_names(identity: Identity) -> None:
    """Raise ``UnfitName`` unless each name of an identity is unmistakable.

    Scopes and keys join names with ``~``, ``=`` and ``:``.
    """
    for field in ("name", "vo", "group", "vo_role"):
        if not _is_fit(getattr(identity, field)):
            raise UnfitName(field)


def _is_fit(name: str) -> bool:
    return name == name.strip() and name.isprintable() and not set("~=:").intersection(name)


def _fit(name: str) -> str:
    if not _is_fit(name):
        raise PydanticCustomError("identity_name", UNFIT)
    return name


FIT = AfterValidator(_fit)
"""Follows the type of a name of a person, VO or group in a document."""

IdentityName = Annotated[str, Field(max_length=200), FIT]
"""The name of a person, VO or group in a document, by the rule of those in tokens; empty: none is meant."""


GENERIC = Identity(name="generic")
"""The default owner of generic pilots (P7). No work belongs only to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """Rights of a bearer token.

    A pilot's token is bound to one pilot and gives access to nothing else (P9).
    """

    __pydantic_config__ = DESCRIBED

    role: Role
    """The kind of its rights."""
    identity: Identity
    """Its owner."""
    pilot: int | None = None
    """The pilot that it is bound to."""
    queue: str = ""
    """The queue of that pilot, where the store knows it."""
    expires: float | None = None
    """When it expires, in s since 1970; none: never."""
    rights: frozenset[Right] | None = None
    """What its token allows of what its role may do; none: all."""
