"""The RO-Crate beside fetched outputs, ``ro-crate-metadata.json``: what ran, to cite it or to rerun it."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from pilotage.model.values.paths import OUTPUTS, is_file_name, path_in_job
from pilotage.model.values.strict_json import read_json

from .destination import Destination, OpenFolder
from .errors import ClientError, FetchFailed

if TYPE_CHECKING:
    from .records import Record

NAME = "ro-crate-metadata.json"
DOCUMENT = "#task-document"
"""The entity that has the document of the task as its text."""

LARGEST_MANIFEST = 256 << 20
"""Most bytes of a manifest that is read."""

OURS = (
    b'{"@context": ["https://w3id.org/ro/crate/1.1/context", "https://w3id.org/ro/terms/workflow-run/context"'
)
"""How a manifest of Pilotage begins."""

LONGEST_SIZE = 19
"""Most digits of a file's size."""

RUN = re.compile(rb'"(?:identifier|datePublished)": "[^"]*"')
LONGEST_ROOT = 1 << 16
"""Bytes at the begin of a manifest that name its task and when that ended, before its files."""

KINDS = ("adler32", "md5", "sha256")
"""Kinds of checksums."""

CHECKSUM = re.compile(r"(\w+:[0-9a-fA-F]{1,128})?")
"""A checksum with its kind, or none."""


@dataclass(frozen=True, slots=True)
class OutputPlace:
    """Which output of a task a file is: the place of its job in the task, and its path there."""

    index: int | None
    name: str

    def __str__(self) -> str:
        return self.name if self.index is None else f"{self.name} of job {self.index}"


class BadManifest(ClientError):
    """A file is no manifest of a task."""


