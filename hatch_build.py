"""Make what git does not keep: the synchronous client, and the commit of what is built in a clone."""

import atexit
import re
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parent
PACKAGE = ROOT / "src" / "pilotage"
NOTE = "# Made from ../_async by each installation and each `make`; do not edit.\n"

ASYNCHRONOUS = re.compile(
    r"\b(?:async|await) "
    r"|\bAsync(?=[A-Z])"
    r"|\basync_?(?=sleep\b|contextmanager\b)"
    r"|\ba(?=close\b|read\b|iter_)"
    r"|(?<=\b__)a(?=enter__|exit__)"
)
"""What the code of the synchronous client has not."""


class BuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Put both into wheels and source archives; an editable installation has the client beside its source."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files, which the configuration leaves out."""
        if version == "editable":
            write_client(PACKAGE / "client" / "_sync")
            return
        made = TemporaryDirectory()
        atexit.register(made.cleanup)
        folder = Path(made.name)
        write_client(folder / "client" / "_sync")
        (folder / "commit.txt").write_text(_commit() or (PACKAGE / "commit.txt").read_text())
        target = "pilotage" if self.target_name == "wheel" else "src/pilotage"
        build_data["force_include"][str(folder)] = target
        # A release has man pages and completions, which docs/release.py writes.
        if self.target_name == "wheel" and (ROOT / "share").is_dir():
            build_data["shared_data"][str(ROOT / "share")] = "share"


def write_client(folder: Path) -> None:
    """Write the synchronous client into a folder, line by line as the asynchronous one."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.glob("*.py"):
        file.unlink()
    for file in (PACKAGE / "client" / "_async").glob("*.py"):
        (folder / file.name).write_text(NOTE + ASYNCHRONOUS.sub("", file.read_text()))


def _commit() -> str:
    """Return the clone's commit: empty in an archive, without git, or if git distrusts the folder's owner."""
    if not (ROOT / ".git").exists():
        return ""
    command = ["git", "rev-parse", "--short=12", "HEAD"]
    try:
        return subprocess.run(command, cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""


if __name__ == "__main__":
    write_client(PACKAGE / "client" / "_sync")
