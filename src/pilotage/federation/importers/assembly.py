"""Assemble a federation from imported records: guess missing values, refuse contradictions."""

from dataclasses import dataclass, field
from typing import Any, TypeVar

from pilotage.federation.checks import federation_faults
from pilotage.federation.documents import checked
from pilotage.federation.faults import BadDocument, Fault, field_name
from pilotage.federation.importers.import_result import Entry, Imported, RefusedEntry, notes_of
from pilotage.federation.importers.values import Names
from pilotage.model.records.federation import Federation, Link, Queue, Site, Storage

Record = TypeVar("Record", Site, Storage, Queue, Link)
PLACEHOLDER = "file:///srv/pilotage/{name}"
"""The URL of a storage if no document gives it."""


@dataclass
class Draft:
    """The records found so far, each with its entry. ``entries`` includes refused ones."""

    sites: dict[str, tuple[Site, Entry]] = field(default_factory=dict)
    storages: dict[str, tuple[Storage, Entry]] = field(default_factory=dict)
    queues: dict[str, tuple[Queue, Entry]] = field(default_factory=dict)
    links: dict[str, tuple[Link, Entry]] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    guesses: list[Entry] = field(default_factory=list)
    site_names: Names = field(default_factory=Names)
    storage_names: Names = field(default_factory=Names)
    queue_names: Names = field(default_factory=Names)

    def entry(self, file: str, line: int | None, name: str) -> Entry:
        """Return a new entry, to be filled while reading."""
        entry = Entry(file, line, name)
        self.entries.append(entry)
        return entry

    def need_site(self, name: str, entry: Entry) -> None:
        """Add a site by its legal name, even if no document describes it."""
        if name not in self.sites:
            self.sites[name] = (record(Site, {"name": name}), entry)

    def need_storage(self, site: str, entry: Entry, name: str = "") -> str:
        """Return the storage of this name, or of a site. Guess it if no document describes it."""
        guess = Entry(entry.file, entry.line, entry.name)
        storage = name or self.storage_names.take(f"{site}-storage", guess, "storage", "storage")
        if storage not in self.storages:
            url = PLACEHOLDER.format(name=storage)
            guessed = record(Storage, {"name": storage, "site": site, "url": url})
            self.storages[storage] = (guessed, guess)
            text = f"{storage} at {url}, with unknown free space: correct both before any file is moved"
            guess.note("guessed", "storage", "", text)
            self.guesses.append(guess)
        return storage

    def federation(self, name: str) -> Imported:
        """Return the federation of all records that agree. ``name`` becomes a legal name."""
        named = Entry("", None, name)
        legal = Names().take(name, named, "name", "imported")
        house = self._settled(legal)
        if house is None and not any(entry.refused for entry in self.entries):
            named.refuse(RefusedEntry("", "", "the documents hold no queue", "give a document of queues too"))
        notes = notes_of([*self.entries, *self.guesses, named])
        return Imported(federation=house, entries=len(self.entries), notes=notes)

    def _settled(self, name: str) -> Federation | None:
        """Refuse every record that contradicts the others, with its whole entry. Return the rest."""
        # Removing a record may break references of others, so repeat until nothing contradicts.
        while self.queues:
            house = Federation(
                name=name,
                sites=tuple(site for site, _ in self.sites.values()),
                storages=tuple(storage for storage, _ in self.storages.values()),
                queues=tuple(queue for queue, _ in self.queues.values()),
                links=tuple(link for link, _ in self.links.values()),
            )
            faults = federation_faults(house)
            if not faults:
                return house
            origins = {part: [entry for _, entry in getattr(self, part).values()] for part in _PARTS}
            for fault in faults:
                part, at = str(fault.path[0]), int(fault.path[1])
                entry = origins[part][at]
                entry.refuse(
                    _refused(Fault(fault.path[2:], fault.message, fault.remedy), getattr(house, part)[at])
                )
                self._remove(entry)
        return None

    def _remove(self, entry: Entry) -> None:
        for part in _PARTS:
            records = getattr(self, part)
            for name in [name for name, (_, origin) in records.items() if origin is entry]:
                del records[name]


_PARTS = ("sites", "storages", "queues", "links")


def record(kind: type[Record], document: dict[str, Any]) -> Record:
    """Return a record of checked fields.

    Raises ``RefusedEntry`` at the first field that does not fit.
    """
    try:
        return checked(kind, document)
    except BadDocument as bad:
        raise _refused(bad.faults[0], document) from bad


def _refused(fault: Fault, holder: object) -> RefusedEntry:
    name = str(fault.path[0]) if fault.path else ""
    value = holder.get(name) if isinstance(holder, dict) else getattr(holder, name, None)
    return RefusedEntry(field_name(fault.path), value, fault.message, fault.remedy or "correct it")
