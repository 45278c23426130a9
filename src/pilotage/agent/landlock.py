"""Landlock (Linux 5.13): take rights away from this process and all that it starts, for good, without root.

Hides files, but not processes. From Linux 6.12 (ABI 6) on it also keeps signals and abstract sockets inside.
"""

# ruff: noqa: PTH112
from __future__ import annotations

import os
import struct

from .machine import PR_SET_NO_NEW_PRIVS, call, prctl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE, _IOCTL_DEV = 1, 2, 4, 8, 1 << 14, 1 << 15
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
"""How many rights on files an ABI knows; later ones know 16 and more, of which 16 are used here."""
_SCOPES = 0b11
"""Abstract sockets and signals."""


def abi() -> int:
    """The version of Landlock that the kernel offers. Raises OSError where it has none."""
    # With the flag 1 the call makes no rules, but answers the version.
    return call("syscall", _CREATE_RULESET, None, 0, 1)


def restrict(readable: Iterable[str], writable: Iterable[str]) -> None:
    """Leave no files but those at and below these paths; keep signals inside where the kernel can."""
    version = abi()
    rights = (1 << _RIGHTS.get(version, 16)) - 1
    rules = _ruleset(version, rights, _SCOPES)
    for paths, allowed in ((readable, _READ), (writable, rights)):
        for path in paths:
            _allow(rules, path, allowed & rights)
    _enforce(rules)


def scope() -> None:
    """Keep abstract sockets and signals inside, and nothing else; do nothing where the kernel cannot.

    A payload may then still mount filesystems in namespaces of its own, as containers in containers do.
    """
    try:
        version = abi()
    except OSError:
        return
    if version >= 6:
        _enforce(_ruleset(version, 0, _SCOPES))


def _ruleset(version: int, rights: int, scopes: int) -> int:
    """A new set of rules; the kernel takes as many fields as its version has."""
    attributes = struct.pack("QQQ", rights, 0, scopes)[: 24 if version >= 6 else 16 if version >= 4 else 8]
    return call("syscall", _CREATE_RULESET, attributes, len(attributes), 0)


def _allow(rules: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    # Not every node has all of these paths.
    except FileNotFoundError:
        return
    try:
        # The kernel refuses rights on folders (to make or remove entries) for a rule about a file.
        allowed = rights if os.path.isdir(path) else rights & _OF_FILES
        call("syscall", _ADD_RULE, rules, 1, struct.pack("=Qi", allowed, place), 0)
    finally:
        os.close(place)


def _enforce(rules: int) -> None:
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    call("syscall", _RESTRICT_SELF, rules, 0)
    os.close(rules)
