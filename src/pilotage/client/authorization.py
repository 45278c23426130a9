"""The token for each request: the one in the settings, a newer one from its place, or a renewed sign-in."""

import time
from collections.abc import AsyncGenerator, Generator

import httpx

from pilotage.settings import Settings
from pilotage.token_discovery import SIGN_IN

PATIENCE = 10.0
"""Seconds that a command waits for a new token in the file, after the server knew its old one."""

LOOK_EVERY = 0.2


class TokenAuthorization(httpx.Auth):
    """Sends the token. If the server refuses it, look for another, so that long commands go on.

    A sign-in's token is renewed shortly before its end.
    """

    def __init__(self, settings: Settings) -> None:
        self._token, self._settings = settings.token, settings
        self._is_sign_in = settings.token_place == str(settings.home / SIGN_IN)
        self._until = self._end() if self._is_sign_in else float("inf")
        self._worked = False

    def sync_auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Send a request. Send it again with a renewed token if the server refuses the first."""
        if time.time() > self._until:
            self._renew()
        self._sign(request)
        if not self._is_refused((yield request)):
            return
        until = self._patience()
        while not (renewed := self._read_anew()) and time.monotonic() < until:
            time.sleep(LOOK_EVERY)
        if renewed:
            self._sign(request)
            yield request

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Do the same in an event loop."""
        # Short commands load this module too, and the event loop would be a fifth of their time.
        import asyncio

        if time.time() > self._until:
            await asyncio.to_thread(self._renew)
        self._sign(request)
        if not self._is_refused((yield request)):
            return
        until = self._patience()
        while not (renewed := await asyncio.to_thread(self._read_anew)) and time.monotonic() < until:
            await asyncio.sleep(LOOK_EVERY)
        if renewed:
            self._sign(request)
            yield request

    def _sign(self, request: httpx.Request) -> None:
        if self._token:
            request.headers["Authorization"] = f"Bearer {self._token}"

    def _is_refused(self, response: httpx.Response) -> bool:
        if response.status_code == httpx.codes.UNAUTHORIZED:
            return True
        self._worked = True
        return False

    def _patience(self) -> float:
        # A token that worked may be revoked before its successor exists.
        return time.monotonic() + (PATIENCE if self._worked and not self._is_sign_in else 0.0)

    def _read_anew(self) -> bool:
        """Look for another token. Return whether there is one."""
        if self._is_sign_in:
            self._renew()
            return True
        token = self._read() if self._settings.token_file else ""
        if token in ("", self._token):
            return False
        self._token = token
        return True

    def _read(self) -> str:
        try:
            return Settings.read(home=str(self._settings.home), url=self._settings.url).token
        except (OSError, ValueError):
            # The file is half written.
            return ""

    def _renew(self) -> None:
        """Renew the sign-in. Raises ``ClientError``."""
        from pilotage.client.sign_in import renewed

        self._token = renewed(self._settings.home, self._token)
        self._until = self._end()

    def _end(self) -> float:
        from pilotage.client.sign_in import RENEWED_BEFORE, load

        sign_in = load(self._settings.home)
        return sign_in.expires - RENEWED_BEFORE if sign_in else float("inf")
