"""The API's description, OpenAPI, as a process of its own makes it.

To describe all routes is to build the validators of all their models: 14 MiB, which a server would keep for a
document that is asked for once in a while, and half a second, in which its event loop would answer nobody.
"""

import subprocess
import sys
import threading

from fastapi import Request, Response

TIME_LIMIT = 120.0
"""Seconds that the process may take, on a busy machine too."""


class OpenApi:
    """The document of this program's routes, made when it is first asked for."""

    def __init__(self) -> None:
        self._making = threading.Lock()
        self._document = b""

    def answer(self, _: Request) -> Response:
        """Answer with the document. Blocks while it is made."""
        with self._making:
            if not self._document:
                # What it complains of goes to the server's log.
                made = subprocess.run(
                    [sys.executable, "-m", "pilotage.api"],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    check=True,
                    timeout=TIME_LIMIT,
                )
                self._document = made.stdout
        return Response(self._document, media_type="application/json")
