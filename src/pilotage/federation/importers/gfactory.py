"""glideinWMS factory configurations: each ``<entry>`` submits to a site, and becomes a queue.

Memory and cores of an entry are for one glidein with all of its slots, like a queue's. Walltimes are in s,
except in attributes for HTCondor-CE (``+maxWallTime``): these are in minutes.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from pilotage.federation.importers import element_options, xml
from pilotage.federation.importers.assembly import Draft, record
from pilotage.federation.importers.import_result import Entry, Imported, ImportSource, RefusedEntry
from pilotage.federation.importers.values import CORES, COUNT, MEMORY, MINUTES, SECONDS, number, truth, whole
from pilotage.model.records.federation import ComputingElement, Queue

_KINDS = {"condor": "htcondor", "nordugrid": "arc"}
_DETECTED = ("auto", "slot", "node", "0", "-1")
"""Values of GLIDEIN_CPUS that let the glidein count."""

_LIMITS = "config/max_jobs/per_entry/"
_RSL_MEMORY = re.compile(r"\((memory|maxmemory)=(\d{1,9})\)", re.IGNORECASE)
_OPTIONS = {"gatekeeper": "gatekeeper", "rsl": "rsl"}
_SILENT = {"name", "enabled", "gridtype"}


class Leaf(NamedTuple):
    """A value of an entry and its line."""

    value: str
    line: int


class Fields:
    """The values of an ``<entry>`` by path, and the glidein's attributes by name.

    It remembers which were read.
    """

    def __init__(self, element: xml.Element, entry: Entry) -> None:
        self._entry = entry
        self._leaves: dict[str, Leaf] = {}
        self._read = set(_SILENT)
        self.submit: dict[str, str] = {}
        self._collect(element, "")

    def _collect(self, element: xml.Element, path: str) -> None:
        attributes = element.attributes
        if element.tag in ("attr", "submit_attr") and "name" in attributes:
            name = attributes["name"] if element.tag == "attr" else f"submit_attr {attributes['name']}"
            self._add(name, Leaf(attributes.get("value", ""), element.line))
            if element.tag == "submit_attr":
                self.submit[attributes["name"]] = attributes.get("value", "")
                self._read.add(name)
        else:
            for name, value in attributes.items():
                self._add(path + name, Leaf(value, element.line))
        for child in element.children:
            self._collect(child, f"{path}{child.tag}/")

    def _add(self, path: str, leaf: Leaf) -> None:
        before = self._leaves.get(path)
        if before:
            text = (
                "given again below, which counts" if before.value != leaf.value else "given twice, the same"
            )
            self._entry.note("dropped", path, before.value, text, before.line)
        self._leaves[path] = leaf

    def text(self, path: str) -> str:
        """Return the stripped value at a path; empty if there is none."""
        self._read.add(path)
        leaf = self._leaves.get(path)
        return leaf.value.strip() if leaf else ""

    def note(self, action: Any, path: str, text: str) -> None:
        """Note what happened to the value at a path."""
        leaf = self._leaves.get(path)
        self._entry.note(action, path, leaf.value if leaf else "", text, leaf.line if leaf else None)

    def line(self, path: str) -> int | None:
        """Return the line of the value at a path."""
        return self._leaves[path].line if path in self._leaves else None

    def drop_the_rest(self) -> None:
        """Note every non-empty value that was not read."""
        for path, leaf in self._leaves.items():
            if path not in self._read and leaf.value.strip():
                text = _WHY.get(path, "has no place in a queue")
                self._entry.note("dropped", path, leaf.value, text, leaf.line, matters=False)


_WHY = {
    "GLIDEIN_ResourceName": "the site is named by GLIDEIN_Site",
    "GLIDEIN_SEs": "names a storage service, but no path in it",
    "config/submit/slots_layout": "how a glidein divides its cores: its queue has them whole",
    "config/max_jobs/num_factories": "the limits are imported unchanged, for one factory",
    "config/max_jobs/per_entry/comment": "is for people",
    "comment": "is for people",
    "GLIDEIN_Resource_Slots": "names no accelerators",
    "GLIDEIN_Retire_Time": "the glidein's whole walltime is the queue's",
    "GLIDEIN_Job_Max_Time": "the glidein's whole walltime is the queue's",
}


def read(sources: Sequence[ImportSource], name: str) -> Imported:
    """Return the federation of all entries in some configurations.

    Each entry becomes a queue, in file order.
    """
    draft = Draft()
    first: dict[str, str] = {}
    for source in sources:
        try:
            root = xml.parse(source.text)
            entries = [element for element in root.walk() if element.tag == "entry"]
            if not entries:
                raise xml.BadXml(root.line, "has no <entry>", "give a glideinWMS factory configuration")
        except xml.BadXml as bad:
            draft.entry(source.name, bad.line, "").refuse(bad)
            continue
        draft.guesses.append(_besides(root, source.name))
        for element in entries:
            _take(element, draft, first, source.name)
    return draft.federation(name)


def _besides(root: xml.Element, file: str) -> Entry:
    """Note all elements of a configuration except entries, and all attributes except their values."""
    entry = Entry(file, root.line, "")
    flags = {flag for at in root.walk() if at.tag == "attr" for flag in at.attributes} - {"name", "value"}
    if flags:
        entry.note("dropped", "attrs/attr", ", ".join(sorted(flags)), "who sees an attribute, not its value")
    for name, value in root.attributes.items():
        entry.note("dropped", f"{root.tag}/{name}", value, "is the factory's, not an entry's")
    for child in root.children:
        if child.tag not in ("entries", "entry_sets", "entry"):
            entry.note(
                "dropped", f"{root.tag}/{child.tag}", "", "is the factory's, not an entry's", child.line
            )
    return entry


def _take(element: xml.Element, draft: Draft, first: dict[str, str], file: str) -> None:
    """Add the queue of an entry to the draft, or refuse it. ``first`` holds the places of earlier entries."""
    name = element.attributes.get("name", "").strip()
    entry = draft.entry(file, element.line, name)
    fields = Fields(element, entry)
    try:
        if not name:
            raise RefusedEntry("name", "", "has no name", "name the entry")
        if name in first:
            raise RefusedEntry(
                "name", name, f"is the name of the entry at {first[name]} already", "keep one of them"
            )
        document = _queue(fields)
        site = draft.site_names.take(_site(fields, name), entry, "GLIDEIN_Site", "site")
        fields.drop_the_rest()
        document["name"] = draft.queue_names.take(name, entry, "name", "queue")
        document["site"] = site
        # First check it with a placeholder, so that a refused entry adds no site and no storage.
        checked = record(Queue, {**document, "storage": "unknown"})
    except RefusedEntry as refused:
        entry.refuse(refused, fields.line(refused.field))
        return
    first[name] = f"{file}:{element.line}"
    draft.need_site(site, entry)
    storage = draft.need_storage(site, entry)
    draft.queues[checked.name] = (record(Queue, {**document, "storage": storage}), entry)


def _queue(fields: Fields) -> dict[str, Any]:
    cores = _cores(fields)
    walltime = _walltime(fields)
    vos = [vo.strip() for vo in fields.text("GLIDEIN_Supported_VOs").split(",") if vo.strip()]
    if not vos:
        fields.note("guessed", "GLIDEIN_Supported_VOs", "is missing: open to every VO")
    return {
        "status": _status(fields),
        "cores": cores,
        "max_memory": _memory(fields, cores),
        "max_walltime": walltime,
        "vos": list(dict.fromkeys(vos)),
        "architectures": _hardware(fields),
        "computing_element": _element(fields, walltime),
    }


def _hardware(fields: Fields) -> list[dict[str, Any]]:
    """Return the processors and accelerators of the nodes (B14) that the entry names."""
    hardware: list[dict[str, Any]] = []
    vendor = fields.text("GLIDEIN_PROVIDED_ARCH").lower()
    values = [fields.text(name).lower() for name in ("GLIDEIN_ARCH", "CONDOR_ARCH")]
    architectures = [arch for arch in values if arch not in ("", "default", "auto", "any")]
    arch = architectures[0] if architectures else ""
    if len(set(architectures)) > 1:
        fields.note("dropped", "CONDOR_ARCH", f"{architectures[1]}: GLIDEIN_ARCH, {arch}, counts instead")
    if arch or vendor:
        kinds = list(dict.fromkeys(text.strip() for text in arch.split(",") if text.strip()))
        hardware.append(
            {"type": "cpu", "arch": kinds or ["any"], "vendor": [vendor or "any"], "instr": ["any"]}
        )
    slots = fields.text("GLIDEIN_Resource_Slots")
    if any(part.strip().lower().startswith("gpus") for part in slots.split(";")):
        fields.note("converted", "GLIDEIN_Resource_Slots", "accelerators of any vendor and model")
        hardware.append({"type": "gpu", "vendor": ["any"], "model": ["any"]})
    return hardware


def _site(fields: Fields, name: str) -> str:
    site = fields.text("GLIDEIN_Site")
    if site:
        return site
    resource = fields.text("GLIDEIN_ResourceName")
    origin = "GLIDEIN_ResourceName" if resource else "the entry's name"
    fields.note("guessed", "GLIDEIN_Site", f"is missing: the site is {origin}")
    return resource or name


def _status(fields: Fields) -> str:
    enabled = truth("enabled", fields.text("enabled"))
    if enabled is None:
        fields.note("guessed", "enabled", "is missing: offline")
    # In the model max_pilots cannot be 0.
    if fields.text(f"{_LIMITS}glideins") == "0":
        fields.note("converted", f"{_LIMITS}glideins", "no glideins are allowed: offline, max_pilots is 1")
        return "offline"
    return "online" if enabled else "offline"


def _cores(fields: Fields) -> int:
    value = fields.text("GLIDEIN_CPUS").lower()
    if value in _DETECTED:
        estimated = whole("GLIDEIN_ESTIMATED_CPUS", fields.text("GLIDEIN_ESTIMATED_CPUS"), CORES)
        sentence = (
            f"{estimated}, by GLIDEIN_ESTIMATED_CPUS"
            if estimated
            else "0: the queue takes any number of cores"
        )
        fields.note("guessed", "GLIDEIN_CPUS", f"is decided by the glidein: {sentence}")
        return estimated or 0
    cores = whole("GLIDEIN_CPUS", value, CORES)
    if cores is None:
        fields.note("guessed", "GLIDEIN_CPUS", "is missing: 1, the factory's default")
    return 1 if cores is None else cores


def _memory(fields: Fields, cores: int) -> float:
    """Return the MB of a whole glidein. If the entry gives none, use the request to the batch system."""
    memory = number("GLIDEIN_MaxMemMBs", fields.text("GLIDEIN_MaxMemMBs"), MEMORY)
    estimate = truth("GLIDEIN_MaxMemMBs_Estimate", fields.text("GLIDEIN_MaxMemMBs_Estimate"))
    if memory:
        return memory
    origin = "is unknown, because the glidein measures the node" if estimate else "is missing"
    request, field = _memory_asked(fields, max(1, cores))
    if request and (partial := _partial(fields, cores)):
        text = f"{origin}: no limit is known; {request:g} MB, by {field}, are for {partial}"
        fields.note("guessed", "GLIDEIN_MaxMemMBs", text)
        return 0
    sentence = f"{request:g} MB, by {field}" if request else "no limit is known"
    fields.note("guessed", "GLIDEIN_MaxMemMBs", f"{origin}: {sentence}")
    return request


def _partial(fields: Fields, cores: int) -> str:
    """Return a note if the request to the batch system differs from the queue's slot; else empty."""
    count = whole("submit_attr +xcount", fields.submit.get("+xcount"), CORES)
    if truth("submit_attr +WantWholeNode", fields.submit.get("+WantWholeNode")):
        return "a request for a whole node"
    return f"{count} cores, and not {cores}" if count and cores and count != cores else ""


