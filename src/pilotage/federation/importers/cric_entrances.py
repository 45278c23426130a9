"""Entrances of CRIC queues: the computing element, with a server for each open entrance (P6)."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pilotage.federation.importers import element_options
from pilotage.federation.importers.cric_documents import Record
from pilotage.federation.importers.import_result import one_line
from pilotage.federation.importers.values import MINUTES, number

KINDS = {"HTCONDOR-CE": "htcondor", "CONDOR": "htcondor", "ARC-CE": "arc", "ARC": "arc", "CREAM-CE": "cream"}

_ENTRANCE = ("ce_endpoint", "ce_flavour", "ce_state", "ce_status", "ce_queue_status", "ce_queue_maxwctime")
_ARC_ENTRANCE = (*_ENTRANCE, "ce_queue_name")
"""Fields of an entrance that the importer reads."""


def element_of(queue: Record, walltime: float) -> dict[str, Any] | None:
    """Return the computing element: its first kind, with all entrances of that kind."""
    value = queue.get("queues")
    usable = _usable(queue, value)
    if not usable:
        queue.note("guessed", "queues", "no entrance is known: pilots have to be started by others")
        return None
    flavour = usable[0]["ce_flavour"]
    same = [item for item in usable if item["ce_flavour"] == flavour]
    kind = (
        KINDS.get(flavour.upper()) or re.sub(r"[^A-Za-z0-9]+", "-", flavour).strip("-").lower() or "unknown"
    )
    queue.note("converted", "queues", f"a computing element of kind {kind} with {len(same)} endpoints")
    if len(same) < len(usable):
        rest = one_line(", ".join(item["ce_endpoint"] for item in usable if item not in same))
        text = f"{len(usable) - len(same)} entrances of other kinds than {one_line(flavour)}: {rest}"
        queue.note("dropped", "queues", text)
    walltime = _slot_walltime(queue, same, walltime)
    endpoints = list(dict.fromkeys(item["ce_endpoint"] for item in same))
    options = element_options.options_of(kind, endpoints[0], queue.note)
    element: dict[str, Any] = {
        "kind": kind,
        "options": {"endpoints": endpoints} if options is None else options,
        "servers": [] if options is None else element_options.servers_of(kind, endpoints),
    }
    if kind == "arc" and options is not None:
        _name_queues(same, [options, *(server["options"] for server in element["servers"])])
    if walltime:
        element["pilot_walltime"] = walltime
    return element


def _name_queues(entrances: Sequence[Mapping[str, Any]], options: Sequence[dict[str, Any]]) -> None:
    """Add the batch system's queue behind each ARC service to its options: the first that is named."""
    for entrance in reversed(entrances):
        queue = entrance.get("ce_queue_name")
        for some in options:
            if (
                isinstance(queue, str)
                and queue.strip()
                and some["endpoint"] == entrance["ce_endpoint"].strip()
            ):
                some["queue"] = queue.strip()


def _is_closed(entrance: Mapping[str, Any]) -> bool:
    """Return whether an entrance accepts no new jobs."""
    statuses = {str(entrance.get(key) or "").strip().lower() for key in ("ce_status", "ce_queue_status")}
    state = str(entrance.get("ce_state") or "ACTIVE").strip().upper()
    return state != "ACTIVE" or not statuses.isdisjoint(("closed", "draining"))


def _slot_walltime(queue: Record, entrances: Sequence[Mapping[str, Any]], walltime: float) -> float:
    """Return the walltime in s, or less if all entrances give less. Their values are in minutes."""
    limits = [
        number("ce_queue_maxwctime", entrance.get("ce_queue_maxwctime"), MINUTES) for entrance in entrances
    ]
    longest = max((limit or 0 for limit in limits), default=0) * 60
    if all(limits) and (not walltime or longest < walltime):
        queue.note("clipped", "maxtime", f"its batch slots end earlier: {longest:g} s, by ce_queue_maxwctime")
        return longest
    return walltime


def _note_unused(queue: Record, entrances: Sequence[Mapping[str, Any]]) -> None:
    """Note non-empty fields of entrances that the importer does not read."""
    unread = {
        key
        for entrance in entrances
        for key, value in entrance.items()
        if value
        and key not in (_ARC_ENTRANCE if KINDS.get(entrance["ce_flavour"].upper()) == "arc" else _ENTRANCE)
    }
    if unread:
        queue.entry.note(
            "dropped", "queues[]", ", ".join(sorted(unread)), "has no place in the model", matters=False
        )


def _usable(queue: Record, value: object) -> list[dict[str, Any]]:
    """Return the entrances that accept new jobs. Note the others."""
    entrances = [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
    usable = [
        item
        for item in entrances
        if all(isinstance(item.get(key), str) and item[key].strip() for key in ("ce_endpoint", "ce_flavour"))
    ]
    unnamed = len(value if isinstance(value, list) else ()) - len(usable)
    if unnamed:
        queue.note("dropped", "queues", f"{unnamed} entrances without ce_endpoint or ce_flavour")
    if closed := [item for item in usable if _is_closed(item)]:
        names = one_line(", ".join(item["ce_endpoint"] for item in closed))
        text = "closed, draining or disabled: pilots are not sent there"
        queue.entry.note("dropped", "queues[].ce_status", names, text)
        usable = [item for item in usable if not _is_closed(item)]
    _note_unused(queue, usable)
    return usable
