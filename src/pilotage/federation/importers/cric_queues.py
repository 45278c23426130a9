"""CRIC queues: a PanDA queue, and the pseudo-queues of a unified one (B2)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pilotage.federation.importers.assembly import Draft, record
from pilotage.federation.importers.cric_documents import Document, Record, records
from pilotage.federation.importers.cric_entrances import element_of
from pilotage.federation.importers.import_result import RefusedEntry, one_line
from pilotage.federation.importers.values import (
    CORE_POWER,
    CORES,
    COUNT,
    DISK,
    MEMORY,
    RATE,
    SECONDS,
    Measure,
    number,
    truth,
    whole,
)
from pilotage.model.records.federation import UNKNOWN_CORE_POWER, Queue
from pilotage.model.records.unified_queues import unconditioned

STATUSES = ("online", "standby", "offline", "brokeroff", "paused", "test")
_SOFTWARE = ("cmtconfigs", "containers", "cvmfs", "architectures", "tags")
_CONNECTIVITY = re.compile(r"(full|http|none)(#.*)?")
_SAME = ("name", "nickname", "panda_resource", "panda_queue", "siteid", "site_name")
"""Other names of a queue. If they equal the name, they say nothing new."""

_WHY: Mapping[str, str] = {
    "meanrss": "the brokerage goes by the limits, minrss and maxrss",
    "timefloor": "bounds pilots, not jobs; it is in minutes",
    "container_type": "how the payload is started, which the payload decides",
    "container_options": "how the payload is started, which the payload decides",
    "region": "sites have no region",
    "direct_access_wan": "inputs are read from the queue's own storage",
}


class ResourceType(NamedTuple):
    """Cores, and memory in MB per core, of a unified queue's pseudo-queue. None means no limit."""

    name: str
    min_cores: int
    max_cores: int | None
    min_memory: float | None
    max_memory: float | None


PER_CORE = "per_core_attr"
"""With this word in ``catchall``, memory and work directory are per core, not per slot."""

RESOURCE_TYPES = (
    ResourceType("SCORE", 1, 1, None, 2000),
    ResourceType("MCORE", 2, None, None, 2000),
    ResourceType("SCORE_HIMEM", 1, 1, 2000, None),
    ResourceType("MCORE_HIMEM", 2, None, 2000, None),
)


@dataclass(frozen=True, slots=True)
class Around:
    """The context of queues: storages by name, software by queue, and the names of unified queues."""

    storages: Mapping[str, str]
    software: Mapping[str, Record]
    unified: frozenset[str]


def read_queues(all_documents: Sequence[Document], draft: Draft, storages: Mapping[str, str]) -> None:
    """Add the queues to the draft, after its sites and storages."""
    software = {
        name: part
        for document in all_documents
        if document.kind == "software"
        for name, part in records(document, draft.entry)
    }
    parts = [document for document in all_documents if document.kind == "queues"]
    queues = [(name, queue) for document in parts for name, queue in records(document, draft.entry)]
    around = Around(storages, software, frozenset(name for name, queue in queues if _is_unified(queue)))
    parents = {queue.peek("parent") for _, queue in queues if isinstance(queue.peek("parent"), str)}
    earlier: set[str] = set()
    for name, queue in queues:
        try:
            if name in earlier:
                raise RefusedEntry("", name, "is a queue already", "keep one of them")
            imported = _queue(name, queue, draft, around)
            if imported is not None:
                queue.get("capability")
                queue.drop_the_rest(_WHY)
                _add(imported, queue, draft, name in around.unified - parents)
            earlier.add(name)
        except RefusedEntry as refused:
            queue.refuse(refused)
    for name in sorted(software.keys() - {"ALL", *(name for name, _ in queues)}):
        software[name].entry.note("dropped", "", "", "no document describes this queue")


def _add(imported: Queue, queue: Record, draft: Draft, unified: bool) -> None:
    draft.need_site(imported.site, queue.entry)
    if imported.storage == "":
        # Do this only for an accepted queue: a refused one must not leave a guessed storage behind.
        imported = replace(imported, storage=draft.need_storage(imported.site, queue.entry))
    draft.queues[imported.name] = (imported, queue.entry)
    if unified:
        children = [child for kind in RESOURCE_TYPES if (child := _child(imported, kind))]
        for child in children:
            name = draft.queue_names.take(child.name, queue.entry, "capability", "queue")
            draft.queues[name] = (replace(child, name=name), queue.entry)
        names = ", ".join(f"{child.name} of {child.cores} cores" for child in children)
        queue.note(
            "converted", "capability", f"unified: its pseudo-queues are {names or 'missing, or do not fit'}"
        )