def read_manifest(content: bytes) -> dict[str, Any]:
    """Return the document of a manifest. Raises ``BadManifest``."""
    try:
        document = read_json(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise BadManifest(f"it is no JSON: {error}") from error
    _graph(document)
    return dict(document)


def _graph(document: object) -> list[Any]:
    graph = document.get("@graph") if isinstance(document, Mapping) else None
    if not isinstance(graph, list):
        raise BadManifest("it is no RO-Crate: it has no list @graph")
    return graph


def files_refused(files: Sequence[str], to: Path) -> str:
    """Return why no manifest may be written beside these files; empty if it may be."""
    place = Destination(to, NAME)
    if NAME in files:
        return f"{place.path} is an output of the task"
    try:
        with place.folder() as folder:
            file = folder.open(NAME, os.O_RDONLY)
            if file is None:
                return ""
            with file:
                is_ours = file.read(len(OURS)) == OURS
    except (FetchFailed, OSError) as failure:
        return str(failure)
    return "" if is_ours else f"{place.path} is a file of another kind; it stays as it is"


@contextmanager
def new_file(to: Path) -> Iterator[BinaryIO]:
    """Open a file that replaces the manifest of a folder once it is complete. Raises OSError, FetchFailed.

    A manifest of the same run stays: people state a license in it. So does one of another task, or with
    another identifier.
    """
    part = f".{NAME}.part"
    with Destination(to, NAME).folder() as folder:
        file = folder.open(part, os.O_RDWR | os.O_CREAT)
        assert file is not None  # made where it was missing
        with file:
            file.truncate(0)
            yield file
        run, earlier = _run(folder, part), _run(folder, NAME)
        if not earlier or (run[:1] == earlier[:1] and run != earlier):
            folder.rename(part, NAME)
            return
        folder.remove(part)
        if run != earlier:
            raise FetchFailed(f"{to / NAME} has another identifier; it stays as it is")


def _run(folder: OpenFolder, name: str) -> list[bytes]:
    """Return the identifier of a manifest's task, and when the task ended; empty if it has none."""
    file = folder.open(name, os.O_RDONLY)
    if file is None:
        return []
    with file:
        return RUN.findall(file.read(LONGEST_ROOT).partition(b'"hasPart"')[0])


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a manifest says of its task: the document, and its outputs by place and name."""

    document: Mapping[str, Any]
    outputs: Mapping[OutputPlace, tuple[int, str]]
    """Size and checksum of each output."""

    @classmethod
    def of(cls, manifest: "Mapping[str, Any] | Record | str | Path") -> "Manifest":
        """Return the manifest in a document, a file or a folder. Raises ``BadManifest``."""
        if isinstance(manifest, str | Path):
            document = read_file(Path(manifest))
            try:
                return cls.of(document)
            except BadManifest as error:
                raise BadManifest(f"{manifest}: {error}") from None
        graph = [entity for entity in _graph(manifest) if isinstance(entity, dict)]
        text = next((entity.get("text") for entity in graph if entity.get("@id") == DOCUMENT), None)
        try:
            task = read_json(text) if isinstance(text, str) else None
        except (ValueError, RecursionError) as error:
            raise BadManifest(f"the text of its entity {DOCUMENT} is no JSON: {error}") from error
        if not isinstance(task, dict):
            raise BadManifest(f"it has no entity {DOCUMENT} with a task: `pilotage manifest TASK` writes one")
        if not isinstance(task.get("inputs", []), list):
            raise BadManifest(f"the inputs of the task in {DOCUMENT} are no list")
        return cls(task, dict(_outputs(graph)))

    @property
    def files(self) -> list[Mapping[str, Any]]:
        """Return the files that the task read."""
        inputs = self.document.get("inputs", ())
        return [item for item in inputs if isinstance(item, dict) and "size" in item]

    @property
    def secrets(self) -> list[str]:
        """Return the names of the secrets that the task reads."""
        secrets = self.document.get("secrets") or []
        items = secrets if isinstance(secrets, list) else [secrets]
        return [str(item.get("name")) if isinstance(item, dict) else str(item) for item in items]

    def document_now(self, changed: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
        """Return the document for another run, which waits for no other task. ``changed`` has the size and
        checksum of files that changed, by their place among ``files``. Raises ``BadManifest``."""
        if any(isinstance(item, dict) and "task" in item for item in self.document.get("inputs", ())):
            raise BadManifest(
                "its task ended before it had the outputs of the tasks before it: submit it anew"
            )
        document = {name: value for name, value in self.document.items() if name not in ("after", "on")}
        if changed:
            read = iter(range(len(self.files)))
            document["inputs"] = [
                {**item, **changed.get(next(read), {})} if isinstance(item, dict) and "size" in item else item
                for item in self.document["inputs"]
            ]
        return document

    def differing(self, outputs: Iterable[Mapping[str, Any]]) -> list[str]:
        """Return which outputs are not as those of the manifest, and how."""
        rest = dict(self.outputs)
        reasons = []
        for output in outputs:
            place = OutputPlace(output.get("index"), path_in_job(str(output.get("name"))))
            if (before := rest.pop(place, None)) is None:
                reasons.append(f"{place} is new")
            elif not _agree(before, now := (output["size"], str(output["checksum"]))):
                reasons.append(f"{place} has {_described(*now)}, and had {_described(*before)}")
        return [*reasons, *(f"{place} is missing" for place in rest)]


def read_file(path: Path) -> dict[str, Any]:
    """Return the document of a manifest's file, or of the one in a folder. Raises ``BadManifest``."""
    file = path / NAME if path.is_dir() else path
    try:
        if file.exists() and not file.is_file():
            raise BadManifest("it is no file")  # a pipe or a device may have no end
        if file.stat().st_size > LARGEST_MANIFEST:
            raise BadManifest(f"it has more than {LARGEST_MANIFEST >> 20} MiB")
        return read_manifest(file.read_bytes())
    except FileNotFoundError:
        folders = sorted(found.parent.name for found in path.glob(f"*/{NAME}")) if path.is_dir() else []
        hint = f"; these folders in it have one: {', '.join(folders[:10])}" if folders else ""
        raise BadManifest(f"there is no {file}{hint}") from None
    except OSError as error:
        raise BadManifest(f"{file}: {error.strerror}") from error
    except BadManifest as error:
        raise BadManifest(f"{file}: {error}") from None


def _outputs(graph: Iterable[Mapping[str, Any]]) -> Iterator[tuple[OutputPlace, tuple[int, str]]]:
    """Yield the files that the crate's folder has."""
    for entity in graph:
        if entity.get("@type") != "File" or str(entity.get("@id")).startswith("urn:"):
            continue
        name, size, index = str(entity.get("name")), str(entity.get("contentSize")), entity.get("position")
        place = str(entity.get("@id"))[:200]
        if not size.isdecimal() or len(size) > LONGEST_SIZE or not isinstance(index, int | None):
            raise BadManifest(f"its file {place} has no number as size or position")
        if not is_file_name(f"{OUTPUTS}/{name}"):
            raise BadManifest(f"its file {place} has no name that an output can have")
        checksum = next((f"{kind}:{entity[kind]}" for kind in KINDS if kind in entity), "")
        if not CHECKSUM.fullmatch(checksum):
            raise BadManifest(
                f"its file {place} has a checksum with other characters than hexadecimal digits"
            )
        yield OutputPlace(index, name), (int(size), checksum)


def _agree(before: tuple[int, str], now: tuple[int, str]) -> bool:
    """Return whether two descriptions may be of the same bytes: only checksums of one kind are compared."""
    kinds = {checksum.partition(":")[0] for _, checksum in (before, now)}
    return before[0] == now[0] and (before[1] == now[1] or len(kinds) > 1)


def _described(size: int, checksum: str) -> str:
    return f"{size:,} bytes{f', {checksum}' if checksum else ''}"
