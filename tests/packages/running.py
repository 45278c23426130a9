"""Commands of the tests of packages, on this machine and in roots of other Debian releases."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import httpx


def run(
    *words: object, environment: Mapping[str, str] | None = None, text: str = "", seconds: float = 1800
) -> str:
    """Run a command that reads ``text``. Return its output; fail with all that it wrote."""
    command = [str(word) for word in words]
    # Compiling what is installed would take half of the time.
    variables = {**os.environ, "PIP_NO_COMPILE": "1", **(environment or {})}
    variables.pop("PYTHONPATH", None)
    done = subprocess.run(
        command, env=variables, input=text, capture_output=True, text=True, timeout=seconds, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout


def run_in_root(root: Path, script: str, folders: Mapping[Path, str]) -> str:
    """Run a script of the shell in a root, whose files change in memory alone; it reads these folders too."""
    lines = ["set -e", "mount -t tmpfs tmpfs /mnt", "mkdir /mnt/upper /mnt/work /mnt/root"]
    lines.append(
        f"mount -t overlay -o lowerdir={root},upperdir=/mnt/upper,workdir=/mnt/work overlay /mnt/root"
    )
    for folder, place in folders.items():
        lines.append(f"mkdir -p /mnt/root{place}; mount --bind -o ro {folder} /mnt/root{place}")
    lines += ["mount -t proc proc /mnt/root/proc", 'exec chroot /mnt/root sh -ec "$1"']
    # The machine's settings of pip and Python name files that the root has not.
    environment = ("env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8")
    unshared = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
    return run(*environment, *unshared, "sh", "-c", "\n".join(lines), "sh", script)


def is_ready(port: int) -> bool:
    """Return whether a server on this machine answers that it is ready."""
    try:
        return httpx.get(f"http://127.0.0.1:{port}/api/v1/health/ready", timeout=10).status_code == 200
    except httpx.TransportError:
        return False
