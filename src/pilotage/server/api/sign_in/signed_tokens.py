"""Tokens that an identity provider signed: their signature, their claims, and whose they are.

What a token says counts only once its signature holds, except for its issuer and its key, which choose among
what the settings trust.
"""

import asyncio
import hashlib
import logging
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from cachetools import TTLCache
from joserfc import jws
from joserfc.errors import ExpiredTokenError, InvalidClaimError, JoseError, MissingClaimError
from joserfc.jwk import ECKey, RSAKey
from joserfc.jwt import JWTClaimsRegistry
from starlette.concurrency import run_in_threadpool

from pilotage.identity_providers import ProviderAway
from pilotage.model.values.durations import KNOWN_FOR
from pilotage.model.values.identity import Credential
from pilotage.model.values.strict_json import read_json
from pilotage.server.api.edge.access import REMEMBERED, SEARCHES_AT_ONCE, SignInOffer, TokenRefused
from pilotage.server.api.sign_in.claim_rules import NoAccess, person_of
from pilotage.server.api.sign_in.issuer_files import Issuer
from pilotage.server.api.sign_in.issuer_keys import REFETCHED_AFTER, IssuerKeys
from pilotage.store import NameTaken, PersonClosed, Store

log = logging.getLogger(__name__)

KINDS = {"RS256": "RSA", "ES256": "EC"}
TYPES = ("jwt", "at+jwt", "application/jwt", "application/at+jwt")
"""Types of tokens that may be for us. Others, such as ``logout+jwt``, mean something else."""

LEAST_MODULUS = 342
"""Least characters of an RSA key's modulus: 2048 bits in base64."""

MOST_KEYS_TRIED = 4
"""Most keys that a token without a key's id is compared with."""

LONGEST_SUBJECT = 255
"""As OpenID Connect says."""

REASONS = {"aud": "is for another audience", "nbf": "is not valid yet", "iat": "was issued in the future"}


class _Header(NamedTuple):
    algorithm: str
    key_id: str | None


class _Registry(jws.JWSRegistry):
    max_header_length = 4096


class SignedTokens:
    """Accepts tokens of the issuers in the settings. Only the event loop uses it.

    An accepted token stays so for a few seconds, as the store's own do.
    """

    def __init__(
        self,
        issuers: Sequence[Issuer],
        store: Store,
        clock: Callable[[], float],
        keys: Callable[[str], IssuerKeys] = IssuerKeys,
    ) -> None:
        self._issuers = {issuer.issuer: (issuer, keys(issuer.issuer)) for issuer in issuers}
        self._store, self._clock = store, clock
        self._accepted: TTLCache[bytes, Credential] = TTLCache(REMEMBERED, KNOWN_FOR, clock)
        # Invented tokens take a bounded number of threads, and none from the search for the store's own.
        self._checks = asyncio.Semaphore(SEARCHES_AT_ONCE)

    @property
    def offers(self) -> Sequence[SignInOffer]:
        """The issuers that people can sign in with by a command, in the order of the settings."""
        return [
            SignInOffer(
                name=issuer.name,
                issuer=issuer.issuer,
                client=issuer.client,
                scopes=issuer.scopes,
                audience=issuer.audience[0],
            )
            for issuer, _ in self._issuers.values()
            if issuer.client
        ]

    async def find(self, token: str) -> Credential:
        """Return a token's credential. Raises ``TokenRefused``."""
        key = hashlib.sha256(token.encode()).digest()
        credential = self._accepted.get(key)
        if credential is None or (credential.expires or 0) <= self._clock():
            self._accepted[key] = credential = await self._checked(token)
        return credential

    def forget(self, token: str) -> None:
        """Check this token again."""
        self._accepted.pop(hashlib.sha256(token.encode()).digest(), None)

    async def _checked(self, token: str) -> Credential:
        header, claims = _read(token)
        name = claims.get("iss")
        if not isinstance(name, str) or name not in self._issuers:
            raise TokenRefused(401, "the server accepts no token of this token's issuer")
        issuer, keys = self._issuers[name]
        try:
            if header.algorithm not in issuer.algorithms:
                raise TokenRefused(
                    401, f"signatures are {' or '.join(issuer.algorithms)}, which your token's is not"
                )
            fitting = await keys.fitting(header.key_id, KINDS[header.algorithm])
            if not fitting:
                raise TokenRefused(401, f"{issuer.name} has no key like that of your token")
            async with self._checks:
                return await run_in_threadpool(self._admit, issuer, token, header, fitting)
        except ProviderAway as away:
            reason = f"your token cannot be checked, because {issuer.name} gives no keys: {away}"
            raise TokenRefused(503, reason, {"Retry-After": f"{REFETCHED_AFTER:.0f}"}) from away
        except TokenRefused as refused:
            log.info("a token of %s was refused: %s", issuer.name, refused.detail)
            raise

    def _admit(
        self, issuer: Issuer, token: str, header: _Header, keys: Sequence[Mapping[str, Any]]
    ) -> Credential:
        _verify(token, header, keys)
        claims = _json(token.split(".")[1])
        _check(issuer, claims, self._clock())
        try:
            person = person_of(issuer, claims, claims["exp"] + issuer.leeway)
            self._store.sign_ins.admit(
                person.credential.identity, issuer.issuer, person.subject, joins_local=person.joins_local
            )
        except (NoAccess, NameTaken, PersonClosed) as error:
            raise TokenRefused(403, str(error)) from error
        return person.credential


