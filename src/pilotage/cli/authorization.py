"""The token for each request: the one in the settings, or a newer one from its file."""

import time
from collections.abc import Generator

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

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Send a request. Send it again with a renewed token if the server refuses the first."""
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
        """Read another token from the file.

        A token that worked may be revoked before its successor exists.
        """
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
            return Settings.read(home=str(self._home)).token
        except (OSError, ValueError):
            # The file is half written.
            return ""
