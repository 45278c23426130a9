"""Job descriptions in ADL, ARC's XML. They are built as a tree, so no value can become markup."""

import math
from collections.abc import Sequence
from xml.etree import ElementTree

from pilotage.ports.computing import PilotOrder

NAMESPACE = "http://www.eu-emi.eu/es/2010/12/adl"
PILOT, TOKEN, LOG = "pilot", "token", "agent.log"
"""Files in a pilot's session directory: its program, its token (which it removes), and its log."""

_BYTES = 1_000_000


def adl(orders: Sequence[PilotOrder], queue: str, runtime_environments: Sequence[str]) -> bytes:
    """Return one document that describes a job for each order. Each job waits for its two files.

    The document holds no token, because ARC keeps it and shows it to everyone who may see the job.
    """
    root = ElementTree.Element("ActivityDescriptions")
    for order in orders:
        job = ElementTree.SubElement(root, "ActivityDescription", xmlns=NAMESPACE)
        _text(_under(job, "ActivityIdentification"), "Name", order.name)
        application = _under(job, "Application")
        # Pass no arguments: ARC expands anything in them that looks like a variable.
        _text(_under(application, "Executable"), "Path", PILOT)
        _text(application, "Output", LOG)
        _text(application, "Error", LOG)
        _resources(_under(job, "Resources"), order, queue, runtime_environments)
        files = _under(job, "DataStaging")
        for name in (PILOT, TOKEN):
            file = _under(files, "InputFile")
            _text(file, "Name", name)
            if name == PILOT:
                _text(file, "IsExecutable", "true")
    described: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return described


def _resources(
    parent: ElementTree.Element, order: PilotOrder, queue: str, runtime_environments: Sequence[str]
) -> None:
    """Add the pilot's needs in the schema's order: memory per core, and all cores on one node."""
    for name in runtime_environments:
        _text(_under(parent, "RuntimeEnvironment"), "Name", name)
    if order.memory:
        memory = math.ceil(order.memory / order.cores) * _BYTES
        _text(parent, "IndividualPhysicalMemory", str(memory))
    _text(parent, "WallTime", str(math.ceil(order.walltime)))
    slots = _under(parent, "SlotRequirement")
    _text(slots, "NumberOfSlots", str(order.cores))
    _text(slots, "SlotsPerHost", str(order.cores))
    if queue:
        _text(parent, "QueueName", queue)


def _under(parent: ElementTree.Element, tag: str) -> ElementTree.Element:
    return ElementTree.SubElement(parent, tag)


def _text(parent: ElementTree.Element, tag: str, value: str) -> None:
    _under(parent, tag).text = value