def _child(parent: Queue, kind: ResourceType) -> Queue | None:
    """Return the pseudo-queue of a resource type; None if the queue has too few cores or too little
    memory."""
    most_cores = max(1, parent.cores)
    cores = min(most_cores, kind.max_cores or most_cores)
    if cores < kind.min_cores:
        return None
    share = cores / most_cores
    least = max(parent.min_memory * share, (kind.min_memory or 0) * cores)
    limits = [limit for limit in (parent.max_memory * share, (kind.max_memory or 0) * cores) if limit]
    max_memory = min(limits, default=0.0)
    # High-memory types begin where the others end: exactly at that end nothing is left for them.
    if max_memory and (least > max_memory or (kind.min_memory and least == max_memory)):
        return None
    child = replace(
        parent,
        name=f"{parent.name}:{kind.name}",
        parent=parent.name,
        cores=cores,
        min_memory=least,
        max_memory=max_memory,
    )
    return unconditioned(child, parent)


def _queue(name: str, queue: Record, draft: Draft, around: Around) -> Queue | None:
    """Return a record's queue, without storage if the documents give none; None for a template."""
    truth("is_virtual", queue.get("is_virtual"))
    if _is_virtual(queue):
        queue.note("dropped", "is_virtual", "a template of queues, and none itself: left out")
        return None
    site = queue.text("atlas_site", "rc_site", "site", "gocname")
    if not site:
        queue.note("guessed", "atlas_site", "no site is named: the queue's own name")
    document: dict[str, Any] = {
        "name": draft.queue_names.take(name, queue.entry, "name", "queue"),
        "site": draft.site_names.take(site or name, queue.entry, "atlas_site", "site"),
        "storage": "unknown",
        "status": _status(queue),
        "parent": _parent(queue, draft, around),
        **_limits(queue),
        **_policies(queue),
        **_software(name, queue, around),
    }
    for field in _SAME:
        if queue.peek(field) == name:
            queue.get(field)
    document["computing_element"] = element = element_of(queue, document["max_walltime"])
    document["max_walltime"] = (element or {}).get("pilot_walltime", document["max_walltime"])
    return replace(record(Queue, document), storage=_storage(queue, around))


def _status(queue: Record) -> str:
    status, state = queue.text("status").lower(), queue.text("state")
    if not status:
        queue.note("guessed", "status", "is missing: offline")
    elif status not in STATUSES:
        raise RefusedEntry("status", status, "is no status", f"give one of {', '.join(STATUSES)}")
    if state and state.upper() != "ACTIVE":
        queue.note("converted", "state", "the queue is not active: offline")
        return "offline"
    return status or "offline"


def _parent(queue: Record, draft: Draft, around: Around) -> str:
    parent = queue.text("parent")
    if parent and parent not in around.unified:
        queue.note("dropped", "parent", "is no unified queue of these documents: a template")
        return ""
    return draft.queue_names.take(parent, queue.entry, "parent", "queue") if parent else ""


def _stated_number(
    queue: Record, names: Sequence[str], measure: Measure, otherwise: float, meaning: str = ""
) -> float:
    """Return the number in the first of these fields.

    If there is none, use the default and note its meaning.
    """
    name = queue.name_of(*names)
    value = number(name, queue.get(*names), measure)
    if value is None and meaning:
        queue.note("guessed", name, f"is missing: {meaning}")
    return otherwise if value is None else value


def _limits(queue: Record) -> dict[str, Any]:
    no_limit = "no limit is known"
    cores = int(_stated_number(queue, ("corecount",), CORES, 1, "1 core"))
    assumed = f"{UNKNOWN_CORE_POWER:g} HS23 per core"
    by_core = max(1, cores) if PER_CORE in _catchall(queue) else 1
    if by_core > 1:
        queue.note("converted", "catchall", f"{PER_CORE}: memory and work directory times {by_core} cores")
    return {
        "cores": cores,
        "core_power": _stated_number(queue, ("corepower",), CORE_POWER, 0, assumed) or None,
        "min_memory": _stated_number(queue, ("minrss",), MEMORY, 0) * by_core,
        "max_memory": _stated_number(queue, ("maxrss", "maxmemory", "memory"), MEMORY, 0, no_limit) * by_core,
        "max_workdir": _stated_number(queue, ("maxwdir",), DISK, 0, no_limit) * by_core,
        "min_walltime": _stated_number(queue, ("mintime",), SECONDS, 0),
        "max_walltime": _stated_number(queue, ("maxtime",), SECONDS, 0, no_limit),
        "max_disk_io": _stated_number(queue, ("maxdiskio",), RATE, 0) or None,
        "transferring_limit": whole("transferringlimit", queue.get("transferringlimit"), COUNT) or None,
    }


