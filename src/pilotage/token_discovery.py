"""Where the token of commands comes from: a sign-in, the home, or bearer token discovery as the WLCG says.

Each command reads this, so it uses the standard library alone.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

SIGN_IN = "sign-in.json"
"""The file in the home that holds what ``pilotage login`` got."""

MOST_BYTES = 1 << 16


class UnsafeToken(ValueError):
    """A file that was named for a token, and may not be used."""


def token_text(home: Path, url: str) -> tuple[str, str]:
    """Return a token and its place, for a server's address; both empty if there is none.

    Raises ``UnsafeToken`` for the file of ``BEARER_TOKEN_FILE``, and OSError for one in the home.
    """
    for text, place in _places(home, url):
        if text.strip():
            return text, place
    return "", ""


def _places(home: Path, url: str) -> Iterator[tuple[str, str]]:
    yield _of_sign_in(home / SIGN_IN, url), str(home / SIGN_IN)
    yield _of_home(home / "token"), str(home / "token")
    yield os.environ.get("BEARER_TOKEN", ""), "BEARER_TOKEN"
    if name := os.environ.get("BEARER_TOKEN_FILE", "").strip():
        # Whoever names a file wants that one and no other.
        yield _private(Path(name), is_named=True), name
        return
    name = f"bt_u{os.geteuid()}"
    for folder in filter(None, (os.environ.get("XDG_RUNTIME_DIR", "").strip(), "/tmp")):
        yield _private(Path(folder) / name, is_named=False), f"{folder}/{name}"


def _of_sign_in(file: Path, url: str) -> str:
    """Return the token of a sign-in at this server; other servers must not get it."""
    with suppress(OSError, ValueError):
        text = file.read_text()
        # Few commands need it.
        import json

        document = json.loads(text)
        if isinstance(document, dict) and document.get("url") == url:
            return str(document.get("access_token", ""))
    return ""


def _of_home(file: Path) -> str:
    try:
        # Text that is not valid is no token, and is refused.
        return file.read_text(errors="replace")
    except FileNotFoundError:
        return ""


def _private(file: Path, *, is_named: bool) -> str:
    """Return the content of a file that its user alone can read; empty for any other.

    Others can write into the folders of discovery: a token of theirs would let one work in their name.
    """
    try:
        # Opening a pipe in place of a file would wait for its writer.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if is_named else os.O_NOFOLLOW)
        descriptor = os.open(file, flags)
    except (OSError, ValueError) as error:
        if is_named:
            raise UnsafeToken(f"{file} cannot be read: {getattr(error, 'strerror', error)}") from error
        return ""
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        fault = _fault(status)
        if fault and is_named:
            raise UnsafeToken(f"{file} {fault}")
        return "" if fault else stream.read(MOST_BYTES).decode(errors="replace")


def _fault(status: os.stat_result) -> str:
    if not stat.S_ISREG(status.st_mode):
        return "is no file"
    if status.st_uid != os.geteuid():
        return "belongs to another user"
    return "can be read or written by others; chmod 600" if status.st_mode & 0o077 else ""
