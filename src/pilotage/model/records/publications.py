"""Publications: outputs on their way into datasets of this catalogue, and of those that others keep."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from pilotage.model.values.scopes import PERSONAL, name_of, split_identifier
from pilotage.model.values.types import DESCRIBED

from .states import PublicationState

LONGEST_NAME = 200
"""Characters of a file's name in another's catalogue: Rucio takes 250."""

_UNKNOWN = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPublication:
    """A publication about to be."""

    __pydantic_config__ = DESCRIBED

    task: int
    """The task whose output it is."""
    dataset: str
    """The dataset, ``CATALOGUE~SCOPE:NAME``, or ``SCOPE:NAME`` of this catalogue."""
    asked: float
    """When it is asked for, in s since 1970."""
    file: str = ""
    """Identifier of the output, ``SCOPE:NAME``; empty: the dataset itself, closed or made at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """A publication as it stands."""

    __pydantic_config__ = DESCRIBED

    id: int
    """Its number."""
    task: int
    """The task whose output it is."""
    dataset: str
    """The dataset, ``CATALOGUE~SCOPE:NAME``, or ``SCOPE:NAME`` of this catalogue."""
    file: str
    """Identifier of the output, ``SCOPE:NAME``; empty: the dataset itself, closed or made at the end."""
    state: PublicationState
    """Where it is in its life."""
    attempt: int
    """The attempt under way, from 1."""
    created: float
    """When it came into being, in s since 1970."""
    since: float
    """When it came into its state, in s since 1970."""
    asked: float
    """When it was asked for, or last asked for again, in s since 1970: after a time it is given up."""
    wake_at: float
    """When it may be tried, in s since 1970."""
    error: str = ""
    """Why its last attempt failed."""
    server: str = ""
    """The process that asks its catalogue, or did last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationCount:
    """Outputs of a task in one state of their publication.

    ``error`` is that of one of them, ``wake_at`` when the first may be tried, in s since 1970.
    """

    files: int
    error: str
    wake_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedDataset:
    """The publications of a task: its outputs by state, and that of the dataset itself at the end."""

    files: Mapping[PublicationState, PublicationCount]
    closing: Publication | None


def split_dataset(dataset: str) -> tuple[str, str, str]:
    """Split ``CATALOGUE~SCOPE:NAME`` into its three parts; the catalogue is empty for one's own datasets."""
    scope, name = split_identifier(dataset)
    if not scope or scope.startswith(PERSONAL):
        return "", scope, name
    catalogue, _, inner = scope.partition("~")
    return catalogue, inner, name


def is_own(dataset: str) -> bool:
    """Tell whether a dataset of outputs is of this catalogue, and not of one that others keep."""
    return not split_dataset(dataset)[0]


def author_of(task: int) -> str:
    """Return the author of a dataset's version that was made of a task's outputs."""
    return f"task:{task}"


def published_name(dataset: str, file: str) -> str:
    """Return the name of an output, by its identifier, in its dataset's scope: ``DATASET.INSTANCE.JOB.PATH``.

    Characters that other catalogues do not take, ``/`` among them, become dots, and long names lose their
    beginning: a part of a digest keeps such names apart.
    """
    _, instance, _, job, path = name_of(file).split("/", 4)
    whole = f"{split_dataset(dataset)[2]}.{instance}.{job}.{path}"
    legal = _UNKNOWN.sub(".", whole)
    if legal == whole and len(whole) <= LONGEST_NAME:
        return whole
    digest = sha256(whole.encode()).hexdigest()[:12]
    return f"{digest}.{legal[-LONGEST_NAME + len(digest) + 1 :].lstrip('.')}"
