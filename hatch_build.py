"""Write the commit into a wheel and a source archive that are built in a clone."""

import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

COMMIT = "pilotage/commit.txt"


class CommitHook(BuildHookInterface):  # type: ignore[type-arg]
    """Put the commit into ``commit.txt``, unless git has done it or the build is editable."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file, which the configuration leaves out."""
        if version == "editable":
            return
        root = Path(self.root)
        source = root / "src" / COMMIT
        if commit := _commit(root):
            source = root / "build" / "commit.txt"
            source.parent.mkdir(exist_ok=True)
            source.write_text(commit)
        build_data["force_include"][str(source)] = COMMIT if self.target_name == "wheel" else f"src/{COMMIT}"


def _commit(root: Path) -> str:
    """Return the clone's commit: empty in an archive, without git, or if git distrusts the folder's owner."""
    if not (root / ".git").exists():
        return ""
    command = ["git", "rev-parse", "--short=12", "HEAD"]
    try:
        return subprocess.run(command, cwd=root, check=True, text=True, stdout=subprocess.PIPE).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""
