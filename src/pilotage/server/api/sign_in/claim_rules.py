"""From a token's claims to a person here: pure functions of the issuer's rules."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pilotage.model.values.identity import (
    GENERIC,
    LONGEST_NAME,
    RIGHTS,
    Credential,
    Identity,
    Right,
    UnfitName,
    refuse_unfit_names,
)
from pilotage.server.api.sign_in.issuer_files import CAPTURED, ClaimRule, Issuer, captures, claims_of, filled

MOST_ITEMS = 1000
"""Most items of a claim: groups, scopes."""

SCOPES = ("scope", "scp")
"""Claims that hold several words."""

RESERVED = (GENERIC.name, "operator")
"""Names without a VO that Pilotage uses itself."""

_PERSON = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@+-]*")
"""Letters that no other letter looks like, and that a personal scope may have."""


class NoAccess(Exception):
    """The claims of a valid token give no access here."""


@dataclass(frozen=True, slots=True)
class MappedPerson:
    """Who the bearer of a token is here. ``joins_local`` lets them be a person with own tokens."""

    credential: Credential
    subject: str
    joins_local: bool


def person_of(issuer: Issuer, claims: Mapping[str, Any], expires: float) -> MappedPerson:
    """Return who the bearer of valid claims is here. Raises ``NoAccess``."""
    for rule in issuer.rules:
        captured = _captured(rule, claims)
        if captured is not None:
            break
    else:
        raise NoAccess(f"no rule of the server gives access to your token of {issuer.name}")
    fields = {name: captured.get(name, getattr(rule, name)) for name in CAPTURED}
    identity = Identity(name=_name(issuer, rule, claims), **fields)
    _refuse_bad_names(identity)
    rights = _rights(issuer, claims)
    credential = Credential(
        role=rule.role, identity=identity, expires=expires, rights=rights, sites=frozenset(rule.sites)
    )
    return MappedPerson(credential, claims["sub"], rule.joins_local)


def _captured(rule: ClaimRule, claims: Mapping[str, Any]) -> dict[str, str] | None:
    """Return what a rule captures; None if it does not hold."""
    captured: dict[str, str] = {}
    for claim, value in rule.when.items():
        words, pattern = _texts(_claim(claims, claim), claim), _pattern(value)
        if pattern is None:
            if value not in words:
                return None
            continue
        match = next(filter(None, map(pattern.fullmatch, words)), None)
        if match is None:
            return None
        captured |= match.groupdict()
    return captured


_pattern = lru_cache(maxsize=10_000)(captures)


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """Return a claim by its name, or ``outer.inner`` of nested ones; None if there is none.

    Everybody may write any e-mail address at many providers: one that is not verified does not count.
    """
    if name == "email" and claims.get("email_verified") is not True:
        return None
    if name in claims:
        return claims[name]
    value: Any = claims
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _texts(value: Any, claim: str) -> list[str]:
    """Return the texts that a claim holds: itself, its items, ``true`` or ``false``; of scopes the words."""
    if isinstance(value, bool):
        return [str(value).lower()]
    if isinstance(value, str):
        return value.split(" ") if claim in SCOPES else [value]
    if not isinstance(value, list):
        return []
    if len(value) > MOST_ITEMS:
        raise NoAccess(f"the claim {claim} of your token has more than {MOST_ITEMS} items")
    return [item for item in value if isinstance(item, str)]


def _name(issuer: Issuer, rule: ClaimRule, claims: Mapping[str, Any]) -> str:
    template = rule.person or f"{{sub}}@{issuer.name}"
    texts: dict[str, str] = {}
    for claim in claims_of(template):
        value = _claim(claims, claim)
        if not isinstance(value, str) or not value:
            kind = "verified e-mail address" if claim == "email" else f"text as the claim {claim}"
            raise NoAccess(f"your token has no {kind}, which gives your name here")
        texts[claim] = value
    return filled(template, texts)


def _refuse_bad_names(identity: Identity) -> None:
    """Raise ``NoAccess`` for names that are unfit, too long, or reserved."""
    try:
        refuse_unfit_names(identity)
    except UnfitName as unfit:
        raise NoAccess(f"the {unfit.field} from your token {unfit}") from unfit
    for field in ("name", "vo"):
        name = getattr(identity, field)
        if name and not _PERSON.fullmatch(name):
            raise NoAccess(f"the {field} from your token has other characters than letters, digits and _.@+-")
    if any(len(getattr(identity, field)) > LONGEST_NAME for field in ("name", *CAPTURED)):
        raise NoAccess(f"a name from your token has more than {LONGEST_NAME} characters")
    if not identity.vo and identity.name in RESERVED:
        raise NoAccess(f"{identity.name} without a VO is a name of the server itself")


def _rights(issuer: Issuer, claims: Mapping[str, Any]) -> frozenset[Right] | None:
    """Return the rights that a token's scopes give; None for all."""
    if issuer.rights is None:
        return None
    scopes = _texts(claims.get("scope"), "scope")
    return frozenset(right for right in RIGHTS if issuer.rights.get(right) in scopes)