def _read(token: str) -> tuple[_Header, Mapping[str, Any]]:
    """Return what a token says about itself, which nobody has checked yet."""
    parts = token.split(".")
    if len(parts) != 3 or not all(parts):
        raise TokenRefused(401, "the token has not the three parts of a signed one")
    header, claims = _json(parts[0]), _json(parts[1])
    algorithm, key_id, kind = header.get("alg"), header.get("kid"), header.get("typ", "jwt")
    if not isinstance(algorithm, str) or algorithm not in KINDS:
        raise TokenRefused(401, f"signatures are {' or '.join(KINDS)}, which your token's is not")
    if not isinstance(kind, str) or kind.lower() not in TYPES or "crit" in header:
        raise TokenRefused(401, "the token is of another kind than those that give access")
    if not isinstance(key_id, str | None):
        raise TokenRefused(401, "the token's key has no text as its id")
    return _Header(algorithm, key_id), claims


def _json(part: str) -> dict[str, Any]:
    """Return an object of a token. A name that is given twice could mean two things: it is refused."""
    try:
        value = read_json(urlsafe_b64decode(part + "=" * (-len(part) % 4)).decode())
    except (ValueError, RecursionError) as error:
        raise TokenRefused(401, "the token cannot be read, or says something twice") from error
    if not isinstance(value, dict):
        raise TokenRefused(401, "the token cannot be read")
    return value


def _verify(token: str, header: _Header, keys: Sequence[Mapping[str, Any]]) -> None:
    """Check the signature with keys of the issuer. The token's own hints at keys are never followed."""
    registry = _Registry(algorithms=[header.algorithm], strict_check_header=False)
    for key in keys[:MOST_KEYS_TRIED]:
        is_weak = key.get("kty") == "RSA" and len(str(key.get("n"))) < LEAST_MODULUS
        if is_weak or key.get("alg", header.algorithm) != header.algorithm:
            continue
        try:
            public = (ECKey if header.algorithm == "ES256" else RSAKey).import_key(dict(key))
            jws.deserialize_compact(token, public, registry=registry)
        except (JoseError, ValueError, TypeError, KeyError):
            continue
        return
    raise TokenRefused(401, "the token's signature is wrong")


def _check(issuer: Issuer, claims: Mapping[str, Any], now: float) -> None:
    """Check the claims that each token needs. Raises ``TokenRefused``."""
    registry = JWTClaimsRegistry(
        now=lambda: int(now),
        leeway=int(issuer.leeway),
        iss={"essential": True, "value": issuer.issuer},
        aud={"essential": True, "values": list(issuer.audience)},
        sub={"essential": True},
        exp={"essential": True},
    )
    try:
        registry.validate(dict(claims))
    except ExpiredTokenError as error:
        raise TokenRefused(401, "the token has expired; get a new one from your provider") from error
    except MissingClaimError as error:
        raise TokenRefused(401, f"the token has no {error.claim}") from error
    except InvalidClaimError as error:
        raise TokenRefused(
            401, f"the token {REASONS.get(error.claim, f'has a wrong {error.claim}')}"
        ) from error
    if len(claims["sub"]) > LONGEST_SUBJECT or not claims["sub"].isprintable():
        raise TokenRefused(401, "the token has a wrong sub")
