"""Payloads in containers: which programs can run one here (the agent tries them), and their command lines."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from .attempt import VARIABLES, AttemptFailedError, ImageFailedError
from .view import NO_MOUNTS, SYSTEM, SitePaths

log = logging.getLogger(__name__)
PROGRAMS = (
    ("apptainer", "apptainer"),
    ("singularity", "apptainer"),
    ("podman", "podman"),
    ("ch-run", "ch-run"),
)
"""Programs and their kinds, in order of preference: the first that works and accepts the image runs it."""
PATIENCE = 60.0
"""Seconds that a trial may take."""
_OWN = ("PATH", "HOME", "USER", "XDG_RUNTIME_DIR", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "APPTAINER_CACHEDIR")
_LINKS = ("bin", "sbin", "lib", "lib64")
_FOLDERS = ("usr", "dev", "etc", "home", "proc", "root", "run", "sys", "tmp", "var/tmp")


@dataclass(frozen=True)
class ContainerRuntime:
    """A program that runs containers here: apptainer, podman or ch-run, and its path.

    Apptainer and Podman contain a payload themselves. ``ch-run`` hides no processes, so the agent contains it
    like a payload; the kernel does not let root do that. A ``regrouped`` container leaves the control group
    of its payload.
    """

    kind: str
    program: str
    regrouped: bool = False

    @property
    def is_contained(self) -> bool:
        """Return whether the agent must contain the program itself."""
        return self.kind == "ch-run"

    def takes(self, image: str) -> bool:
        """Return whether the program can run this form of image."""
        path = Path(image)
        if path.is_absolute():
            return path.is_dir() or (self.kind == "apptainer" and path.is_file())
        return self.kind == "apptainer" or (self.kind == "podman" and "://" not in image.replace(_DOCKER, ""))

    def command(
        self,
        image: str,
        place: Path,
        command: Sequence[str],
        binds: Sequence[tuple[str, str]],
        gpus: bool,
        mounts: Mapping[str, str] = NO_MOUNTS,
    ) -> list[str]:
        """Return the command line for a payload in ``place``.

        ``binds`` are pairs of a path and ``ro`` or ``rw``, ``mounts`` folders by their path inside.
        """
        option = "--volume" if self.kind == "podman" else "--bind"
        mode = "" if self.kind == "ch-run" else ":rw"
        mounted = [
            word
            for target, folder in sorted(mounts.items())
            for word in (option, f"{place / folder}:{target}{mode}")
        ]
        if self.kind == "apptainer":
            return [self.program, "exec", *mounted, *_apptainer(image, place, binds, gpus), *command]
        if self.kind == "podman":
            grouped = () if self.regrouped else ("--cgroups=disabled",)
            return [self.program, "run", *grouped, *mounted, *_podman(image, place, binds, gpus), *command]
        return [self.program, *mounted, *_charliecloud(image, place, [path for path, _ in binds]), *command]

    def environment(self, inside: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of the program itself.

        A payload's variables must not change what the program does.
        """
        variables = {name: os.environ[name] for name in _OWN if name in os.environ}
        variables.setdefault("USER", str(os.getuid()))
        # The program passes prefixed variables to the payload. Without the prefix they would steer the
        # program.
        if self.kind == "apptainer":
            variables |= {
                f"{prefix}ENV_{key}": value for key, value in inside.items() for prefix in _PREFIXES
            }
        return variables

    def clear(self, place: Path) -> None:
        """Remove the remains of a container of this directory."""
        if self.kind == "podman":
            command = [self.program, "rm", "--force", "--ignore", _name(place)]
            _run(command, self.environment({}), PATIENCE)


_DOCKER = "docker://"
_PREFIXES = ("APPTAINER", "SINGULARITY")


def _apptainer(image: str, place: Path, binds: Iterable[tuple[str, str]], gpus: bool) -> Iterator[str]:
    yield from ("--containall", "--cleanenv", "--writable-tmpfs", "--home", str(place))
    yield from ("--pwd", str(place))
    for path, mode in binds:
        yield from ("--bind", f"{path}:{path}:{mode}")
    if gpus:
        yield "--nv"
    yield image if image.startswith("/") or "://" in image else f"{_DOCKER}{image}"


def _podman(image: str, place: Path, binds: Iterable[tuple[str, str]], gpus: bool) -> Iterator[str]:
    # keep-id: the payload's files belong to the pilot's user, who has to remove them.
    yield from ("--rm", "--interactive", "--name", _name(place), "--network", "host", "--userns", "keep-id")
    # Otherwise Podman would run the image's entry point instead of the command.
    yield from ("--passwd=false", "--entrypoint", "[]", "--env-file", str(place / VARIABLES))
    yield from ("--volume", f"{place}:{place}", "--workdir", str(place))
    for path, mode in binds:
        yield from ("--volume", f"{path}:{path}:{mode}")
    if gpus:
        yield from ("--device", "nvidia.com/gpu=all")
    # The overlay of ":O" takes what a payload writes, so many payloads can share one folder of an image.
    yield from ("--rootfs", f"{image}:O") if image.startswith("/") else (image.replace(_DOCKER, "", 1),)


