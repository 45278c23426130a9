"""Options of the ARC and HTCondor adapters, from other systems' descriptions of a computing element."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pilotage.federation.importers.import_result import Action

Note = Callable[[Action, str, str], None]
"""Called with the action on a field, the field, and the reason."""

CREDENTIALS: Mapping[str, str] = {
    "arc": "no credential is known: add certificate_file or token_file to its options",
    "htcondor": "no credential is known: add token_file to its options, unless the host's own is used",
}
"""Notes about missing credentials, by the kind of computing element."""

_RSL = re.compile(r"\(\s*(\w+)\s*=\s*\"?([^()\"]*?)\"?\s*\)")
_ORDERED = {"count", "countpernode", "memory", "walltime", "jobtype", "gridtime", "cputime"}
"""Fields of an rsl that each pilot's order sets."""

_ARC = {"batch_queue": "queue", "arc_rte": "runtimeenvironment", "arc_resources": "walltime"}
"""Submit attributes for ARC, by their xRSL names."""

_SAID = {
    "request_cpus",
    "requestcpus",
    "request_memory",
    "requestmemory",
    "+xcount",
    "+maxmemory",
    "+maxwalltime",
}
"""Submit commands that each pilot's order sets, in lower case."""


def arc(gatekeeper: str, rsl: str, submit: Mapping[str, str], note: Note) -> dict[str, Any]:
    """Return options of kind ``arc`` from a service's address, an xRSL and submit attributes."""
    settings = [("rsl", name.lower(), value) for name, value in _RSL.findall(rsl)]
    settings += [
        (f"submit_attr {name}", _ARC.get(name, name.lower()), value.strip().strip('"'))
        for name, value in submit.items()
    ]
    address, *further = gatekeeper.split()
    if further:
        note("dropped", "gatekeeper", f"{' '.join(further)}: a service has one address")
    options: dict[str, Any] = {"endpoint": address}
    environments: list[str] = []
    for field, name, value in settings:
        if name == "queue":
            options["queue"] = value
        elif name == "runtimeenvironment":
            environments += [text.strip() for text in value.split(",") if text.strip()]
        else:
            reason = (
                "each pilot asks for what its work needs" if name in _ORDERED | _SAID else "has no option"
            )
            note("dropped", field, f"{name} = {value}: {reason}")
    if environments:
        options["runtime_environments"] = list(dict.fromkeys(environments))
    return options


def htcondor(gatekeeper: str, submit: Mapping[str, str], note: Note) -> dict[str, Any]:
    """Return options of kind ``htcondor`` from attributes and ``SCHEDD COLLECTOR``, or a schedd's address
    alone.

    Only the first of several pairs counts; ``pairs`` returns all.
    """
    schedd, *pool = gatekeeper.split()
    if len(pool) > 1 and len(pool) % 2 == 0:
        note("dropped", "gatekeeper", f"{pool[-1]}: is no pair of a schedd and its collector")
    host, _, port = schedd.partition(":")
    options: dict[str, Any] = {"schedd": host}
    if pool or port:
        options["collector"] = pool[0] if pool else schedd
    attributes = {name: value for name, value in sorted(submit.items()) if name.lower() not in _SAID}
    for name in sorted(submit.keys() - attributes.keys()):
        note("dropped", f"submit_attr {name}", "each pilot asks for what its work needs")
    if attributes:
        options["submit"] = attributes
    return options


def options_of(
    kind: str, gatekeeper: str, note: Note, rsl: str = "", submit: Mapping[str, str] | None = None
) -> dict[str, Any] | None:
    """Return the options of a known kind, and note missing ones; return None for any other kind."""
    if kind not in CREDENTIALS:
        return None
    note("guessed", "credentials", CREDENTIALS[kind])
    if kind == "arc":
        return arc(gatekeeper, rsl, submit or {}, note)
    return htcondor(gatekeeper, submit or {}, note)


def pairs(kind: str, gatekeeper: str) -> list[str]:
    """Return the addresses in a gatekeeper: pairs of schedd and collector for HTCondor, else one address."""
    words = gatekeeper.split()
    whole = len(words) - len(words) % 2
    return [" ".join(words[at : at + 2]) for at in range(0, whole, 2)] if kind == "htcondor" else words[:1]


def servers_of(kind: str, addresses: Sequence[str]) -> list[dict[str, Any]]:
    """Return the servers of one batch system, each with its own options (P6); none if there is only one."""
    by_name: dict[str, dict[str, Any]] = {}
    for address in addresses if len(addresses) > 1 else ():
        host = address.split(maxsplit=1)[0]
        name = re.sub(r"[^A-Za-z0-9_.:@+-]+", "-", host).lstrip("_.:@+-")[:200]
        options = arc(address, "", {}, _unsaid) if kind == "arc" else htcondor(address, {}, _unsaid)
        by_name[name or f"server-{len(by_name)}"] = options
    return [{"name": name, "options": options} for name, options in by_name.items()]


def _unsaid(action: Action, field: str, text: str) -> None:
    """Ignore the note: an address alone has no missing options."""
