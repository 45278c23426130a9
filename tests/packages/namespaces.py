"""A machine's view for containers: a namespace of mounts with the unified hierarchy of control groups.

Containers of today need that one, and this machine may still have the older hierarchies.
"""

from pathlib import Path

UNIFIED = Path("/sys/fs/cgroup/cgroup.controllers")
MOUNT = "mount --make-rprivate /; umount -R /sys/fs/cgroup; mount -t cgroup2 cgroup2 /sys/fs/cgroup"


def with_unified_groups(*words: object) -> list[str]:
    """Return the command in such a namespace. It needs root."""
    script = f'{"" if UNIFIED.exists() else MOUNT}\nexec "$@"'
    return ["unshare", "--mount", "sh", "-ec", script, "sh", *map(str, words)]
