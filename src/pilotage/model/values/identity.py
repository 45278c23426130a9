"""Identities of people and programs: one type from the token to the query."""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from pilotage.model.values.types import DESCRIBED

PersonRole = Literal["user", "manager", "site-admin", "monitor", "operator"]
"""What a person may do. A manager is a user who steers the work of their VO, a site admin one who steers some
sites. A monitor reads what an operator reads, and changes nothing."""

PERSON_ROLES: tuple[PersonRole, ...] = get_args(PersonRole)

Role = Literal[PersonRole, "pilot", "enrolment", "enrolled", "site"]
"""A pilot's order carries an ``enrolment``. The agent exchanges it once for the pilot's own credential,
and then it is ``enrolled``. A ``site`` has its name, and may send its advertisement (M2)."""

Right = Literal["read", "create", "modify", "cancel"]
"""What a token of an identity provider may be limited to, as in the WLCG's profile of tokens."""

RIGHTS: tuple[Right, ...] = get_args(Right)


TOKEN_ID_LENGTH = 12
"""Characters of a token's hash that identify it, or its session."""


def hashed(token: str) -> str:
    """Return the hash by which the store finds a token."""
    # This needs no salt and no slow hash: tokens are long and random, so no dictionary contains them.
    return hashlib.sha256(token.encode()).hexdigest()


def token_id(token: str) -> str:
    """Return what identifies a token, and opens nothing; empty for none."""
    return hashed(token)[:TOKEN_ID_LENGTH] if token else ""


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


@dataclass(frozen=True, slots=True)
class WholeVo:
    """All people of a virtual organisation."""

    vo: str


Owners = Identity | WholeVo | None
"""Owners of records: one person, all of a VO, or everybody (None)."""


def includes(owners: Owners, name: str, vo: str) -> bool:
    """Return whether the person of this name and VO is one of some owners."""
    if isinstance(owners, Identity):
        return (owners.name, owners.vo) == (name, vo)
    return owners is None or owners.vo == vo


MOST_SITES = 1000
"""Most sites of a site admin."""

LONGEST_NAME = 200
"""Most characters of a name of a person, VO or group."""

UNFIT = "has ~, =, :, an invisible character, or a blank at an end; leave it out"


class UnfitName(ValueError):
    """A name of a person, VO, group or role that could pass for another, or for two. ``field`` names it."""

    def __init__(self, field: str, reason: str = UNFIT) -> None:
        self.field = field
        super().__init__(reason)


def refuse_unfit_names(identity: Identity) -> None:
    """Raise ``UnfitName`` unless each name of an identity is unmistakable.

    Scopes and keys join names with ``~``, ``=`` and ``:``.
    """
    for field in ("name", "vo", "group", "vo_role"):
        if not is_fit(getattr(identity, field)):
            raise UnfitName(field)


def is_fit(name: str) -> bool:
    """Return whether a name of a person, VO or group is unmistakable."""
    return name == name.strip() and name.isprintable() and not set("~=:").intersection(name)


def _fit(name: str) -> str:
    if not is_fit(name):
        raise PydanticCustomError("identity_name", UNFIT)
    return name


FIT = AfterValidator(_fit)
"""Follows the type of a name of a person, VO or group in a document."""

IdentityName = Annotated[str, Field(max_length=LONGEST_NAME), FIT]
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
    sites: frozenset[str] = frozenset()
    """The sites of a site admin."""


def refuse_unfit(credential: Credential) -> None:
    """Raise ``UnfitName`` unless its names are unmistakable, and it has what its role needs."""
    if credential.role != "site":  # a site's is the name of one that is declared
        refuse_unfit_names(credential.identity)
    refuse_unfit_role(credential.role, credential.identity.vo, credential.sites)


def refuse_unfit_role(role: Role, vo: str, sites: Collection[str]) -> None:
    """Raise ``UnfitName`` unless a manager has a VO, and site admins have sites, and no other role."""
    if role == "manager" and not vo:
        raise UnfitName("vo", "is empty; give the VO that the manager is for")
    if role == "site-admin" and not sites:
        raise UnfitName("sites", "is empty; give the sites of the site admin")
    if role != "site-admin" and sites:
        raise UnfitName("sites", "is for the role site-admin alone")
