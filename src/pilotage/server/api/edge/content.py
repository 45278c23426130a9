"""Bytes of files as answers."""

from collections.abc import Generator, Mapping

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send


class FileContent(StreamingResponse):
    """The bytes of a file. The file is closed with the answer, even if the client disconnects.

    The exception of a disconnected client keeps the generator alive until Python collects its garbage.
    """

    def __init__(
        self,
        chunks: Generator[bytes],
        status_code: int = 200,
        headers: Mapping[str, str] | None = None,
        media_type: str = "application/octet-stream",
    ) -> None:
        super().__init__(chunks, status_code, headers, media_type=media_type)
        self._chunks = chunks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the bytes."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._chunks.close()
