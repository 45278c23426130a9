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
_WHY = {"token": "the endpoint's name says it", "type": "whether it is tape counts"}


def read_storages(found: list[Document], draft: Draft) -> dict[str, str]:
    """Add the storages to the draft. Return the legal names of accepted storages by their original names."""
    status = _by_name(found, "blacklist", draft)
    usage = _by_name(found, "usage", draft)
    names: dict[str, str] = {}
    for document in (document for document in found if document.kind == "storages"):
        for name, endpoint in records(document, draft.entry):
            try:
                if name in names:
                    raise RefusedEntry("", name, "is a storage already", "keep one of them")
                made = _storage(name, endpoint, draft, status.pop(name, None), usage.pop(name, None))
                if made is not None:
                    draft.storages[made.name] = (made, endpoint.entry)
                    names[name] = made.name
            except RefusedEntry as refused:
                endpoint.refuse(refused)
    for rest in (*status.values(), *usage.values()):
        rest.entry.note("dropped", "", "", "no document describes this storage")
    return names


def _by_name(found: list[Document], kind: str, draft: Draft) -> dict[str, Record]:
    parts = (document for document in found if document.kind == kind)
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
        raise RefusedEntry("site", "", "says nothing", "name the site of the storage")
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
    made = record(Storage, document)
    draft.need_site(place, endpoint.entry)
    return made


def _tape(endpoint: Record) -> bool:
    said = truth("is_tape", endpoint.get("is_tape"))
    if said is None:
        said = "TAPE" in endpoint.text("type").upper()
        endpoint.note("guessed", "is_tape", f"says nothing: {'tape' if said else 'disk'}, by its type")
    return said


def _scratch(name: str, endpoint: Record) -> bool:
    """Guess from its name whether a storage is scratch, as the published system does."""
    found = "scratch" in name.lower()
    if found:
        endpoint.note("guessed", "name", "scratch space by its name: no outputs are gathered there")
    return found


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
        endpoint.note("guessed", name, "says nothing: the free space is not known, and taken for enough")
    elif free > MOST_GIGABYTES:
        endpoint.note("converted", name, "from bytes, as it is so large, to GB")
        return free / GIGABYTE
    else:
        endpoint.note("guessed", name, "is taken for GB")
    return free


def _own_blacklist(endpoint: Record) -> Iterator[str]:
    """Yield blocked activities from the endpoint's own document: true, a list of activities, or true by
    direction."""
    said = endpoint.get("blacklisted", "blacklisting")
    if isinstance(said, list | dict):
        yield from _activities(said, endpoint, endpoint.name_of("blacklisted", "blacklisting"))
    elif truth("blacklisted", said):
        yield from (*_ACTIVITIES["r"], *_ACTIVITIES["w"])
    for direction in ("read", "write"):
        if truth(f"blacklisted_{direction}", endpoint.get(f"blacklisted_{direction}")):
            yield from _ACTIVITIES[direction]


def _blacklist(status: Record | None) -> Iterator[str]:
    if status is not None:
        yield from _activities(status.all(), status, "status")


def _activities(said: list[Any] | dict[str, Any], of: Record, field: str) -> Iterator[str]:
    """Yield the activities that are off: each item of a list, or the keys with the value OFF."""
    for name in said:
        if isinstance(said, dict) and not _is_off(said[name]):
            continue
        known = _ACTIVITIES.get(name.lower()) if isinstance(name, str) else None
        if known is None:
            of.entry.note(
                "dropped", field, name, "is no activity of the brokerage: read or write, lan or wan"
            )
        yield from known or ()


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
    found = []
    for field in ("url", "arprotocols", "rprotocols", "aprotocols", "protocols"):
        said = endpoint.get(field)
        found += [said] if isinstance(said, str) else list(_endpoints(said))
    service, path = endpoint.get("se"), endpoint.get("endpoint", "path")
    if isinstance(service, str):
        found.append(service.rstrip("/") + (path if isinstance(path, str) else ""))
    usable = [url for url in found if _URL.fullmatch(url) and url.isprintable()]
    if not usable:
        url = PLACEHOLDER.format(name=name)
        endpoint.note("guessed", "url", f"says nothing: {url}")
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
