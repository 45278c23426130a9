"""Makes the synchronous client from the asynchronous one."""

import subprocess
import sys
import tempfile
from pathlib import Path

import unasync

PACKAGE = Path(__file__).parent.parent / "src" / "pilotage" / "client"
NOTE = "# Written by `make docs` from ../_async; do not edit.\n"

NAMES = {
    "AsyncRetrying": "Retrying",
    "aclose": "close",
    "aiter_bytes": "iter_bytes",
    "aiter_lines": "iter_lines",
    "aread": "read",
    "async_sleep": "sleep",
}
"""Names that are others in synchronous code. Those of classes lose their ``Async``."""


class _Rule(unasync.Rule):  # type: ignore[misc]
    """Names each class without ``Async``."""

    def _unasync_name(self, name: str) -> str:
        if name in self.token_replacements:
            return str(self.token_replacements[name])
        return name.replace("Async", "")


def sources() -> dict[str, str]:
    """Return the text of each file of ``_sync`` by its name."""
    with tempfile.TemporaryDirectory() as made:
        rule = _Rule(fromdir=str(PACKAGE / "_async"), todir=made, additional_replacements=NAMES)
        for file in sorted((PACKAGE / "_async").glob("*.py")):
            rule._unasync_file(str(file))
        for words in (["check", "--fix", "--select", "I"], ["format"]):
            command = [sys.executable, "-m", "ruff", *words, "--quiet", "--config", "pyproject.toml", made]
            subprocess.run(command, check=True, cwd=PACKAGE.parents[2])
        return {file.name: NOTE + file.read_text() for file in sorted(Path(made).glob("*.py"))}


def write() -> None:
    """Write ``_sync``."""
    folder = PACKAGE / "_sync"
    folder.mkdir(exist_ok=True)
    for file in folder.glob("*.py"):
        file.unlink()
    for name, text in sources().items():
        (folder / name).write_text(text)


if __name__ == "__main__":
    write()
