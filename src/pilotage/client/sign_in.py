"""Sign in with an identity provider by a code on another device, and keep the sign-in fresh.

The tokens lie in a file of the home that only its user can read. Several commands may renew them at once, so
a lock lets one do it: a refresh token may be good for one use.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pilotage.client.errors import ClientError, NotSignedIn, Unreachable
from pilotage.identity_providers import OK, ProviderAway, ask, deadline, discovered, endpoint, reason
from pilotage.token_discovery import SIGN_IN

DEVICE = "urn:ietf:params:oauth:grant-type:device_code"

RENEWED_BEFORE = 30.0
"""Seconds before its end when an access token is renewed."""

LONGEST_PAUSE = 60.0
LONGEST_WAIT = 1800.0
"""Most seconds that a code is waited for."""

SLOWER = 5.0
"""Seconds that are added to the pause if the provider asks for that."""

AGAIN = "sign in again: pilotage login"


@dataclass(frozen=True, slots=True, kw_only=True)
class SignIn:
    """What a sign-in got. ``url`` is the server that it is for."""

    url: str
    name: str
    issuer: str
    client: str
    token_endpoint: str
    revocation_endpoint: str
    access_token: str
    refresh_token: str
    expires: float

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {self.issuer}>"

    @property
    def is_fresh(self) -> bool:
        """Whether the access token lasts for a while."""
        return time.time() < self.expires - RENEWED_BEFORE


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCode:
    """A code that a person confirms at an address. ``device`` is the secret half of it."""

    sign_in: SignIn
    device: str
    code: str
    address: str
    address_with_code: str
    until: float
    pause: float


def load(home: Path) -> SignIn | None:
    """Return the sign-in of a home; None if there is none that can be read."""
    with suppress(OSError, ValueError, TypeError):
        return SignIn(**json.loads((home / SIGN_IN).read_text()))
    return None


def save(home: Path, sign_in: SignIn) -> None:
    """Write a sign-in into a file that only its user can read. Raises OSError."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = home / f".{SIGN_IN}.{os.getpid()}"
    with suppress(FileNotFoundError):
        draft.unlink()  # of a command that was killed
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "w") as stream:
            json.dump(asdict(sign_in), stream)
        draft.replace(home / SIGN_IN)
    finally:
        draft.unlink(missing_ok=True)


