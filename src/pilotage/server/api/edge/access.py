"""Identity and rights of callers: bearer tokens give credentials, and each route has one policy.

The store finds tokens by their hash. A found token stays valid for a few seconds, so that frequent reports
cost no query. The step that it calls finds out if the pilot is lost.
"""

import asyncio
import hashlib
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from typing import Annotated, NamedTuple, Protocol

from cachetools import TTLCache
from fastapi import Depends, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.concurrency import run_in_threadpool

from pilotage import log_lines
from pilotage.model.records.work import File
from pilotage.model.values.durations import KNOWN_FOR
from pilotage.model.values.identity import Credential, Identity, Owners, Role, WholeVo, includes
from pilotage.model.values.types import DESCRIBED
from pilotage.server.api.edge.dependencies import TES_PREFIX
from pilotage.server.api.edge.rights import missing_right, needed_rights
from pilotage.store import Store, note_act
from pilotage.store.people.grants import Ground

REMEMBERED = 10_000
"""How many tokens are remembered at most; the one that was not used for longest is forgotten first."""

NOTED_FOR = 3600.0
"""Seconds after which a server records again that a token is used."""

SEARCHES_AT_ONCE = 4
"""Most concurrent token searches in the store."""

LONGEST_TOKEN = 200
"""Most characters of a token of ours; they have 43, and no dot."""

LONGEST_SIGNED = 16_384
"""The same of a token that a provider signed; those with many groups have some thousands."""

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")

FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "via")
"""Headers of proxies: the client is on another machine."""

UNKNOWN = "a valid bearer token is needed; a pilot's ends with the pilot"

_BEARER = HTTPBearer(auto_error=False, description="A token made with `pilotage token`, or a pilot's own.")


class TokenRefused(HTTPException):
    """A provider's token gives no access now. The reason never has a part of the token."""

    def __init__(self, status: int, reason: str, headers: Mapping[str, str] | None = None) -> None:
        invalid = {"WWW-Authenticate": 'Bearer error="invalid_token"'} if status == 401 else {}
        super().__init__(status, reason, {**invalid, **(headers or {})})


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInOffer:
    """An identity provider that people can sign in with."""

    __pydantic_config__ = DESCRIBED

    name: str
    """Its name for people."""
    issuer: str
    """Its URL, below which its discovery document lies."""
    client: str
    """The id of the client that signs in."""
    scopes: str
    """The scopes to ask for."""
    audience: str
    """The audience that the server wants in a token."""


class SignedTokenCheck(Protocol):
    """Finds the credentials of tokens that providers signed."""

    @property
    def offers(self) -> Sequence[SignInOffer]:
        """The issuers that people can sign in with by a command."""

    async def find(self, token: str) -> Credential:
        """Return a token's credential. Raises ``TokenRefused``."""

    def forget(self, token: str) -> None:
        """Check this token again."""


def person(identity: Identity) -> str:
    """Return the name of a person for the log: names belong to a VO."""
    return identity.key if identity.vo else identity.name


def note_records(request: Request) -> None:
    """Let the log's lines of a request carry the task, job, queue or other record that its path names."""
    for name, value in request.path_params.items():
        if name in log_lines.FIELDS:
            log_lines.note(**{name: int(value) if str(value).isdecimal() else str(value)})


class KnownTokens:
    """The store's tokens, with recently found ones in memory. Only the event loop uses it.

    Tokens of providers have dots. ``signed`` checks them; None: the server accepts none.
    """

    def __init__(
        self, store: Store, clock: Callable[[], float], signed: SignedTokenCheck | None = None
    ) -> None:
        self._store, self._signed = store, signed
        self._clock = clock
        self._found: TTLCache[bytes, Credential] = TTLCache(REMEMBERED, KNOWN_FOR, clock)
        self._noted: TTLCache[bytes, bool] = TTLCache(REMEMBERED, NOTED_FOR, clock)
        # Unknown tokens are not remembered, so a bounded number of threads looks for invented ones.
        self._searches = asyncio.Semaphore(SEARCHES_AT_ONCE)

    async def find(self, token: str) -> Credential | None:
        """Return a token's credential; None if it is unknown, revoked, expired or refused."""
        try:
            return await self.examine(token)
        except TokenRefused:
            return None

    async def examine(self, token: str) -> Credential | None:
        """Do the same. Raises ``TokenRefused`` with the reason why a provider's token is refused."""
        if "." in token:
            return await self._of_provider(token)
        key = hashlib.sha256(token.encode()).digest()
        credential: Credential | None = self._found.get(key)
        now = self._clock()
        if credential is None:
            async with self._searches:
                credential = await run_in_threadpool(self._search, token, key not in self._noted)
            if credential is not None:
                self._found[key] = credential
                self._noted.setdefault(key, True)
        if credential is None or (credential.expires is not None and credential.expires <= now):
            return None
        if credential.pilot is not None:
            log_lines.note(pilot=credential.pilot)
        else:
            log_lines.note(person=person(credential.identity))
        return credential

    def _search(self, token: str, notes_use: bool) -> Credential | None:
        """Return a token's credential from the store, which keeps when people and sites use their tokens."""
        credential = self._store.tokens.find(token)
        if notes_use and credential is not None and credential.pilot is None:
            self._store.tokens.note_use(token, self._clock())
        return credential

    async def _of_provider(self, token: str) -> Credential | None:
        if self._signed is None:
            return None
        credential = await self._signed.find(token)
        log_lines.note(person=person(credential.identity))
        return credential

    def forget(self, token: str) -> None:
        """Ask the store for this token again: it was revoked, or may have been."""
        if "." in token and self._signed:
            self._signed.forget(token)
        self._found.pop(hashlib.sha256(token.encode()).digest(), None)


