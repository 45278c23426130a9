"""Pythons of this machine, and those of other Debian releases in roots that mmdebstrap makes."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from tests.packages.places import BUILD, ROOTS, TOOLS, release_file
from tests.packages.running import run

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
"""Python versions that Pilotage supports."""

DEBIAN = {"3.13": "trixie", "3.14": "forky"}
"""Debian releases whose Python this is."""

EXTRAS = "server,kubernetes,s3,sftp,ssh"
"""What the image has."""


def python(version: str) -> Path | None:
    """Return an interpreter of this machine that can make environments; None without one."""
    return next((path for path in _candidates(version) if _works(path)), None)


def debian_root(release: str, *packages: str) -> Path:
    """Return the root of a Debian release with these packages. It is made once, and kept in ``build``."""
    root = ROOTS / "-".join((release, *packages))
    if not root.exists():
        ROOTS.mkdir(parents=True, exist_ok=True)
        draft = root.with_name(f"{root.name}.{os.getpid()}")
        command = ["mmdebstrap", "--quiet", "--variant=minbase", *(f"--include={name}" for name in packages)]
        subprocess.run([*command, release, str(draft)], check=True, capture_output=True, text=True)
        draft.rename(root)
    return root


def download_wheels(version: str) -> Path:
    """Return a folder with the wheels of a server with these extras for a Python, kept in ``build``."""
    # pip would read the constraints with the markers of its own Python.
    needed = run(
        *(
            TOOLS / "uv",
            "pip",
            "compile",
            "--quiet",
            "--no-header",
            "--no-annotate",
            "--python-version",
            version,
        ),
        *("--constraint", release_file(".constraints.txt"), "--no-emit-package", "pilotage", "-"),
        text=f"pilotage[{EXTRAS}] @ {release_file('.whl').as_uri()}",
    )
    folder = BUILD / f"wheels-{version}-{sha256(needed.encode()).hexdigest()[:8]}"
    if not folder.exists():
        draft = folder.with_name(f"{folder.name}.{os.getpid()}")
        draft.mkdir(parents=True)
        (draft / "requirements.txt").write_text(needed)
        what = ("--python-version", version, "--only-binary", ":all:", "-r", draft / "requirements.txt")
        run(TOOLS / "pip", "download", "--quiet", "--no-deps", "--dest", draft, *what)
        draft.rename(folder)
    return folder


def missing_for_roots() -> str:
    """Return what this machine lacks to make a root; empty if it lacks nothing."""
    if os.geteuid() != 0:
        return "only root makes roots of Debian"
    return "" if shutil.which("mmdebstrap") else "mmdebstrap is not installed"


def _candidates(version: str) -> Iterator[Path]:
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep)]
    yield from (folder / f"python{version}" for folder in folders)
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    yield from sorted(versions.glob(f"{version}.*/bin/python{version}"), reverse=True)


def _works(path: Path) -> bool:
    if not path.is_file():
        return False
    answer = subprocess.run([path, "-c", "import ensurepip"], capture_output=True, timeout=30, check=False)
    return answer.returncode == 0
