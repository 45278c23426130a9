"""Federations from other systems' documents: a module for each kind, pure functions from text."""

from collections.abc import Callable, Mapping, Sequence

from . import cric, gfactory
from .import_result import Imported, ImportSource, Note, Summary

Importer = Callable[[Sequence[ImportSource], str], Imported]

IMPORTERS: Mapping[str, Importer] = {"gfactory": gfactory.read, "cric": cric.read}
"""By kind: from documents, and a name for the federation, to the federation with a report."""

__all__ = ["IMPORTERS", "ImportSource", "Imported", "Importer", "Note", "Summary"]
