"""CRIC storages: endpoints, their status by activity, and the space that Rucio counts."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pilotage.federation.importers.assembly import PLACEHOLDER, Draft, record
from pilotage.federation.importers.cric_documents import Document, Record, records
from pilotage.federation.importers.import_result import RefusedEntry
from pilotage.federation.importers.values import Measure, number, truth
from pilotage.model.records.federation import Storage

BYTES = Measure("bytes", 0, 1e21)
GIGABYTE = 1e9
MOST_GIGABYTES = 1e8
"""Free space above this (100 PB in GB) must be in bytes: no endpoint has more."""

_ACTIVITIES: Mapping[str, tuple[str, ...]] = {
    **{name: (name,) for name in ("read_lan", "write_lan", "read_wan", "write_wan")},
    "r": ("read_lan", "read_wan"),
    "read": ("read_lan", "read_wan"),
    "w": ("write_lan", "write_wan"),
    "write": ("write_lan", "write_wan"),
}
_SCHEMES = ("https", "davs", "http", "root", "s3")
_URL = re.compile(r"[a-z][a-z0-9+]*://[^\s/]\S*")
_WHY = {"token": "it follows from the endpoint's name", "type": "whether it is tape counts"}


def read_storages(all_documents: list[Document], draft: Draft) -> dict[str, str]:
    """Add the storages to the draft. Return the legal names of accepted storages by their original names."""
    status = _by_name(all_documents, "blacklist", draft)
    usage = _by_name(all_documents, "usage", draft)
    names: dict[str, str] = {}
    for document in (document for document in all_documents if document.kind == "storages"):
        for name, endpoint in records(document, draft.entry):
            try:
                if name in names:
                    raise RefusedEntry("", name, "is a storage already", "keep one of them")
                storage = _storage(name, endpoint, draft, status.pop(name, None), usage.pop(name, None))
                if storage is not None:
                    draft.storages[storage.name] = (storage, endpoint.entry)
                    names[name] = storage.name
            except RefusedEntry as refused:
                endpoint.refuse(refused)
    for rest in (*status.values(), *usage.values()):
        rest.entry.note("dropped", "", "", "no document describes this storage")
    return names


def _by_name(all_documents: list[Document], kind: str, draft: Draft) -> dict[str, Record]:
    parts = (document for document in all_documents if document.kind == kind)
    return {name: part for document in parts for name, part in records(document, draft.entry)}


def _storage(
    name: str, endpoint: Record, draft: Draft, status: Record | None, usage: Record | None
) -> Storage | None:
    state = endpoint.text("state")
    if state and state.upper() != "ACTIVE":
        endpoint.note("dropped", "state", "the endpoint is not active: left out")
        return None
    site = endpoint.text("site", "atlas_site", "rc_site")
    if not site:
        raise RefusedEntry("site", "", "is missing", "name the site of the storage")
    legal = draft.storage_names.take(name, endpoint.entry, "name", "storage")
    place = draft.site_names.take(site, endpoint.entry, "site", "site")
    document: dict[str, Any] = {
        "name": legal,
        "site": place,
        "url": _url(endpoint, legal),
        "tape": _tape(endpoint),
        "scratch": _scratch(name, endpoint),
        "blacklisted": sorted({*_own_blacklist(endpoint), *_blacklist(status)}),
    }
    free = _free(endpoint, usage)
    if free is not None:
        document["free"] = free
    endpoint.drop_the_rest(_WHY)
    storage = record(Storage, document)
    draft.need_site(place, endpoint.entry)
    return storage


def _tape(endpoint: Record) -> bool:
    is_tape = truth("is_tape", endpoint.get("is_tape"))
    if is_tape is None:
        is_tape = "TAPE" in endpoint.text("type").upper()
        endpoint.note("guessed", "is_tape", f"is missing: {'tape' if is_tape else 'disk'}, by its type")
    return is_tape


def _scratch(name: str, endpoint: Record) -> bool:
    """Guess from its name whether a storage is scratch, as the published system does."""
    is_scratch = "scratch" in name.lower()
    if is_scratch:
        endpoint.note("guessed", "name", "scratch space by its name: no outputs are gathered there")
    return is_scratch


def _free(endpoint: Record, usage: Record | None) -> float | None:
    """Return the free GB, None if unknown."""
    if usage is not None:
        counted = usage.get("storage")
        bytes_free = number("storage", counted.get("free"), BYTES) if isinstance(counted, dict) else None
        if bytes_free is not None:
            usage.note("converted", "storage", "from bytes to GB")
            usage.drop_the_rest({})
            return bytes_free / GIGABYTE
    space = endpoint.get("space", "space_free", "free", "available")
    name = endpoint.name_of("space", "space_free", "free", "available")
    if isinstance(space, dict):
        space = next((space[key] for key in ("free", "space_free", "available") if key in space), None)
    free = number(name, space, BYTES)
    if free is None:
        endpoint.note("guessed", name, "is missing: the free space is unknown, and counts as enough")
    elif free > MOST_GIGABYTES:
        endpoint.note("converted", name, "from bytes, as it is so large, to GB")
        return free / GIGABYTE
    else:
        endpoint.note("guessed", name, "counts as GB")
    return free


def _own_blacklist(endpoint: Record) -> Iterator[str]:
    """Yield blocked activities from the endpoint's own document: true, a list of activities, or true by
    direction."""
    value = endpoint.get("blacklisted", "blacklisting")
    if isinstance(value, list | dict):
        yield from _activities(value, endpoint, endpoint.name_of("blacklisted", "blacklisting"))
    elif truth("blacklisted", value):
        yield from (*_ACTIVITIES["r"], *_ACTIVITIES["w"])
    for direction in ("read", "write"):
        if truth(f"blacklisted_{direction}", endpoint.get(f"blacklisted_{direction}")):
            yield from _ACTIVITIES[direction]


def _blacklist(status: Record | None) -> Iterator[str]:
    if status is not None:
        yield from _activities(status.all(), status, "status")


def _activities(names: list[Any] | dict[str, Any], of: Record, field: str) -> Iterator[str]:
    """Yield the activities that are off: each item of a list, or the keys with the value OFF."""
    for name in names:
        if isinstance(names, dict) and not _is_off(names[name]):
            continue
        activities = _ACTIVITIES.get(name.lower()) if isinstance(name, str) else None
        if activities is None:
            of.entry.note(
                "dropped", field, name, "is no activity of the brokerage: read or write, lan or wan"
            )
        yield from activities or ()


def _is_off(value: Any) -> bool:
    """Return whether a value means off: ``OFF``, true, or a CRIC document with that status or only such
    rules."""
    if isinstance(value, dict):
        if "status" in value:
            return _is_off(value["status"])
        if "value" in value:
            return _is_off(value["value"])
        mode = value.get("mode")
        return isinstance(mode, dict) and any(str(key).upper() == "OFF" for key in mode)
    return value is True or (
        isinstance(value, str) and value.upper() in ("OFF", "BLACKLISTED", "DISABLED", "TRUE")
    )


def _url(endpoint: Record, name: str) -> str:
    """Return the URL of the files, from the protocol that suits the mover best, else from service and
    path."""
    urls = []
    for field in ("url", "arprotocols", "rprotocols", "aprotocols", "protocols"):
        value = endpoint.get(field)
        urls += [value] if isinstance(value, str) else list(_endpoints(value))
    service, path = endpoint.get("se"), endpoint.get("endpoint", "path")
    if isinstance(service, str):
        urls.append(service.rstrip("/") + (path if isinstance(path, str) else ""))
    usable = [url for url in urls if _URL.fullmatch(url) and url.isprintable()]
    if not usable:
        url = PLACEHOLDER.format(name=name)
        endpoint.note("guessed", "url", f"is missing: {url}")
        return url
    best = min(usable, key=lambda url: (_rank(url), usable.index(url)))
    if best.startswith("davs://"):
        endpoint.note("converted", "url", f"davs is https: {best}")
        best = "https" + best.removeprefix("davs")
    return best


def _rank(url: str) -> int:
    scheme = url.partition(":")[0]
    return _SCHEMES.index(scheme) if scheme in _SCHEMES else len(_SCHEMES)


def _endpoints(protocols: Any) -> Iterator[str]:
    """Yield the URLs of protocols by activity: texts, ``{"endpoint", "path"}``, or lists that begin with a
    URL."""
    if isinstance(protocols, dict) and isinstance(protocols.get("endpoint"), str):
        path = protocols.get("path")
        yield protocols["endpoint"].rstrip("/") + (path if isinstance(path, str) else "")
    elif isinstance(protocols, dict):
        for key, value in protocols.items():
            yield from _endpoints(value)
            if "://" in key:
                yield key
    elif isinstance(protocols, list):
        texts = [item for item in protocols if isinstance(item, str)]
        if texts:
            yield texts[0].rstrip("/") + next((text for text in texts[1:] if text.startswith("/")), "")
        for item in protocols:
            if isinstance(item, list | dict):
                yield from _endpoints(item)
    elif isinstance(protocols, str):
        yield protocols