def _memory_asked(fields: Fields, cores: int) -> tuple[float, str]:
    """Return the MB that a glidein requests from the batch system.

    ``+maxMemory`` is for the whole glidein; ``request_memory`` (ARC's) and the RSL's memory are per core.
    """
    for attribute, times in (("+maxMemory", 1), ("request_memory", cores)):
        value = number(f"submit_attr {attribute}", fields.submit.get(attribute), MEMORY)
        if value:
            return value * times, f"{attribute} x {times} cores" if times > 1 else attribute
    match = _RSL_MEMORY.search(fields.text("rsl"))
    if match:
        times = cores if match[1].lower() == "memory" else 1
        return float(
            match[2]
        ) * times, f"the rsl's {match[1]} x {times} cores" if times > 1 else f"the rsl's {match[1]}"
    return 0, ""


def _walltime(fields: Fields) -> float:
    walltime = number("GLIDEIN_Max_Walltime", fields.text("GLIDEIN_Max_Walltime"), SECONDS)
    minutes = number("submit_attr +maxWallTime", fields.submit.get("+maxWallTime"), MINUTES)
    if walltime and minutes and minutes * 60 < walltime:
        text = f"its batch slot is shorter: {minutes * 60:g} s, by +maxWallTime in minutes"
        fields.note("clipped", "GLIDEIN_Max_Walltime", text)
        return minutes * 60
    if walltime:
        return walltime
    sentence = f"{minutes * 60:g} s, by +maxWallTime in minutes" if minutes else "no limit is known"
    fields.note("guessed", "GLIDEIN_Max_Walltime", f"is missing: {sentence}")
    return (minutes or 0) * 60


