"""podman as an account without rights, and the image that it builds."""

import json
import os
import pwd
import shutil
from pathlib import Path
from typing import Any

from tests.packages.namespaces import missing_for_namespaces, with_unified_groups
from tests.packages.pythons import missing_for_roots
from tests.packages.running import run

ACCOUNT = "pilotage-packages"
"""An account without rights, which ``install.sh`` makes."""


class Podman:
    """podman as the account, which has its images in its home."""

    def __init__(self) -> None:
        self.home = Path(pwd.getpwnam(ACCOUNT).pw_dir)
        runtime = self.home / "run"
        if not runtime.exists():
            runtime.mkdir(mode=0o700)
            shutil.chown(runtime, ACCOUNT)
        variables = {"HOME": self.home, "XDG_RUNTIME_DIR": runtime, "PATH": os.environ["PATH"]}
        # The tests ask for the health themselves, and the kernel has overlays.
        choices = ("DISABLE_HC_SYSTEMD=true", "STORAGE_DRIVER=overlay")
        assignments = [*(f"{name}={value}" for name, value in variables.items()), *choices]
        self._command = ("runuser", "-u", ACCOUNT, "--", "env", "-i", "-C", self.home, *assignments, "podman")

    def __call__(self, *words: object, seconds: float = 1200) -> str:
        """Run a command. Return its output."""
        return run(*with_unified_groups(*self._command, *words), seconds=seconds)

    def inspect(self, name: str) -> Any:
        """Return what podman knows of a container or image."""
        return json.loads(self("inspect", name))[0]


def missing_for_containers() -> str:
    """Return what this machine lacks to run containers; empty if it lacks nothing."""
    if missing := missing_for_roots():
        return missing
    if ACCOUNT not in {account.pw_name for account in pwd.getpwall()}:
        return f"there is no account {ACCOUNT}"
    if not (shutil.which("podman") and shutil.which("newuidmap")):
        return "podman or uidmap is not installed"
    return missing_for_namespaces("runuser", "-u", ACCOUNT, "--")
