"""Documents of the CRIC kind: queues, sites, storages with status and space, software, and closeness.

Each file holds one document, or several by name. Together, in any order, they make one federation.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pilotage.federation.importers.assembly import Draft, record
from pilotage.federation.importers.cric_documents import Document, Mapped, Unreadable, documents, records
from pilotage.federation.importers.cric_queues import read_queues
from pilotage.federation.importers.cric_storages import read_storages
from pilotage.federation.importers.import_result import Entry, Imported, ImportSource, RefusedEntry
from pilotage.federation.importers.values import truth
from pilotage.model.records.federation import Link, Site
from pilotage.model.values.types import BLOCKED, FARTHEST, SMALLEST

_NUCLEUS = ("Nucleus", "TaskNucleus", "nucleus")
_SCALE = f"give 0 (best) to {FARTHEST}, or {BLOCKED} for blocked"
_WHY = {"tier_level": "what makes a nucleus is its data policy"}


def read(sources: Sequence[ImportSource], name: str) -> Imported:
    """Return the federation in all documents."""
    draft = Draft()
    parts: list[Document] = []
    for source in sources:
        try:
            parts += documents(source)
        except Unreadable as bad:
            draft.entry(source.name, bad.line, "").refuse(bad)
    _read_sites(parts, draft)
    storages = read_storages(parts, draft)
    read_queues(parts, draft, storages)
    for document in parts:
        if document.kind == "closeness":
            _read_links(document, draft)
    imported = draft.federation(name)
    sources_of = _container_sources(parts)
    if imported.federation is None or not sources_of:
        return imported
    return replace(imported, federation=replace(imported.federation, container_sources=sources_of))


def _read_sites(parts: Sequence[Document], draft: Draft) -> None:
    for document in parts:
        if document.kind != "sites":
            continue
        for name, site in records(document, draft.entry):
            try:
                legal = draft.site_names.take(name, site.entry, "name", "site")
                if legal in draft.sites:
                    raise RefusedEntry("", name, "is a site already", "keep one of them")
                policies = site.texts("datapolicies")
                role = site.text("role").lower()
                if site.text("state").upper() not in ("", "ACTIVE"):
                    site.note("dropped", "state", "sites have no state: the states of their queues count")
                nucleus = truth("nucleus", site.get("nucleus"))
                central = role == "nucleus" or any(word in policies for word in _NUCLEUS)
                imported = record(Site, {"name": legal, "nucleus": central if nucleus is None else nucleus})
                site.drop_the_rest(_WHY)
                draft.sites[legal] = (imported, site.entry)
            except RefusedEntry as refused:
                site.refuse(refused)


def _read_links(document: Document, draft: Draft) -> None:
    for place, (source, destination, closeness) in _cells(document.content):
        name = f"{source or '?'} to {destination or '?'}"
        entry = draft.entry(document.source.name, document.line(*place), name)
        try:
            link = _link(source, destination, closeness, entry, draft)
            if link is not None:
                draft.links[f"{link.source} {link.destination}"] = (link, entry)
        except RefusedEntry as refused:
            entry.refuse(refused)


def _cells(content: Any) -> Iterator[tuple[tuple[str, ...], tuple[Any, Any, Any]]]:
    """Yield source, destination and closeness with their place, from a list, a matrix, or
    ``source:destination``."""
    rows = content if isinstance(content, list) else [content]
    for name, row in content.items() if isinstance(content, dict) else (("", row) for row in rows):
        place = (name,) if name else ()
        if isinstance(row, dict) and ("src" in row or "closeness" in row):
            source, _, destination = name.partition(":")
            yield place, (row.get("src", source), row.get("dst", destination), row.get("closeness"))
        elif isinstance(row, dict) and name:
            yield from (((name, cell), (name, cell, closeness)) for cell, closeness in row.items())
        elif ":" in name:
            source, _, destination = name.partition(":")
            yield place, (source, destination, row)
        else:
            yield place, (name or None, None, row)


def _link(source: Any, destination: Any, closeness: Any, entry: Entry, draft: Draft) -> Link | None:
    for field, value in (("src", source), ("dst", destination)):
        if not isinstance(value, str) or not value:
            raise RefusedEntry(field, value, "names no site", "give src, dst and closeness")
    if isinstance(closeness, dict):
        closeness = closeness.get("latest")
    number = isinstance(closeness, int | float) and not isinstance(closeness, bool)
    if not number or not (closeness == BLOCKED or closeness >= 0):
        raise RefusedEntry("closeness", closeness, "is no closeness", _SCALE)
    ends = [draft.site_names.take(name, entry, "site", "site") for name in (source, destination)]
    if ends[0] == ends[1]:
        entry.note("dropped", "closeness", closeness, "a site needs no link to itself")
        return None
    unknown = [end for end in ends if end not in draft.sites]
    if unknown:
        entry.note("dropped", "closeness", closeness, f"no queue or storage is at {' or '.join(unknown)}")
        return None
    if f"{ends[0]} {ends[1]}" in draft.links:
        raise RefusedEntry("", "", "is given already", "keep one of them")
    if closeness > FARTHEST:
        entry.note("clipped", "closeness", closeness, f"{FARTHEST}, the farthest there is")
    if 0 < closeness < SMALLEST:
        entry.note("clipped", "closeness", closeness, "0, the best there is")
        closeness = 0
    return Link(source=ends[0], destination=ends[1], closeness=float(min(closeness, FARTHEST)))


def _container_sources(parts: Sequence[Document]) -> dict[str, tuple[str, ...]]:
    """Return the paths of container images by name, from the ``ALL`` entry of software documents (B14)."""
    sources: dict[str, tuple[str, ...]] = {}
    for document in parts:
        content = document.content if document.kind == "software" else None
        everything = content.get("ALL") if isinstance(content, Mapped) else None
        if not isinstance(everything, dict):
            continue
        tags = everything.get("tags")
        pairs = [
            (tag.get("container_name"), tag.get("sources"))
            for tag in (tags if isinstance(tags, list) else ())
            if isinstance(tag, dict)
        ] or list(everything.items())
        for name, paths in pairs:
            texts = [paths] if isinstance(paths, str) else paths if isinstance(paths, list) else []
            if isinstance(name, str) and name and texts and all(isinstance(text, str) for text in texts):
                sources[name] = tuple(texts)
    return sources
