"""The token that goes with each request: that of the settings, or a newer one of its file."""

import time
from collections.abc import Generator

import httpx

from pilotage.settings import Settings

PATIENCE = 10.0
"""Seconds for which a command that was known to the server waits for a new token in the file."""

LOOK_EVERY = 0.2


class TokenAuthorization(httpx.Auth):
    """Sends the token. Where the server refuses it, the file is read again, so that long commands go on."""

    def __init__(self, settings: Settings) -> None:
        self._token, self._home, self._file = settings.token, settings.home, settings.token_file
        self._worked = False

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Send a request, and a second time with a renewed token."""
        self._sign(request)
        response = yield request
        if response.status_code != httpx.codes.UNAUTHORIZED:
            self._worked = True
        elif self._renewed():
            self._sign(request)
            yield request

    def _sign(self, request: httpx.Request) -> None:
        if self._token:
            request.headers["Authorization"] = f"Bearer {self._token}"

    def _renewed(self) -> bool:
        """Take another token from the file; one that worked may be revoked before the next one is there."""
        if not self._file:
            return False
        until = time.monotonic() + (PATIENCE if self._worked else 0.0)
        while True:
            found = self._read()
            if found not in ("", self._token):
                self._token = found
                return True
            if time.monotonic() >= until:
                return False
            time.sleep(LOOK_EVERY)

    def _read(self) -> str:
        try:
            return Settings(home=self._home).token
        except (OSError, ValueError):
            # Half a file, while it is written.
            return ""
