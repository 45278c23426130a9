"""The file of issuers: whose tokens are accepted, and the rules that map their claims to people.

Every fault is found before the server starts, so that no token is refused, or accepted, by a slip.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from pilotage.federation import text
from pilotage.federation.faults import BadDocument, Fault
from pilotage.federation.source_files import SourceFile, located
from pilotage.identity_providers import LOOPBACK
from pilotage.model.values.identity import (
    MOST_SITES,
    IdentityName,
    PersonRole,
    Right,
    UnfitName,
    refuse_unfit_role,
)
from pilotage.model.values.urls import url_fault

MOST_ISSUERS = 50
MOST_RULES = 500
"""Most rules of an issuer; each token is compared with all of them until one holds."""

LONGEST_LEEWAY = 600.0

CAPTURED = ("vo", "group", "vo_role")
"""What a value of a rule may capture. A role is always written out."""

_BRACES = re.compile(r"\{([^{}]*)\}")
_Text = Annotated[str, Field(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f\x7f]*$")]
_CLOSED = ConfigDict(extra="forbid", frozen=True)


class ClaimRule(BaseModel):
    """Maps tokens with certain claims to a person here. All claims of ``when`` must hold."""

    model_config = _CLOSED

    when: Annotated[Mapping[_Text, _Text], Field(min_length=1, max_length=20)]
    """The claims that a token needs, and their values. A list has the value as an item, and ``scope`` as a
    word. ``{vo}``, ``{group}`` and ``{vo_role}`` stand for any text without ``/``."""
    person: Annotated[_Text | None, Field(validate_default=True)] = None
    """The person's name, with claims in braces: ``{preferred_username}``. Without it, ``{sub}@NAME``, with
    the issuer's name."""
    vo: IdentityName = ""
    """The person's VO, unless ``when`` captures it."""
    group: IdentityName = ""
    """The person's group, likewise."""
    vo_role: IdentityName = ""
    """The person's role in the VO, likewise."""
    role: PersonRole = "user"
    """What the person may do here."""
    sites: Annotated[tuple[_Text, ...], Field(max_length=MOST_SITES)] = ()
    """The sites of a site admin."""
    joins_local: bool = False
    """Whether the person may be one that already works here with own tokens, by the same name and VO."""

    @field_validator("person")
    @classmethod
    def _has_claims(cls, person: str | None) -> str | None:
        if person is not None and (not (names := _BRACES.findall(person)) or not all(names)):
            raise ValueError(
                "names no claim in braces, like {preferred_username}, so it would be one for all"
            )
        if person is not None and _leftover(person):
            raise ValueError("has a brace without its partner")
        return person

    @model_validator(mode="after")
    def _captures_sensibly(self) -> "ClaimRule":
        captured = [name for value in self.when.values() for name in _BRACES.findall(value)]
        if any(_leftover(value) for value in self.when.values()):
            raise ValueError("when: has a brace without its partner")
        if unknown := sorted({name for name in captured if name not in CAPTURED}):
            raise ValueError(f"when: captures {{{unknown[0]}}}; a rule captures {', '.join(CAPTURED)} only")
        if twice := sorted({name for name in captured if captured.count(name) > 1 or getattr(self, name)}):
            raise ValueError(f"{twice[0]}: is given twice")
        if captured and self.role != "user":
            raise ValueError(
                f"role: a rule for the role {self.role} has no {{...}} in `when`; write its values out"
            )
        try:
            refuse_unfit_role(self.role, self.vo, self.sites)
        except UnfitName as unfit:
            raise ValueError(f"{unfit.field}: {unfit}") from unfit
        return self


def _leftover(pattern: str) -> bool:
    return bool(set("{}") & set(_BRACES.sub("", pattern)))