def _policies(queue: Record) -> dict[str, Any]:
    words = _catchall(queue)
    unread = [word for word in words if word not in ("disableReassign", "unifiedPandaQueue", PER_CORE)]
    if unread:
        queue.note("dropped", "catchall", f"not known here: {one_line(' '.join(unread))}")
    vo = queue.text("vo_name", "vo")
    pledged = queue.get("pledgedcpu")
    jobseed = queue.text("jobseed")
    if not jobseed:
        queue.note("guessed", "jobseed", "is missing: std, no event service")
    return {
        "direct_access": truth("direct_access_lan", queue.get("direct_access_lan")) or False,
        "connectivity": _connectivity(queue),
        "fairshare_policy": queue.text("fairsharepolicy"),
        "event_service": jobseed or "std",
        "disable_reassign": "disableReassign" in words,
        "pledged_cpu": -1.0
        if pledged in (-1, "-1")
        else number("pledgedcpu", pledged, Measure("HS23", 0, 1e12)),
        "vos": [vo] if vo else [],
    }


def _catchall(queue: Record) -> list[str]:
    """Return the words in the catch-all field. ``word=true``, ``word=yes`` and ``word=1`` all give ``word``.

    The opposite values count as absent, as in the published pilot.
    """
    words = [word.partition("=") for word in re.split(r"[,;\s]+", queue.text("catchall")) if word]
    return [
        name if value.lower() in ("", "true", "yes", "1") else f"{name}{equals}{value}"
        for name, equals, value in words
        if value.lower() not in ("false", "no", "0")
    ]


def _is_unified(queue: Record) -> bool:
    values = queue.peek("capability"), queue.peek("catchall")
    return not _is_virtual(queue) and (
        str(values[0]).lower() == "ucore" or "unifiedPandaQueue" in str(values[1])
    )


def _is_virtual(queue: Record) -> bool:
    return str(queue.peek("is_virtual")).lower() in ("true", "1")


def _connectivity(queue: Record) -> str:
    value = queue.text("wnconnectivity")
    match = _CONNECTIVITY.fullmatch(value)
    if not value:
        queue.note("guessed", "wnconnectivity", "is missing: none is promised")
        return "none"
    if match is None:
        raise RefusedEntry(
            "wnconnectivity", value, "is no connectivity", "give full, http or none, then #IPv4 or #IPv6"
        )
    if (match[2] or "") not in ("", "#", "#IPv4", "#IPv6"):
        queue.note("converted", "wnconnectivity", f"{match[1]}: no single IP stack is named")
        return match[1]
    return value


def _software(name: str, queue: Record, around: Around) -> dict[str, Any]:
    """Return the software that a queue publishes, in its own record or in the software documents (B14)."""
    published = around.software.get(name)
    stated = queue.peek("releases") is not None
    releases = queue.texts("releases")
    if not stated:
        releases = ["ANY"]
        queue.note("guessed", "releases", "is missing: ANY, software is not checked")
    elif not releases:
        meaning = "AUTO, as published" if published else "none: no work that asks for a release fits"
        queue.note("guessed", "releases", f"is empty: {meaning}")
        releases = ["AUTO"] if published else []
    attributes: dict[str, Any] = {"releases": releases}
    for field in _SOFTWARE:
        value = queue.get(field)
        value = published.get(field) if value is None and published else value
        if field in ("architectures", "tags"):
            attributes[field] = _parts(queue, field, value)
        elif value is not None:
            attributes[field] = value
    if published:
        published.drop_the_rest({})
    return attributes


def _parts(queue: Record, field: str, value: Any) -> list[dict[str, Any]]:
    """Return architectures and tags with the fields that the model has."""
    names = {
        "architectures": ("type", "arch", "vendor", "instr", "model"),
        "tags": ("cmtconfig", "container_name", "project", "release", "sources"),
    }[field]
    items = [value] if isinstance(value, dict) else value if isinstance(value, list) else []
    parts = []
    for item in items:
        if not isinstance(item, dict):
            raise RefusedEntry(field, item, "is no record", "give its fields as name: value")
        unknown = sorted(key for key in item if key not in names)
        if unknown:
            queue.entry.note("dropped", f"{field}[]", ", ".join(unknown), "has no place in the model")
        parts.append({key: item[key] for key in names if item.get(key) is not None})
    return parts


def _storage(queue: Record, around: Around) -> str:
    """Return the first known storage that the queue writes to, else reads from; empty if there is none."""
    value = queue.get("astorages", "ddm")
    roles = (
        value
        if isinstance(value, dict)
        else {"write_lan": value.split(",")}
        if isinstance(value, str)
        else {}
    )
    for role in ("write_lan", "read_lan", "pw", "pr"):
        names = roles.get(role)
        for name in names if isinstance(names, list) else ():
            if isinstance(name, str) and name.strip() in around.storages:
                return around.storages[name.strip()]
    if value:
        queue.note(
            "dropped", queue.name_of("astorages", "ddm"), "no document describes any of these storages"
        )
    return ""