def renewed(home: Path, token: str) -> str:
    """Return a newer access token than this one. Raises ``NotSignedIn`` and ``Unreachable``."""
    with _alone(home):
        sign_in = load(home)
        if sign_in is None:
            raise NotSignedIn(f"you have signed out; {AGAIN}")
        if sign_in.access_token != token and sign_in.is_fresh:
            return sign_in.access_token  # another command was faster
        if not sign_in.refresh_token:
            raise NotSignedIn(f"your sign-in at {sign_in.name} has ended; {AGAIN}")
        form = {"grant_type": "refresh_token", "refresh_token": sign_in.refresh_token}
        status, answer = _asked(sign_in, form)
        if status != OK:
            raise NotSignedIn(f"{sign_in.name} ended your sign-in ({reason(answer)}); {AGAIN}")
        sign_in = _with_tokens(sign_in, answer)
        save(home, sign_in)
        return sign_in.access_token


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    # The lock ends with its process. Its file stays: to delete it would let two hold it.
    with (home / f"{SIGN_IN}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def begin(url: str, offer: Mapping[str, Any]) -> DeviceCode:
    """Ask a provider for a code. ``offer`` is one of ``Client.issuers``.

    Raises ``Unreachable`` if the provider is away, ``ClientError`` if it has no such sign-in.
    """
    until = deadline()
    try:
        document = discovered(offer["issuer"], until)
        if "device_authorization_endpoint" not in document:
            raise ClientError(f"{offer['name']} has no sign-in for commands; take a token from elsewhere")
        sign_in = SignIn(
            url=url,
            name=offer["name"],
            issuer=offer["issuer"],
            client=offer["client"],
            token_endpoint=endpoint(document, "token_endpoint"),
            revocation_endpoint=(
                endpoint(document, "revocation_endpoint") if "revocation_endpoint" in document else ""
            ),
            access_token="",
            refresh_token="",
            expires=0.0,
        )
        form = {"client_id": offer["client"], "scope": offer["scopes"], "audience": offer["audience"]}
        status, answer = ask(endpoint(document, "device_authorization_endpoint"), until, form)
    except ProviderAway as away:
        raise Unreachable(str(away)) from away
    if status != OK:
        raise ClientError(f"{offer['name']} gives no code: {reason(answer)}")
    return _code(sign_in, answer)


def _code(sign_in: SignIn, answer: Mapping[str, Any]) -> DeviceCode:
    texts = [answer.get(name) for name in ("device_code", "user_code", "verification_uri")]
    device, code, address = (text if isinstance(text, str) else "" for text in texts)
    whole = answer.get("verification_uri_complete")
    whole = whole if isinstance(whole, str) and _is_address(whole) else ""
    # A terminal shows the code and the address, so neither may hold anything but text.
    if not (device and 0 < len(code) <= 100 and code.isprintable() and _is_address(address)):
        raise ClientError(f"{sign_in.name} gives no code that can be shown")
    seconds = _seconds(answer.get("expires_in"), LONGEST_WAIT)
    return DeviceCode(
        sign_in=sign_in,
        device=device,
        code=code,
        address=address,
        address_with_code=whole,
        until=time.monotonic() + min(seconds, LONGEST_WAIT),
        pause=min(max(1.0, _seconds(answer.get("interval"), SLOWER)), LONGEST_PAUSE),
    )


def _is_address(text: str) -> bool:
    return text.isprintable() and len(text) <= 2000 and urlsplit(text).scheme in ("http", "https")


def _seconds(value: object, default: float) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and value > 0 else default  # type: ignore[arg-type, operator]


def wait(code: DeviceCode) -> SignIn:
    """Wait until a person has confirmed a code; return the sign-in. Raises ``ClientError`` if nobody does."""
    pause, name = code.pause, code.sign_in.name
    while time.monotonic() < code.until:
        time.sleep(pause)
        try:
            status, answer = _asked(code.sign_in, {"grant_type": DEVICE, "device_code": code.device})
        except Unreachable:
            continue  # until the code's end
        if status == OK:
            return _with_tokens(code.sign_in, answer)
        if answer.get("error") == "slow_down":
            pause = min(pause + SLOWER, LONGEST_PAUSE)
        elif answer.get("error") != "authorization_pending":
            raise ClientError(f"{name} did not sign you in: {reason(answer)}")
    raise ClientError(f"the code was not confirmed at {name} in time; {AGAIN}")


def end(home: Path) -> str:
    """End the sign-in of a home: here, and at its provider. Return its name; empty if there is none.

    Raises ``Unreachable`` if the provider could not be told; here it has ended then too.
    """
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _alone(home):
        sign_in = load(home)
        (home / SIGN_IN).unlink(missing_ok=True)
    if sign_in is None:
        return ""
    if sign_in.revocation_endpoint and sign_in.refresh_token:
        form = {"client_id": sign_in.client, "token": sign_in.refresh_token}
        try:
            ask(sign_in.revocation_endpoint, deadline(), {**form, "token_type_hint": "refresh_token"})
        except ProviderAway as away:
            raise Unreachable(f"signed out here, but {sign_in.name} may not know: {away}") from away
    return sign_in.name


def _asked(sign_in: SignIn, form: Mapping[str, str]) -> tuple[int, Mapping[str, Any]]:
    try:
        return ask(sign_in.token_endpoint, deadline(), {**form, "client_id": sign_in.client})
    except ProviderAway as away:
        raise Unreachable(str(away)) from away


def _with_tokens(sign_in: SignIn, answer: Mapping[str, Any]) -> SignIn:
    access, refresh = answer.get("access_token"), answer.get("refresh_token", sign_in.refresh_token)
    if not isinstance(access, str) or not isinstance(refresh, str):
        raise ClientError(f"{sign_in.name} gave no access token")
    expires = time.time() + _seconds(answer.get("expires_in"), 300.0)
    return replace(sign_in, access_token=access, refresh_token=refresh, expires=expires)
