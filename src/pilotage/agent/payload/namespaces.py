"""Namespaces of users, processes and mounts: a payload sees only its own processes and its files.

They work without root if the kernel lets ordinary users make namespaces (and has mount_setattr, Linux 5.12).
"""

# ruff: noqa: PTH102, PTH103, PTH112, PTH120, PTH123, PTH211
from __future__ import annotations

import os
import struct
from contextlib import suppress

from ..machine import PR_SET_DUMPABLE, call, prctl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_NEW_MOUNTS, _NEW_NAMES, _NEW_IPC, _NEW_USERS, _NEW_PROCESSES = 0x20000, 1 << 26, 1 << 27, 1 << 28, 1 << 29
_NOSUID, _NODEV, _NOEXEC, _BIND, _DETACH, _RECURSIVE, _SLAVE = 2, 4, 8, 4096, 2, 16384, 1 << 19
_MOUNT_SETATTR = 442
_AT_FDCWD, _AT_RECURSIVE, _READ_ONLY = -100, 0x8000, 1


def enter() -> None:
    """Put this process into new namespaces, as the same user. Its next child is the first process there."""
    user, group = os.geteuid(), os.getegid()
    # The files below belong to root while the process is closed to others.
    prctl(PR_SET_DUMPABLE, 1)
    call("unshare", _NEW_MOUNTS | _NEW_NAMES | _NEW_IPC | _NEW_USERS | _NEW_PROCESSES)
    for name, text in (
        # The order matters: the kernel accepts a gid_map from an ordinary user only after setgroups is
        # denied.
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    prctl(PR_SET_DUMPABLE, 0)


def build_root(
    binds: Sequence[tuple[str, str, bool]], links: Sequence[tuple[str, str]], memory: int = 0
) -> None:
    """Give this process its own root, with only these paths, /proc and a small /dev.

    ``binds`` are source, target and whether the target is writable. ``links`` are path and text of symbolic
    links. Files in /dev/shm take ``memory`` bytes at most; 0: half of the machine's.
    """
    # As a slave: mounts made here do not appear outside.
    _mount(None, "/", None, _SLAVE | _RECURSIVE)
    _mount("tmpfs", "/tmp", "tmpfs", _NOSUID | _NODEV, "mode=0755")
    os.mkdir("/tmp/new")
    os.mkdir("/tmp/old")
    _pivot_root("/tmp", "/tmp/old")
    os.chdir("/")
    _mount("tmpfs", "/new", "tmpfs", _NOSUID | _NODEV, "mode=0755")
    for target, text in links:
        os.makedirs(os.path.dirname(f"/new{target}"), exist_ok=True)
        os.symlink(text, f"/new{target}")
    for source, target, writable in binds:
        _bind(f"/old{source}", f"/new{target}", writable=writable)
    os.makedirs("/new/proc", exist_ok=True)
    _mount("proc", "/new/proc", "proc", _NOSUID | _NODEV | _NOEXEC)
    _make_devices(memory)
    _set_read_only("/new", 0)
    _leave_for("/new")


def _bind(source: str, target: str, *, writable: bool) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    _mount(source, target, None, _BIND | _RECURSIVE)
    if not writable:
        _set_read_only(target, _AT_RECURSIVE)


def _make_devices(memory: int) -> None:
    """Make the files in /dev that every program expects. Devices for computing come with the binds."""
    os.makedirs("/new/dev", exist_ok=True)
    for name in ("null", "zero", "full", "random", "urandom", "tty"):
        _bind(f"/old/dev/{name}", f"/new/dev/{name}", writable=True)
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        os.symlink(f"/proc/self/fd{target}", f"/new/dev/{name}")
    for name, kind, options in (
        ("shm", "tmpfs", f"mode=1777,size={memory}" if memory else "mode=1777"),
        ("pts", "devpts", "newinstance,ptmxmode=0666"),
    ):
        os.mkdir(f"/new/dev/{name}")
        # Some kernels and containers refuse these mounts; most payloads can do without.
        with suppress(OSError):
            _mount(kind, f"/new/dev/{name}", kind, _NOSUID | _NOEXEC, options)
    os.symlink("pts/ptmx", "/new/dev/ptmx")


def _leave_for(root: str) -> None:
    """Make a folder the root, and detach the old root with all its mounts."""
    # Detach it with all mounts below: a plain unmount fails while there are any.
    call("umount2", b"/old", _DETACH)
    os.chdir(root)
    # This puts the old root over the new one, at the same place; the next call detaches it.
    _pivot_root(".", ".")
    call("umount2", b".", _DETACH)
    os.chdir("/")


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str = "") -> None:
    texts = [None if text is None else text.encode() for text in (source, target, kind)]
    try:
        call("mount", *texts, flags, options.encode())
    except OSError as error:
        raise OSError(
            error.errno, f"mount {source or ''} at {target}: {os.strerror(error.errno or 0)}"
        ) from None


def _pivot_root(new: str, old: str) -> None:
    call("pivot_root", new.encode(), old.encode())


def _set_read_only(path: str, flags: int) -> None:
    attributes = struct.pack("QQQQ", _READ_ONLY, 0, 0, 0)
    call("syscall", _MOUNT_SETATTR, _AT_FDCWD, path.encode(), flags, attributes, len(attributes))