def bearer_of(header: str) -> str | None:
    """Return the token in an Authorization header; None if it has none."""
    kind, _, token = header.partition(" ")
    token = token.strip()
    longest = LONGEST_SIGNED if "." in token else LONGEST_TOKEN
    return token if kind.lower() == "bearer" and 0 < len(token) <= longest else None


def token_of(request: Request) -> str | None:
    """Return the token of a request. Clients of TES may send it as the password of any user."""
    header = request.headers.get("authorization", "")
    kind, _, text = header.partition(" ")
    if kind.lower() != "basic" or not str(request.scope["path"]).startswith(f"{TES_PREFIX}/"):
        return bearer_of(header)
    try:
        _, _, token = b64decode(text.strip(), validate=True).decode().partition(":")
    except ValueError:
        return None
    return bearer_of(f"Bearer {token}")


class RoleCheck:
    """Admits callers with certain roles. Every route except the open ones has one.

    Where an operator reads, it admits monitors too. With ``asks_store`` every token is looked up again, so
    that a revoked one gets nothing.
    """

    def __init__(self, *roles: Role, asks_store: bool = False) -> None:
        self.roles = frozenset(roles)
        self.asks_store = asks_store

    async def __call__(
        self,
        request: Request,
        _: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)] = None,
    ) -> Credential:
        """Return the caller's credential. 401 without a known token, 403 for another role."""
        note_records(request)
        tokens: KnownTokens = request.app.state.tokens
        token = token_of(request)
        if token and self.asks_store:
            tokens.forget(token)
        caller = await tokens.examine(token) if token else None
        is_monitor = caller is not None and caller.role == "monitor"
        roles = self.roles_at(request.method, request.scope["route"].path) if is_monitor else self.roles
        credential = self.admit(caller, roles)
        if credential.rights is not None and (lack := missing_right(request, credential.rights)):
            raise HTTPException(
                403, f"this needs the right to {lack}, and your token's scopes do not give it"
            )
        return credential

    def roles_at(self, method: str, path: str) -> frozenset[Role]:
        """Return the roles that may use a route, by its method and path."""
        is_read = needed_rights(method, path) == ("read",)
        return self.roles | {"monitor"} if is_read and "operator" in self.roles else self.roles

    def admit(self, credential: Credential | None, roles: frozenset[Role] = frozenset()) -> Credential:
        """Return the credential of a caller with one of some roles, or of ``self.roles`` if there are none.

        None is an unknown caller. 401 and 403 as above.
        """
        if credential is None:
            raise HTTPException(401, UNKNOWN, headers={"WWW-Authenticate": "Bearer"})
        if credential.role not in (roles or self.roles):
            needed = " or ".join(sorted(self.roles))
            raise HTTPException(
                403, f"this needs the role {needed}, and your token has the role {credential.role}"
            )
        return credential


_PILOT = Depends(RoleCheck("pilot"))
PilotCredential = Annotated[Credential, _PILOT]


def pilot_id(credential: PilotCredential) -> int:
    """Return the pilot that a token is bound to; 403 if it is bound to none."""
    if credential.pilot is None:
        raise HTTPException(403, "this token is not bound to a pilot")
    return credential.pilot


class EnrolmentToken(NamedTuple):
    """A pilot, and the token from its order."""

    pilot: int
    token: str


def _enrolling(
    credential: Annotated[Credential, Depends(RoleCheck("enrolment", "enrolled"))],
    bearer: Annotated[HTTPAuthorizationCredentials, Depends(_BEARER)],
) -> EnrolmentToken:
    if credential.pilot is None:
        raise HTTPException(403, "this token is not bound to a pilot")
    return EnrolmentToken(credential.pilot, bearer.credentials.strip())