class Issuer(BaseModel):
    """An identity provider, and what its tokens mean here."""

    model_config = _CLOSED

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,59}$")]
    """A short name for people: in ``pilotage login`` and in names of persons."""
    issuer: Annotated[str, Field(max_length=500)]
    """The issuer's URL, exactly as its tokens have it (``iss``)."""
    audience: Annotated[tuple[_Text, ...], Field(min_length=1, max_length=20)]
    """A token needs one of these as ``aud``."""
    client: Annotated[str, Field(max_length=200, pattern=r"^[\x21-\x7e]*$")] = ""
    """The client's id at the issuer, for ``pilotage login``; empty: tokens come from elsewhere."""
    scopes: Annotated[str, Field(max_length=500, pattern=r"^[\x20-\x7e]*$")] = "openid profile"
    """The scopes that ``pilotage login`` asks for."""
    page_client: Annotated[str, Field(max_length=200, pattern=r"^[\x21-\x7e]*$")] = ""
    """The client's id for sign-in on the page, with PKCE; empty: the page offers none."""
    page_secret: Annotated[str, Field(max_length=500, pattern=r"^[\x20-\x7e]*$", repr=False)] = ""
    """The secret of that client, if it has one; empty: it is a public client."""
    algorithms: Annotated[tuple[Literal["RS256", "ES256"], ...], Field(min_length=1)] = ("RS256", "ES256")
    """Signatures that are accepted."""
    leeway: Annotated[float, Field(ge=0, le=LONGEST_LEEWAY, allow_inf_nan=False)] = 30.0
    """Seconds by which the issuer's clock may be wrong."""
    rights: Annotated[Mapping[Right, _Text] | None, Field(min_length=1)] = None
    """The scope that each right needs, such as ``read: compute.read``. Without it tokens have all rights of
    their role."""
    rules: Annotated[tuple[ClaimRule, ...], Field(min_length=1, max_length=MOST_RULES)]
    """The first one that holds counts. A token that none holds for has no access."""

    @field_validator("issuer")
    @classmethod
    def _is_safe(cls, url: str) -> str:
        if fault := url_fault(url, ("http", "https"), base=True):
            raise ValueError(fault)
        if urlsplit(url).scheme == "http" and urlsplit(url).hostname not in LOOPBACK:
            raise ValueError("is http, so others on the way could exchange the keys; give an https URL")
        return url


class IssuerList(BaseModel):
    """The whole file."""

    model_config = _CLOSED

    issuers: Annotated[tuple[Issuer, ...], Field(min_length=1, max_length=MOST_ISSUERS)]


def read_issuers(path: Path) -> tuple[Issuer, ...]:
    """Return the issuers of a file. Raises ``BadFile`` with every fault and its line."""
    source = SourceFile.of(path)
    try:
        document = text.parse(source.content)
        issuers = IssuerList.model_validate(document).issuers
        if faults := [*_repeated(issuers)]:
            raise BadDocument(faults)
    except ValidationError as bad:
        # A list that is left without its wrong items is not too short.
        errors = [error for error in bad.errors() if error["type"] != "too_short" or not error["input"]]
        faults = [Fault(tuple(error["loc"]), _words(error)) for error in errors]
        raise located(path, source.content, faults) from None
    except BadDocument as bad:
        raise located(path, source.content, bad.faults) from None
    return issuers


def refuse_unknown_sites(
    path: Path, issuers: Sequence[Issuer], refuse: Callable[[Collection[str]], None]
) -> None:
    """Raise ``BadFile`` with every rule that ``refuse`` raises ``UnfitName`` for, by the rule's sites."""
    faults = []
    for at, issuer in enumerate(issuers):
        for number, rule in enumerate(issuer.rules):
            try:
                refuse(rule.sites)
            except UnfitName as unfit:
                faults.append(Fault(("issuers", at, "rules", number, unfit.field), str(unfit)))
    if faults:
        raise located(path, SourceFile.of(path).content, faults)


def _words(error: Any) -> str:
    if error["type"] == "extra_forbidden":
        return "is no field here"
    return str(error["msg"]).removeprefix("Value error, ")


def _repeated(issuers: tuple[Issuer, ...]) -> Iterator[Fault]:
    """Yield a fault for each name or URL that two issuers share."""
    for field in ("name", "issuer"):
        values = [getattr(issuer, field) for issuer in issuers]
        for at, value in enumerate(values):
            if value in values[:at]:
                yield Fault(("issuers", at, field), f"{value!r} is given twice", "keep one")


def captures(value: str) -> re.Pattern[str] | None:
    """Return the pattern of a rule's value; None if it captures nothing."""
    parts = _BRACES.split(value)
    if len(parts) == 1:
        return None
    texts = (re.escape(part) for part in parts[::2])
    names = (f"(?P<{name}>[^/]+)" for name in parts[1::2])
    return re.compile("".join(chain.from_iterable(zip(texts, [*names, ""], strict=True))))


def claims_of(person: str) -> list[str]:
    """Return the claims in a person's name."""
    return _BRACES.findall(person)


def filled(person: str, claims: Mapping[str, str]) -> str:
    """Return a person's name with the texts of its claims."""
    return _BRACES.sub(lambda match: claims[match[1]], person)