def _charliecloud(image: str, place: Path, binds: Iterable[str]) -> Iterator[str]:
    yield from (
        "--private-tmp",
        "--no-passwd",
        "--unset-env=*",
        "--env-no-expand",
        f"--set-env={place / VARIABLES}",
    )
    yield from ("--bind", f"{place}:{place}", "--cd", str(place))
    for path in binds:
        yield from ("--bind", f"{path}:{path}")
    yield from (image, "--")


def _name(place: Path) -> str:
    return f"pilotage-{os.getpid()}-{place.name}"


def write_variables(place: Path, inside: Mapping[str, str]) -> None:
    """Write the payload's environment. Leave out the search path, because an image has its own.

    Raises AttemptFailedError.
    """
    for name, value in inside.items():
        if "\n" in value or "\n" in name:
            raise AttemptFailedError(
                f"environment: {name!r} has a line end, which containers cannot be given"
            )
    path = place / VARIABLES
    path.write_text(
        "".join(f"{name}={value}\n" for name, value in inside.items() if name != "PATH"), encoding="utf-8"
    )
    path.chmod(0o600)


def choose(
    images: Sequence[str], runtimes: Sequence[ContainerRuntime], site: SitePaths
) -> tuple[ContainerRuntime, str]:
    """Return the program and image for a payload: the first image that can run here.

    Raises AttemptFailedError without a program, else ImageFailedError with a message for the job's owner.
    """
    if not runtimes:
        raise AttemptFailedError(
            f"container {images[-1]}: none of {', '.join(name for name, _ in PROGRAMS)} works at this node"
        )
    for image in images:
        if image.startswith("-"):
            raise ImageFailedError(f"container {image!r} is not the name of an image")
        if image.startswith("/") and not _is_shown(image, site):
            continue
        for runtime in runtimes:
            if runtime.takes(image):
                return runtime, image
    kinds = ", ".join(runtime.kind for runtime in runtimes)
    raise ImageFailedError(
        f"container {images[-1]}: none of {', '.join(images)} is an image that {kinds} can run here; a path "
        "must lie in the system, in /cvmfs, or in readable_paths of the queue"
    )


def _is_shown(image: str, site: SitePaths) -> bool:
    """Return whether payloads may see an image.

    Without this check a task could name any folder of the node.
    """
    path = Path(os.path.realpath(image))
    hidden = [Path(os.path.realpath(folder)) for folder in site.hidden]
    if any(path == folder or folder in path.parents or path in folder.parents for folder in hidden):
        return False
    system, lent = (
        [Path(os.path.realpath(folder)) for folder in folders]
        for folders in (SYSTEM, (*site.readable, *site.writable))
    )
    return path in lent or any(folder in path.parents for folder in (*system, *lent))


def find_runtimes(directory: Path) -> tuple[ContainerRuntime, ...]:
    """Return the programs that can run a container here. Each tries one made of this machine's own system."""
    candidates = [
        ContainerRuntime(kind, program)
        for name, kind in PROGRAMS
        if (program := shutil.which(name)) is not None
    ]
    root, place = directory / ".trial-root", directory / ".trial"
    candidates = [runtime for runtime in candidates if os.geteuid() or not runtime.is_contained]
    if not candidates:
        return ()
    try:
        # Make the mount points here: Podman would make them as another user, and we could not remove them.
        for folder in (*(root / name for name in _FOLDERS), place, root / str(place)[1:]):
            folder.mkdir(parents=True, exist_ok=True)
        for name in ("passwd", "group", "hosts", "resolv.conf"):
            (root / "etc" / name).touch()
        for name in _LINKS:
            if not (root / name).is_symlink():
                (root / name).symlink_to(f"usr/{name}")
        write_variables(place, {})
        tried = (
            next((variant for variant in _variants(candidate) if _works(variant, root, place)), None)
            for candidate in candidates
        )
        return tuple(runtime for runtime in tried if runtime is not None)
    except OSError as error:
        log.warning("containers cannot be tried: %s", error)
        return ()
    finally:
        shutil.rmtree(root, ignore_errors=True)
        shutil.rmtree(place, ignore_errors=True)


def _variants(runtime: ContainerRuntime) -> Iterator[ContainerRuntime]:
    """Yield the runtime.

    Yield Podman a second time as ``regrouped``, because over runc it cannot leave groups alone.
    """
    yield runtime
    if runtime.kind == "podman":
        yield replace(runtime, regrouped=True)


def _works(runtime: ContainerRuntime, root: Path, place: Path) -> bool:
    command = runtime.command(str(root), place, ["/usr/bin/true"], [("/usr", "ro")], gpus=False)
    fault = _run(command, runtime.environment({}), PATIENCE)
    if fault:
        log.info("%s does not run containers here: %s", runtime.program, fault)
    return not fault


def _run(command: Sequence[str], environment: Mapping[str, str], seconds: float) -> str:
    """Run a program to its end. Return its error, empty if it succeeded."""
    try:
        subprocess.run(
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        return str(error.stderr.decode(errors="replace").strip()[-300:] or error)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return ""
