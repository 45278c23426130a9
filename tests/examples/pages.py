"""A tutorial as its reader follows it: the files that they save, and the commands that they type."""

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "tutorials"
FILE = re.compile(r"as `([\w.]+)`[^`]*?\n\n```\w+\n(.*?)```", re.DOTALL)
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"(?:^|\n\n)((?: {4}\S.*\n|\n(?= {4}\S))+)")
COMMAND = re.compile(r"^    (?=pilotage |python3 make|PILOTAGE_TOKEN=)(.+)$", re.MULTILINE)


def files(text: str) -> dict[str, str]:
    """Return the files that a page asks its reader to save, by name."""
    return dict(FILE.findall(text))


def commands(text: str) -> list[str]:
    """Return the commands of a page but those that install, in order."""
    return COMMAND.findall(text)


def shell_lines(text: str) -> list[str]:
    """Return every line of a page's shell blocks, as it stands: an indented block is a shell's."""
    unfenced = FENCED.sub("", text)
    lines = (line.strip() for block in BLOCK.findall(unfenced) for line in block.splitlines())
    return [line for line in lines if line]


def archive(place: Path) -> None:
    """Unpack what a clone holds: the last commit."""
    packed = subprocess.run(["git", "-C", str(ROOT), "archive", "HEAD"], check=True, capture_output=True)
    subprocess.run(["tar", "x", "-C", str(place)], input=packed.stdout, check=True)


def run(command: str) -> "subprocess.CompletedProcess[str]":
    """Run a command in a shell, as its reader does."""
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False, timeout=300)


def ran(typed: Iterable[str]) -> dict[str, str]:
    """Run commands, which must all succeed; return what each says."""
    shown = {}
    for command in typed:
        done = run(command)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        shown[command] = done.stdout
    return shown
