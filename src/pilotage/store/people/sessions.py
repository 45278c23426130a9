"""Sessions of browsers: rows among the tokens, with the browser that opened them.

The cookie of a session is no token. Only together with the browser's name it gives the token of the session,
so a cookie that another browser sends opens nothing.
"""

import base64
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from pilotage.model.values.identity import TOKEN_ID_LENGTH, Credential, Identity, Role, hashed
from pilotage.model.values.types import DESCRIBED
from pilotage.store.database.acts import note_act
from pilotage.store.database.engine import Database
from pilotage.store.people.tokens import new_row, tokens

_t = tokens.c
_IS_SESSION = _t.browser.is_not(None)

LONGEST_BROWSER = 300
"""Most characters of a browser's name that count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserSession:
    """A session of a browser, without its token."""

    __pydantic_config__ = DESCRIBED

    id: str
    """Identifies the session, but does not grant access."""
    role: Role
    """The rights of its person."""
    name: str
    """Its person."""
    vo: str
    """The person's virtual organisation."""
    browser: str
    """The browser that opened it, as it names itself."""
    opened_by: str
    """What opened it: an identity provider, a token, or a link of the server's terminal."""
    created: float
    """When it was opened, in s since 1970 UTC."""
    used: float | None
    """When it was last used, within an hour, in s since 1970 UTC."""
    expires: float
    """When it ends, in s since 1970 UTC."""


def session_token(cookie: str, browser: str) -> str:
    """Return the token of a session. Making it needs the cookie and its browser's name."""
    digest = hmac.digest(cookie.encode(), browser[:LONGEST_BROWSER].encode(), "sha256")
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


class Sessions:
    """Opens, lists and ends sessions of browsers. ``new`` makes a random text for a cookie."""

    def __init__(self, database: Database, clock: Callable[[], float], new: Callable[[], str]) -> None:
        self._database, self._clock, self._new = database, clock, new

    def open(self, credential: Credential, browser: str, opened_by: str, parent: str = "") -> str:
        """Open a session; return its cookie. It ends with its ``parent``, the token that opened it.

        Raises LookupError if the parent was revoked.
        """
        cookie, now = self._new(), self._clock()
        row = new_row(session_token(cookie, browser), credential, now, opened_by)
        row |= {"browser": browser[:LONGEST_BROWSER], "nonce": hashed(parent) if parent else None}

        def write(connection: Connection) -> bool:
            connection.execute(delete(tokens).where(_t.expires <= now))
            opener = select(_t.hash).where(_t.hash == row["nonce"], ~_IS_SESSION)
            if parent and connection.execute(opener).first() is None:
                raise LookupError("the token was revoked")
            connection.execute(insert(tokens), row)
            return True

        by = {"by": credential, "token": row["nonce"][:TOKEN_ID_LENGTH] if row["nonce"] else ""}
        session = f"session {row['hash'][:TOKEN_ID_LENGTH]}"
        note_act(verb="sign in", record=session, after={"opened by": opened_by, "browser": browser}, **by)
        self._database.write(write)
        return cookie

    def of(self, person: Identity | None) -> Sequence[BrowserSession]:
        """Return the open sessions of a person, newest first; those of all people for None."""
        query = select(tokens).where(_IS_SESSION, _t.expires > self._clock())
        if person is not None:
            query = query.where(_t.owner == person.name, _t.vo == person.vo)
        query = query.order_by(_t.created.desc(), _t.hash)
        rows = self._database.read(lambda connection: connection.execute(query).all())
        return [_session(row) for row in rows]

    def end(self, token: str) -> None:
        """End the session of a token."""
        self._database.write(
            lambda connection: connection.execute(delete(tokens).where(_t.hash == hashed(token)))
        )

    def end_named(self, name: str, person: Identity | None) -> BrowserSession | None:
        """End an open session of a person, of anybody for None. Return None if there is no such session."""
        matching = [session for session in self.of(person) if session.id == name]
        if matching:
            by_id = delete(tokens).where(_IS_SESSION, _t.hash.startswith(name, autoescape=True))
            self._database.write(lambda connection: connection.execute(by_id))
        return matching[0] if matching else None


def _session(row: Any) -> BrowserSession:
    return BrowserSession(
        id=row.hash[:TOKEN_ID_LENGTH],
        role=row.role,
        name=row.owner,
        vo=row.vo,
        browser=row.browser,
        opened_by=row.purpose,
        created=row.created,
        used=row.used,
        expires=row.expires,
    )
