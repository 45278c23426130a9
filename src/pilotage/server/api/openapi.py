"""The API's OpenAPI description, made by a separate process.

Describing all routes builds the validators of all models. That takes 14 MiB, which a server would keep for a
document that is rarely needed, and blocks the event loop for half a second.
"""

import subprocess
import sys
import threading

from fastapi import Request, Response

TIME_LIMIT = 120.0
"""Seconds that the process may take, even on a busy machine."""


class OpenApi:
    """The document of this program's routes, made at the first request."""

    def __init__(self) -> None:
        self._making = threading.Lock()
        self._document = b""

    def answer(self, _: Request) -> Response:
        """Answer with the document. Blocks while it is made."""
        with self._making:
            if not self._document:
                # Its error messages go to the server's log.
                process = subprocess.run(
                    [sys.executable, "-m", "pilotage.server.api"],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    check=True,
                    timeout=TIME_LIMIT,
                )
                self._document = process.stdout
        return Response(self._document, media_type="application/json")
