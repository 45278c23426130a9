"""Secrets of a payload: its variables and files, their removal, and the texts that logs must not show."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from ..wire import Secret
from .attempt import SECRETS, VARIABLES, AttemptFailedError, legal
from .trees import remove_tree

SHORTEST_LINE = 8
"""Fewest bytes of a line of a secret that logs hide alone: shorter ones occur in logs by chance."""


def variables(secrets: Iterable[Secret], directory: Path) -> dict[str, str]:
    """Return the variables of the secrets, and the one that names the folder of their files."""
    environment = {secret.variable: secret.value for secret in secrets if secret.variable}
    if any(secret.file for secret in secrets):
        environment["PILOTAGE_SECRETS"] = str(directory / SECRETS)
    return environment


def write(secrets: Iterable[Secret], directory: Path) -> None:
    """Write the files of secrets, for the payload's user alone. Raises AttemptFailedError."""
    folder = directory / SECRETS
    try:
        for secret in secrets:
            if secret.file:
                folder.mkdir(mode=0o700, exist_ok=True)
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                with os.fdopen(os.open(folder / legal("secret", secret.file), flags, 0o600), "wb") as file:
                    file.write(secret.value.encode())
    except OSError as error:
        raise AttemptFailedError(f"secrets: {error.strerror}") from None


def remove(directory: Path) -> None:
    """Delete the files of secrets, and the variables that were written for a container."""
    # Both are in the directory itself: a payload cannot replace it by a link.
    with suppress(FileNotFoundError):
        (directory / VARIABLES).unlink()
    if os.path.lexists(directory / SECRETS):
        remove_tree(str(directory / SECRETS))


def texts(secrets: Iterable[Secret]) -> tuple[bytes, ...]:
    """Return the texts that logs must not show, the longest first: values, and their longer lines."""
    hidden = set()
    for secret in secrets:
        value = secret.value.encode()
        hidden |= {value, *(line for line in value.splitlines() if len(line) >= SHORTEST_LINE)}
    return tuple(sorted(hidden - {b""}, key=lambda text: (-len(text), text)))


def masked(content: bytes, hidden: Sequence[bytes]) -> bytes:
    """Return a log with as many asterisks in place of each hidden text, so that all else stays in place."""
    for text in hidden:
        content = content.replace(text, b"*" * len(text))
    return content
