"""A machine's view for containers: a namespace of mounts with the unified hierarchy of control groups.

Containers of today need that one, and this machine may still have the older hierarchies.
"""

import subprocess
from functools import cache
from pathlib import Path

UNIFIED = Path("/sys/fs/cgroup/cgroup.controllers")
MOUNT = "mount --make-rprivate /; umount -R /sys/fs/cgroup; mount -t cgroup2 cgroup2 /sys/fs/cgroup"


def with_unified_groups(*words: object) -> list[str]:
    """Return the command in such a namespace. It needs root."""
    script = f'{"" if UNIFIED.exists() else MOUNT}\nexec "$@"'
    return ["unshare", "--mount", "sh", "-ec", script, "sh", *map(str, words)]


@cache
def missing_for_namespaces(*account: str) -> str:
    """Return why root, or the account by these words before a command, makes no namespaces; else empty."""
    command = (*account, "unshare", *(("--user", "--map-root-user") if account else ()), "--mount", "true")
    done = subprocess.run(with_unified_groups(*command), capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"this machine makes no namespaces: {done.stderr.strip()}"
