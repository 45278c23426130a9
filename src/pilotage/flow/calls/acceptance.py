"""What a federation asks of the machines that run it: adapters of computing elements, and filesystems.

Loops may run on other machines, with other packages: that something is not installed here is worth saying,
and no fault of the federation. A misspelt name, options that an adapter refuses and impossible URLs are.
"""

import difflib
from collections.abc import Collection, Iterator
from functools import cache
from itertools import chain, islice
from urllib.parse import urlsplit

import fsspec

from pilotage.agent.storage import SCHEMES as PILOTS_READ
from pilotage.computing import loader
from pilotage.federation.faults import MOST_FAULTS, Fault, Path
from pilotage.model.federation import ComputingElement, Federation, Queue


def faults(federation: Federation) -> list[Fault]:
    """What no machine could use: each queue's computing element and each storage's URL is looked at."""
    found = chain(
        *(_url_faults(at, storage.url) for at, storage in enumerate(federation.storages)),
        *(_element_faults(path, element) for path, element in _elements(federation)),
    )
    return list(islice(found, MOST_FAULTS))


def lacking(federation: Federation) -> list[Fault]:
    """What this machine could not use as it is, lacking a package: each once, where it stands first."""
    first: dict[str, Fault] = {}
    for at, storage in enumerate(federation.storages):
        scheme = storage.url.partition("://")[0]
        try:
            fsspec.get_filesystem_class(scheme)
        except (ValueError, ImportError) as error:
            fault = Fault(("storages", at, "url"), f"{scheme}:// cannot be opened here: {error}")
            first.setdefault(scheme, fault)
    for at, queue in enumerate(federation.queues):
        scheme = _scheme(federation, queue)
        if queue.computing_element and scheme not in PILOTS_READ:
            message = f"pilots cannot read {scheme}:// yet, so jobs with files would fail at this queue"
            first.setdefault(f"pilots {scheme}", Fault(("queues", at, "storage"), message))
    for path, element in _elements(federation):
        if element.kind not in _kinds():
            message = f"no adapter for {element.kind!r} is installed here, where it would start no pilots"
            first.setdefault(f"kind {element.kind}", Fault((*path, "kind"), message))
    return list(first.values())


def _scheme(federation: Federation, queue: Queue) -> str:
    return next(one.url for one in federation.storages if one.name == queue.storage).partition("://")[0]


def _elements(federation: Federation) -> list[tuple[Path, ComputingElement]]:
    """Each kind with each of its options once, where it stands first."""
    first: dict[str, tuple[Path, ComputingElement]] = {}
    for at, queue in enumerate(federation.queues):
        if element := queue.computing_element:
            key = f"{element.kind} {element.options!r}"
            first.setdefault(key, (("queues", at, "computing_element"), element))
    return list(first.values())


@cache
def _kinds() -> Collection[str]:
    return loader.installed()


def _url_faults(at: int, url: str) -> Iterator[Fault]:
    path: Path = ("storages", at, "url")
    scheme, _, place = url.partition("://")
    try:
        host = urlsplit(url).hostname
    except ValueError as error:
        yield Fault(path, f"{url[:200]!r} is not a URL: {error}")
        return
    if "\0" in url:
        yield Fault(path, "holds a null character", "leave it out")
    if scheme in ("file", "local") and not place.startswith("/"):
        yield Fault(path, f"{url[:200]!r} has no path", "give an absolute one, as in file:///data")
    if scheme in ("http", "https") and not host:
        yield Fault(path, f"{url[:200]!r} has no host", "give one, as in https://host/path")
    yield from _misspelt(path, scheme, fsspec.available_protocols())


def _element_faults(path: Path, element: ComputingElement) -> Iterator[Fault]:
    if element.kind not in _kinds():
        yield from _misspelt((*path, "kind"), element.kind, _kinds())
        return
    try:
        loader.load(element)
    except (LookupError, ValueError, TypeError) as error:
        yield Fault((*path, "options"), str(error) or repr(error), "see what this kind takes")


def _misspelt(path: Path, name: str, known: Collection[str]) -> Iterator[Fault]:
    near = [] if name in known else difflib.get_close_matches(name, known, n=1, cutoff=0.85)
    if near:
        yield Fault(path, f"{name!r} is not known here", f"did you mean {near[0]}?")
