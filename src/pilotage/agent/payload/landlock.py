"""Landlock (Linux 5.13): drop rights of this process and all that it starts, for good, without root.

It hides files, but not processes. From Linux 6.12 (ABI 6) on it also keeps signals and abstract sockets
inside.
"""

# ruff: noqa: PTH112
from __future__ import annotations

import os
import struct

from ..machine import PR_SET_NO_NEW_PRIVS, call, prctl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE, _IOCTL_DEV = 1, 2, 4, 8, 1 << 14, 1 << 15
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
"""Number of file rights by ABI. Later ABIs know 16 or more, of which we use 16."""
_SCOPES = 0b11
"""Abstract sockets and signals."""


def abi() -> int:
    """The version of Landlock that the kernel offers. Raises OSError if it has none."""
    # With flag 1 the call makes no rules, but returns the version.
    return call("syscall", _CREATE_RULESET, None, 0, 1)


def restrict(readable: Iterable[str], writable: Iterable[str]) -> None:
    """Allow only files at and below these paths. Keep signals inside if the kernel can."""
    version = abi()
    rights = (1 << _RIGHTS.get(version, 16)) - 1
    rules = _ruleset(version, rights, _SCOPES)
    for paths, allowed in ((readable, _READ), (writable, rights)):
        for path in paths:
            _allow(rules, path, allowed & rights)
    _enforce(rules)


def scope() -> None:
    """Keep abstract sockets and signals inside, and nothing else. Do nothing if the kernel cannot.

    A payload may then still mount file systems in its own namespaces, as containers inside containers do.
    """
    try:
        version = abi()
    except OSError:
        return
    if version >= 6:
        _enforce(_ruleset(version, 0, _SCOPES))


def _ruleset(version: int, rights: int, scopes: int) -> int:
    """Return a new set of rules. The kernel expects as many fields as its version has."""
    attributes = struct.pack("QQQ", rights, 0, scopes)[: 24 if version >= 6 else 16 if version >= 4 else 8]
    return call("syscall", _CREATE_RULESET, attributes, len(attributes), 0)


def _allow(rules: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    # Not every node has all of these paths.
    except FileNotFoundError:
        return
    try:
        # In a rule for a file, the kernel refuses the rights of folders (making or removing entries).
        allowed = rights if os.path.isdir(path) else rights & _OF_FILES
        call("syscall", _ADD_RULE, rules, 1, struct.pack("=Qi", allowed, place), 0)
    finally:
        os.close(place)


def _enforce(rules: int) -> None:
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    call("syscall", _RESTRICT_SELF, rules, 0)
    os.close(rules)
