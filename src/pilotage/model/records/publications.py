"""Publications: outputs on their way into datasets of this catalogue or of external ones."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from pilotage.model.records.life import LifeInAttempts
from pilotage.model.records.states import PublicationState
from pilotage.model.values.scopes import PERSONAL, name_of, split_identifier
from pilotage.model.values.types import DESCRIBED, RecordId, Settable

LONGEST_NAME = 200
"""Most characters of a file's name in an external catalogue: Rucio takes 250."""

_UNKNOWN = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPublication:
    """A publication to create."""

    __pydantic_config__ = DESCRIBED

    task: RecordId
    """The task whose output it is."""
    dataset: str
    """The dataset, ``CATALOGUE~SCOPE:NAME``, or ``SCOPE:NAME`` of this catalogue."""
    asked: Settable[float]
    """When it was requested, or last requested again, in s since 1970. After some time it is given up."""
    file: str = ""
    """Identifier of the output, ``SCOPE:NAME``; empty: the dataset itself, closed or made at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication(NewPublication, LifeInAttempts):
    """A publication in its current state."""

    __pydantic_config__ = DESCRIBED

    state: PublicationState
    """Its state."""
    wake_at: Settable[float]
    """When it may be tried, in s since 1970."""
    server: Settable[str] = ""
    """The process that calls its catalogue, or the last that did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationCount:
    """Outputs of a task with one state of publication.

    ``error`` is from one of them; ``wake_at`` is when the first may be tried, in s since 1970.
    """

    files: int
    error: str
    wake_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedDataset:
    """The publications of a task: its outputs by state, and the dataset itself at the end."""

    files: Mapping[PublicationState, PublicationCount]
    closing: Publication | None


def split_dataset(dataset: str) -> tuple[str, str, str]:
    """Split ``CATALOGUE~SCOPE:NAME`` into its three parts.

    For this catalogue's datasets the catalogue is empty.
    """
    scope, name = split_identifier(dataset)
    if not scope or scope.startswith(PERSONAL):
        return "", scope, name
    catalogue, _, inner = scope.partition("~")
    return catalogue, inner, name


def is_own(dataset: str) -> bool:
    """Return whether a dataset of outputs belongs to this catalogue, not to an external one."""
    return not split_dataset(dataset)[0]


def author_of(task: int) -> str:
    """Return the author of a dataset's version made from a task's outputs."""
    return f"task:{task}"


def published_name(dataset: str, file: str) -> str:
    """Return an output's name in its dataset's scope, by its identifier: ``DATASET.INSTANCE.JOB.PATH``.

    Characters that other catalogues do not accept, including ``/``, become dots. Long names lose their
    beginning; a part of a digest keeps such names distinct.
    """
    _, instance, _, job, path = name_of(file).split("/", 4)
    whole = f"{split_dataset(dataset)[2]}.{instance}.{job}.{path}"
    legal = _UNKNOWN.sub(".", whole)
    if legal == whole and len(whole) <= LONGEST_NAME:
        return whole
    digest = sha256(whole.encode()).hexdigest()[:12]
    return f"{digest}.{legal[-LONGEST_NAME + len(digest) + 1 :].lstrip('.')}"