def _element(fields: Fields, walltime: float) -> dict[str, Any]:
    """Return the computing element with the entry's limits. Adapter-specific values become options."""
    gridtype = fields.text("gridtype")
    if not gridtype or not fields.text("gatekeeper"):
        missing = "gatekeeper" if gridtype else "gridtype"
        raise RefusedEntry(missing, "", "is missing", "say how glideins are submitted, and where to")
    kind = _KINDS.get(gridtype, re.sub(r"[^A-Za-z0-9]+", "-", gridtype).strip("-") or "unknown")
    if kind != gridtype:
        fields.note("converted", "gridtype", f"a computing element of kind {kind}")
    options = element_options.options_of(
        kind, fields.text("gatekeeper"), fields.note, fields.text("rsl"), fields.submit
    )
    if options is None:
        options = _options(fields)
    most_pilots = whole(f"{_LIMITS}glideins", fields.text(f"{_LIMITS}glideins"), COUNT)
    if most_pilots is None:
        most_pilots = ComputingElement().max_pilots
        fields.note("guessed", f"{_LIMITS}glideins", f"is missing: max_pilots is {most_pilots}")
    element: dict[str, Any] = {"kind": kind, "max_pilots": max(1, most_pilots), "options": options}
    addresses = element_options.pairs(kind, fields.text("gatekeeper"))
    if servers := element_options.servers_of(kind, addresses):
        fields.note("converted", "gatekeeper", f"{len(servers)} servers of one queue")
        element["servers"] = servers
    if walltime:
        element["pilot_walltime"] = walltime
    return element


def _options(fields: Fields) -> dict[str, Any]:
    """Return the entry's options unchanged, for an adapter that is not Pilotage's."""
    options: dict[str, Any] = {
        option: fields.text(path) for option, path in _OPTIONS.items() if fields.text(path)
    }
    if fields.text("GLIDEIN_REQUIRED_OS").lower() not in ("", "any"):
        options["required_os"] = fields.text("GLIDEIN_REQUIRED_OS")
    for option, limit in (("max_idle", "idle"), ("max_held", "held")):
        number = whole(_LIMITS + limit, fields.text(_LIMITS + limit), COUNT)
        if number is not None:
            options[option] = number
    if fields.submit:
        options["submit_attributes"] = dict(sorted(fields.submit.items()))
    return options
