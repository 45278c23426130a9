"""Pythons of this machine, and those of other Debian releases in roots that mmdebstrap makes."""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from tests.packages.namespaces import missing_for_namespaces
from tests.packages.places import BUILD, ROOTS, TOOLS, release_file
from tests.packages.running import run

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
"""Python versions that Pilotage supports."""

DEBIAN = {"3.13": "trixie", "3.14": "forky"}
"""Debian releases whose Python this is."""

SERVICES = (
    *("ca-certificates", "dbus", "libnss-systemd", "nginx", "openssl", "postgresql", "procps", "prometheus"),
    *("python3-venv", "systemd", "systemd-sysv"),
)
"""Packages of a root that systemd boots, and of images that no registry is asked for."""

EXTRAS = "server,kubernetes,s3,sftp,ssh"
"""What the image has."""


def python(version: str) -> Path | None:
    """Return an interpreter of this machine that can make environments; None without one."""
    return next((path for path in _candidates(version) if _works(path)), None)


@contextmanager
def made_once(folder: Path) -> Iterator[Path | None]:
    """Yield a draft that becomes the folder; None if the folder is there. Other processes wait."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        draft = folder.with_name(f"{folder.name}.draft")
        if folder.exists():
            yield None
            return
        shutil.rmtree(draft, ignore_errors=True)
        yield draft
        draft.rename(folder)


def debian_root(release: str, *packages: str) -> Path:
    """Return the root of a Debian release with these packages. It is made once, and kept in ``build``."""
    root = ROOTS / "-".join((release, *packages))
    with made_once(root) as draft:
        if draft:
            options = ["--quiet", "--variant=minbase", *(f"--include={name}" for name in packages)]
            # A mirror may have an older state of a release that still changes.
            options.append('--aptopt=Acquire::Check-Valid-Until "false"')
            # Nobody needs what a loss of power leaves of it.
            options.append("--dpkgopt=force-unsafe-io")
            run("mmdebstrap", *options, release, draft)
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
    with made_once(folder) as draft:
        if draft:
            draft.mkdir()
            (draft / "requirements.txt").write_text(needed)
            what = ("--python-version", version, "--only-binary", ":all:", "-r", draft / "requirements.txt")
            run(TOOLS / "pip", "download", "--quiet", "--no-deps", "--dest", draft, *what)
    return folder


def missing_for_roots() -> str:
    """Return what this machine lacks to make a root; empty if it lacks nothing."""
    if os.geteuid() != 0:
        return "only root makes roots of Debian"
    return missing_for_namespaces() if shutil.which("mmdebstrap") else "mmdebstrap is not installed"


def _candidates(version: str) -> Iterator[Path]:
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep)]
    yield from (folder / f"python{version}" for folder in folders)
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    yield from sorted(versions.glob(f"{version}.*/bin/python{version}"), reverse=True)


def _works(path: Path) -> bool:
    if not path.is_file():
        return False
    answer = subprocess.run([path, "-c", "import ensurepip"], capture_output=True, timeout=300, check=False)
    return answer.returncode == 0