FOR_PEOPLE = Depends(RoleCheck("user", "manager", "site-admin", "operator"))
FOR_AGENTS = Depends(RoleCheck("user", "manager", "site-admin", "operator", "pilot", "enrolment"))
FOR_MANAGERS = Depends(RoleCheck("manager", "operator"))
FOR_SITE_ADMINS = Depends(RoleCheck("site-admin", "operator"))
FOR_OPERATORS = Depends(RoleCheck("operator"))
FOR_OPERATORS_NOW = Depends(RoleCheck("operator", asks_store=True))
"""For what outlasts the caller's token: tokens, the end of others' work, the federation, files that move."""

Person = Annotated[Credential, FOR_PEOPLE]
"""A person with any role. ``owner_seen`` has the owners of the records that they see."""

Manager = Annotated[Credential, FOR_MANAGERS]
"""A manager, who changes only what is of their VO, or an operator."""

SiteAdmin = Annotated[Credential, FOR_SITE_ADMINS]
"""A site admin, who changes only what is at their sites, or an operator."""

Operator = Annotated[Credential, FOR_OPERATORS]
OperatorNow = Annotated[Credential, FOR_OPERATORS_NOW]
PilotId = Annotated[int, Depends(pilot_id)]
"""The one pilot that the caller's token is bound to (P9)."""

Enrolling = Annotated[EnrolmentToken, Depends(_enrolling)]
"""An agent that makes its first call."""


def sites_of(credential: Credential) -> frozenset[str] | None:
    """Return the sites that the caller administers; None: all, or for a monitor those that it sees."""
    return None if sees_all(credential) else credential.sites


def refuse_other_site(credential: Credential, site: str | None) -> None:
    """Raise a 403 for a place that is at no site of a site admin. A place without a site passes."""
    sites = sites_of(credential)
    if site is not None and sites is not None and site not in sites:
        raise HTTPException(
            403, f"this is at {site}, and you administer {', '.join(sorted(sites)) or 'no site'}"
        )


def sees_all(credential: Credential) -> bool:
    """Return whether the caller sees everybody's records."""
    return credential.role in ("operator", "monitor")


def sight_of(credential: Credential) -> Owners:
    """Return the owners of the records that the caller sees without grants."""
    if sees_all(credential):
        return None
    return WholeVo(credential.identity.vo) if credential.role == "manager" else credential.identity


def owner_seen(credential: Credential) -> Owners:
    """Return the owners of the records that the caller sees without grants, to read them."""
    owners = sight_of(credential)
    if not isinstance(owners, Identity):
        note_act(reads_of_others=True)
    return owners


def _sees(credential: Credential, owner: str, vo: str) -> bool:
    """Return whether the caller sees something of this owner's without a grant."""
    note_act(owner=Identity(name=owner, vo=vo))
    return is_owner(credential, owner, vo) or includes(owner_seen(credential), owner, vo)


def governs(credential: Credential, owner: str, vo: str) -> bool:
    """Return whether the caller may change something of this owner's by their role, and grant it."""
    return credential.role != "monitor" and _sees(credential, owner, vo)


def may_change(store: Store, credential: Credential, owner: str, vo: str, *grounds: Ground) -> bool:
    """Return whether the caller may change something of this owner's, by their role or a grant."""
    is_granted = partial(store.grants.covers, credential.identity, *grounds, manages=True)
    return governs(credential, owner, vo) or (credential.role != "monitor" and is_granted())


def may_read(store: Store, credential: Credential, owner: str, vo: str, *grounds: Ground) -> bool:
    """Return whether the caller may read something of this owner's, by their role or a grant.

    Each route that reads records of an owner asks here, or ``may_read_file``. To change them needs
    ``may_change``.
    """
    return _sees(credential, owner, vo) or store.grants.covers(credential.identity, *grounds)


def grounds_of(task: int, workflow: int | None) -> tuple[Ground, ...]:
    """Return what a grant to read a task may be of: the task, or its workflow."""
    of_task: Ground = "task", str(task)
    of_workflow: Ground = "workflow", str(workflow)
    return (of_task, of_workflow) if workflow else (of_task,)


def may_read_file(store: Store, credential: Credential, file: File) -> bool:
    """Return whether the caller may read a file by a grant: of its task, or of a dataset that has it."""
    return store.grants.covers_file(credential.identity, file.name, file.task)


def is_owner(credential: Credential, owner: str, vo: str) -> bool:
    """Return whether the caller is this owner: two VOs may each have an alice."""
    return (credential.identity.name, credential.identity.vo) == (owner, vo)


def actor(credential: Credential) -> str:
    """Return the caller's name for events."""
    return f"{credential.role}:{credential.identity.name}"


def is_loopback(request: Request) -> bool:
    """Return whether a request comes from this machine, to a name of this machine."""
    try:
        is_local = bool(request.client) and ip_address(request.client.host).is_loopback  # type: ignore[union-attr]
    except ValueError:
        return False
    return is_local and hostname(request) in LOOPBACK_NAMES


def hostname(request: Request) -> str:
    """Return the host that a request names, without the port."""
    host = request.headers.get("host", "").lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
