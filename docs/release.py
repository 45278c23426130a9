"""``make release``: an sdist and a wheel of the last commit in ``dist``, with checksums, bill and versions.

It builds them twice, in other folders, time zones and file modes. It fails if a byte differs. Builds begin
with the files of the commit: they leave out uncommitted changes.
"""

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from generators.bill_of_materials import bill_of_materials, constraints

ROOT = Path(__file__).parents[1]

SURROUNDINGS: tuple[tuple[Mapping[str, str], int], ...] = (
    ({"TZ": "UTC"}, 0o022),
    ({"TZ": "Pacific/Kiritimati", "PYTHONHASHSEED": "7"}, 0o077),
)
"""Variables and file modes of the two builds."""


class NotReproducible(Exception):
    """Two builds of one commit differ."""


def main(target: Path) -> None:
    """Fill the folder, and print what is in it. Raises ``NotReproducible``."""
    moment = int(_git("log", "-1", "--format=%ct"))
    with TemporaryDirectory() as first, TemporaryDirectory() as second:
        built = [
            _build(Path(folder), {**variables, "SOURCE_DATE_EPOCH": str(moment)}, mask)
            for folder, (variables, mask) in zip((first, second), SURROUNDINGS, strict=True)
        ]
        files = equal_files(*built)
    (wheel,) = (name for name in files if name.endswith(".whl"))
    stem = "-".join(wheel.split("-")[:2])
    files[f"{stem}.cdx.json"] = bill_of_materials(wheel, files[wheel], moment).encode()
    files[f"{stem}.constraints.txt"] = constraints().encode()
    sums = "".join(f"{sha256(content).hexdigest()}  {name}\n" for name, content in sorted(files.items()))
    files["SHA256SUMS"] = sums.encode()
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name, content in files.items():
        (target / name).write_bytes(content)
    print(f"the same bytes twice, of commit {_git('rev-parse', '--short=12', 'HEAD')}\n{sums}", end="")


def equal_files(first: Path, second: Path) -> dict[str, bytes]:
    """Return the files of two folders by name. Raises ``NotReproducible`` if they differ."""
    files, others = (
        {path.name: path.read_bytes() for path in folder.iterdir()} for folder in (first, second)
    )
    if different := sorted(name for name in files | others if files.get(name) != others.get(name)):
        raise NotReproducible(f"two builds of one commit differ: {', '.join(different)}")
    return files


def _build(folder: Path, variables: Mapping[str, str], mask: int) -> Path:
    """Build the sdist from the commit's files, and the wheel from the sdist. Return their folder."""
    archive, source, built = folder / "commit.tar", folder / "source", folder / "built"
    _git("archive", "--output", str(archive), "HEAD")
    _unpack(archive, source)
    _write_manual(source, variables)
    _hatchling("sdist", source, built, variables, mask)
    (sdist,) = built.iterdir()
    _unpack(sdist, folder / "unpacked")
    (unpacked,) = (folder / "unpacked").iterdir()
    _hatchling("wheel", unpacked, built, variables, mask)
    return built


def _write_manual(source: Path, variables: Mapping[str, str]) -> None:
    """Add man pages and completions of the commit's commands, which the sdist and the wheel carry."""
    surroundings = os.environ | variables | {"PYTHONPATH": f"{source / 'src'}{os.pathsep}{source / 'docs'}"}
    for script in (("hatch_build.py",), ("docs/manual.py", "share")):
        subprocess.run([sys.executable, "-B", *script], cwd=source, env=surroundings, check=True)


def _hatchling(kind: str, source: Path, target: Path, variables: Mapping[str, str], mask: int) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", str(target)]
    subprocess.run(command, cwd=source, env=os.environ | variables, umask=mask, stdout=sys.stderr, check=True)


def _unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as content:
        content.extractall(folder, filter="data")


def _git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE
    ).stdout.strip()


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except NotReproducible as error:
        sys.exit(str(error))
