"""The name of a home on its machine, by which a spool keeps the files of each server apart.

Host names and paths do not: cloned laptops have the same ones.
"""

import hashlib
import os
import secrets
import socket
from pathlib import Path

FILE = "name"
"""The file in the home with its random part."""

MACHINE = Path("/etc/machine-id")


def give_name(home: Path) -> None:
    """Give a home its name, unless it has one. Raises OSError."""
    draft = home / f"{FILE}.{secrets.token_hex(8)}"
    draft.write_text(f"{secrets.token_hex(16)}\n")
    try:
        # Another process of this home may do the same: the first file stays, and it is whole.
        os.link(draft, home / FILE)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


def name_of(home: Path) -> str:
    """Return the name, 12 hexadecimal digits; a provisional one where no server has begun yet."""
    random = _content(home / FILE) or f"{socket.gethostname()} {home}"
    # A copy of the home has the same file.
    return hashlib.sha256(f"{random} {_content(MACHINE)}".encode()).hexdigest()[:12]


def _content(file: Path) -> str:
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""
