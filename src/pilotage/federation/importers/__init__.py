"""Federations from other systems' documents: one module per kind, with pure functions on text."""

from collections.abc import Callable, Mapping, Sequence

from pilotage.federation.importers import cric, gfactory
from pilotage.federation.importers.import_result import Imported, ImportSource, Note, Summary

Importer = Callable[[Sequence[ImportSource], str], Imported]

IMPORTERS: Mapping[str, Importer] = {"gfactory": gfactory.read, "cric": cric.read}
"""Importers by kind. Each takes documents and a name, and returns the federation with a report."""

__all__ = ["IMPORTERS", "ImportSource", "Imported", "Importer", "Note", "Summary"]
