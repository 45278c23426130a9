"""Files of the catalogue as inputs of apps: ``File("pilotage://scope/name")``."""

import posixpath
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any
from urllib.parse import unquote

from parsl.data_provider.data_manager import DataManager
from parsl.data_provider.files import File
from parsl.data_provider.staging import Staging

SCHEME = "pilotage"


class PilotageStaging(Staging):
    """Lets Pilotage bring files of its catalogue to the job: brokerage sees where they lie."""

    def can_stage_in(self, file: File) -> bool:
        """Return whether it is a file of the catalogue."""
        return bool(file.scheme == SCHEME)

    def can_stage_out(self, file: File) -> bool:
        """Return whether it is a file of the catalogue. Raises ``ValueError``: it cannot be an output."""
        if file.scheme == SCHEME:
            raise ValueError(
                f"{file.url}: outputs of apps do not go into Pilotage's catalogue; return a small result, or "
                "write to a folder that nodes share with you (working_dir)"
            )
        return False

    def stage_in(self, dm: DataManager, executor: str, file: File, parent_fut: Future[Any] | None) -> None:  # noqa: ARG002
        """Name the file's place, below the job's folder."""
        _, _, path = catalogue_name(file).partition(":")
        file.local_path = f"inputs/{path}"


def catalogue_name(file: File) -> str:
    """Return a file's name in the catalogue, ``scope:name``. Raises ``ValueError``."""
    path = unquote(file.path).lstrip("/")
    if not file.netloc or not path or posixpath.normpath(path) != path or path.startswith(".."):
        raise ValueError(f"{file.url}: write pilotage://scope/name")
    return f"{unquote(file.netloc)}:{path}"


def catalogue_files(args: Iterable[Any], keywords: Mapping[str, Any]) -> list[str]:
    """Return the names of the files of the catalogue among an app's arguments, each once."""
    values = [*args, *keywords.values(), *keywords.get("inputs", ())]
    files = [value for value in values if isinstance(value, File) and value.scheme == SCHEME]
    return list(dict.fromkeys(map(catalogue_name, files)))


def in_folder(function: Callable[..., Any], folder: str) -> Callable[..., Any]:
    """Return a function that runs another in a folder. Nodes need no module for it: it travels by value."""

    def call(*args: Any, **keywords: Any) -> Any:
        import os

        place = os.getcwd()  # noqa: PTH109
        for value in [*args, *keywords.values(), *keywords.get("inputs", ())]:
            if getattr(value, "scheme", "") == "pilotage" and getattr(value, "local_path", None):
                value.local_path = os.path.join(place, value.local_path)  # noqa: PTH118
        os.chdir(folder)
        try:
            return function(*args, **keywords)
        finally:
            os.chdir(place)

    call.__name__ = getattr(function, "__name__", "app")
    return call
