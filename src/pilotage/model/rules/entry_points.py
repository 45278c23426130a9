"""Entry points of sites: the addresses of their computing elements (M2)."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pilotage.model.records.federation import Queue

_ADDRESSES = ("url", "endpoint", "host", "collector", "schedd", "context")
"""Options of adapters that locate a computing element. The first one that is set counts."""

_PLACES = ("partition", "queue", "namespace")
"""Options that name a part of it."""

_SECRET = re.compile(r"(?<=//)[^/@]*@|[?#].*$")
"""The parts of a URL that may hold a password: the user before the host, and the query."""


def entry_points(queues: Iterable[Queue]) -> Iterator[str]:
    """Yield the address of each server of the queues' computing elements, as ``KIND://HOST/PART`` or a URL.

    Without a host, it is a batch system on the server's own machine.
    """
    for queue in queues:
        element = queue.computing_element
        if element is not None:
            for server in element.servers or (None,):
                options = {**element.options, **(server.options if server else {})}
                yield _address(element.kind, options)


def _address(kind: str, options: Mapping[str, Any]) -> str:
    told = next((str(options[name]) for name in _ADDRESSES if options.get(name)), "localhost")
    address = _SECRET.sub("", told) if "://" in told else f"{kind}://{told}"
    part = next((str(options[name]) for name in _PLACES if options.get(name)), "")
    return f"{address.rstrip('/')}/{part}" if part else address
