"""The demonstration's data: the sources of the Python standard library that runs it."""

import os
import shutil
import sysconfig
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from pydantic import TypeAdapter, ValidationError

from pilotage.model.records.work import FileName

PREFIX = "python"
_LEFT_OUT = frozenset(
    {
        "__pycache__",
        "dist-packages",
        "idlelib",
        "lib2to3",
        "pydoc_data",
        "site-packages",
        "test",
        "tests",
        "turtledemo",
    }
)
_FILE_NAME: TypeAdapter[str] = TypeAdapter(FileName)


def sources(root: Path | None = None) -> list[tuple[str, Path]]:
    """Return logical names such as ``python/json/decoder.py`` with paths of the library's modules, sorted
    by name."""
    library = root or Path(sysconfig.get_path("stdlib"))
    modules: list[tuple[str, Path]] = []
    for directory, below, files in os.walk(library):
        # Change it in place, so that walk skips the excluded folders, which hold more files than the library.
        below[:] = [name for name in below if name not in _LEFT_OUT]
        for file in files:
            path = Path(directory, file)
            name = str(PurePosixPath(PREFIX, *path.relative_to(library).parts))
            if path.suffix == ".py" and path.is_file() and _is_file_name(name):
                modules.append((name, path))
    return sorted(modules)


def spread(files: Sequence[tuple[str, Path]], storages: Sequence[Path]) -> None:
    """Copy each file to one of the storages in turn, under its logical name."""
    for index, (name, path) in enumerate(files):
        target = storages[index % len(storages)] / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


def _is_file_name(name: str) -> bool:
    try:
        _FILE_NAME.validate_python(name)
    except ValidationError:
        return False
    return True
