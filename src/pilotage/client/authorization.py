"""The token for each request: the one in the settings, or a newer one from its file."""

import time
from collections.abc import AsyncGenerator, Generator

import httpx

from pilotage.settings import Settings

PATIENCE = 10.0
"""Seconds that a command waits for a new token in the file, after the server knew its old one."""

LOOK_EVERY = 0.2


class TokenAuthorization(httpx.Auth):
    """Sends the token. If the server refuses it, read the file again, so that long commands go on."""

    def __init__(self, settings: Settings) -> None:
        self._token, self._home, self._file = settings.token, settings.home, settings.token_file
        self._worked = False

    def sync_auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Send a request. Send it again with a renewed token if the server refuses the first."""
        self._sign(request)
        if not self._is_refused((yield request)):
            return
        until = self._until()
        while not (renewed := self._read_anew()) and time.monotonic() < until:
            time.sleep(LOOK_EVERY)
        if renewed:
            self._sign(request)
            yield request

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Do the same in an event loop."""
        # Short commands load this module too, and the event loop would be a fifth of their time.
        import asyncio

        self._sign(request)
        if not self._is_refused((yield request)):
            return
        until = self._until()
        while not (renewed := self._read_anew()) and time.monotonic() < until:
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

    def _until(self) -> float:
        # A token that worked may be revoked before its successor exists.
        return time.monotonic() + (PATIENCE if self._worked else 0.0)

    def _read_anew(self) -> bool:
        """Read the token from the file. Return whether it is another one."""
        token = self._read() if self._file else ""
        if token in ("", self._token):
            return False
        self._token = token
        return True

    def _read(self) -> str:
        try:
            return Settings.read(home=str(self._home)).token
        except (OSError, ValueError):
            # The file is half written.
            return ""
