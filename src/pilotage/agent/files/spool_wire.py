"""Documents about results that pilots leave in their site's spool, and the seal of their pilot."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Optional

from ..wire import AttemptLogs, JobOrder, Report, Source

MANIFEST = "manifest"
"""The file with the manifest, in the folder of an attempt: its seal on a line, then ``LeftResults``.

Each other file is named by its place among the manifest's.
"""


@dataclass(frozen=True)
class LeftFile:
    """An output in a spool: its path in the scratch folder that it belongs to, bytes and SHA-256."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class LeftResults:
    """Results of an attempt in its site's spool: the report, outputs that no storage has, logs."""

    report: Report
    files: tuple[LeftFile, ...] = ()
    logs: Optional[AttemptLogs] = None


@dataclass(frozen=True)
class SealedManifest:
    """Results of an attempt that another pilot found: their ``place`` in the spool, which keeps them for some
    ``days``, the text of ``LeftResults``, and its seal."""

    place: str
    days: float
    seal: str
    manifest: str


@dataclass(frozen=True)
class CourierOrder:
    """Orders for results that another pilot left: store them by the ``order`` at the ``storage``, or remove
    them if they are ``unwanted``, or else do nothing."""

    order: Optional[JobOrder] = None
    storage: Optional[Source] = None
    unwanted: bool = False


def seal(token_hash: str, job: int, attempt: int, manifest: bytes) -> str:
    """Return the seal of an attempt's manifest. ``token_hash`` is the SHA-256 of the pilot's own token."""
    key = hmac.digest(token_hash.encode(), f"results of {job}.{attempt}".encode(), "sha256")
    return hmac.new(key, manifest, "sha256").hexdigest()
