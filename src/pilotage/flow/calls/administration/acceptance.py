"""Check what a federation needs from the machines that run it: adapters of computing elements and storages.

Loops may run on other machines with other packages. So a missing package here is worth a warning, but no
fault of the federation. A misspelt name, options that an adapter refuses and impossible URLs are faults.
"""

from collections.abc import Collection, Iterator, Sequence
from functools import cache
from itertools import chain, islice

from pilotage import request_budget
from pilotage.adapters.catalogues import loader as catalogues
from pilotage.adapters.computing import loader
from pilotage.adapters.movers import transfer_services
from pilotage.adapters.movers.loader import InstalledMovers, known_schemes
from pilotage.adapters.movers.storages.backend import StorageOptionError
from pilotage.adapters.movers.streaming import check, hint
from pilotage.explain.advice import need_at
from pilotage.explain.words import number
from pilotage.federation.faults import Fault, Path
from pilotage.federation.messages import nearest
from pilotage.federation.url_checks import url_faults
from pilotage.flow.calls.pilots.pilot_files import through_server
from pilotage.flow.calls.work import sure_waits
from pilotage.model.documents.decision import Refusal
from pilotage.model.records.federation import ComputingElement, Federation, Storage, TransferService
from pilotage.model.values.entry_point_groups import TRANSFER_SERVICES
from pilotage.model.values.urls import url_fault
from pilotage.ports.adapters import AdapterError, installed
from pilotage.ports.computing import ListMatching


def faults(federation: Federation) -> list[Fault]:
    """Return the parts that no machine could use: impossible URLs, and options that an adapter refuses."""
    all_faults = chain(
        url_faults(federation),
        *(_storage_faults(at, storage) for at, storage in enumerate(federation.storages)),
        *(_element_faults(path, element) for path, element in _elements(federation)),
        *(_catalogue_faults(at, federation) for at in range(len(federation.catalogues))),
    )
    return list(islice(all_faults, request_budget.MOST_FAULTS))


def notes(federation: Federation) -> list[Fault]:
    """Return remarks that are no faults, but help before the federation is loaded."""
    return [*lacking(federation), *_through_server(federation), *waiting(federation)]


def lacking(federation: Federation) -> list[Fault]:
    """Return the parts that need a package which this machine lacks, each once at its first place."""
    first: dict[str, Fault] = {}
    there = InstalledMovers(lambda: None).schemes
    for at, storage in enumerate(federation.storages):
        scheme = storage.url.partition("://")[0]
        if scheme not in there:
            message = (
                f"no mover that is installed here reads {scheme}://, so its files would stay where they are"
                f"{hint(scheme)}"
            )
            first.setdefault(scheme, Fault(("storages", at, "url"), message))
    for fault in _unwritable(federation):
        first.setdefault(fault.message, fault)
    for path, element in _elements(federation):
        if element.kind not in _kinds():
            message = f"no adapter for {element.kind!r} is installed here, where it would start no pilots"
            first.setdefault(f"kind {element.kind}", Fault((*path, "kind"), message))
        elif message := _unusable(element):
            first.setdefault(f"kind {element.kind}", Fault((*path, "kind"), message))
    return [*first.values(), *_catalogues_lacking(federation)]


def _through_server(federation: Federation) -> list[Fault]:
    """Return the storages that most pilots reach only through the server, the first of each kind."""
    first: dict[str, Fault] = {}
    there = InstalledMovers(lambda: None).schemes
    homes = {queue.storage for queue in federation.queues if queue.computing_element}
    for at, storage in enumerate(federation.storages):
        scheme = storage.url.partition("://")[0]
        if scheme in there and (storage.remote_reads or storage.name in homes) and through_server(storage):
            message = (
                f"pilots without a program of their own for {scheme}:// read and write its files through the "
                "server, eight at a time"
            )
            first.setdefault(scheme, Fault(("storages", at, "url"), message))
    return list(first.values())


def waiting(federation: Federation) -> list[Fault]:
    """Return sure causes of waiting jobs that are no faults, each once at its first place."""
    refusals = sure_waits.of_federation(federation)
    return [
        *_low_on_space(federation, refusals.get("B18", ())),
        *_short(federation, {queue for refusal in refusals.get("B20", ()) for queue in refusal.queues}),
    ]


def _low_on_space(federation: Federation, refusals: Sequence[Refusal]) -> Iterator[Fault]:
    homes = {queue.name: queue.storage for queue in federation.queues}
    low = {homes[queue] for refusal in refusals for queue in refusal.queues}
    for at, storage in [(at, home) for at, home in enumerate(federation.storages) if home.name in low][:1]:
        more = f" ({len(low)} storages declare so little)" if len(low) > 1 else ""
        message = (
            f"{storage.free:g} GB are declared free{more}, and queues there take jobs only above "
            f"{number(need_at(refusals[0], 0))} GB: unless the storage itself tells more, jobs wait"
        )
        remedy = "declare what is free, or give the storage a smaller storage_min_free"
        yield Fault(("storages", at, "free"), message, remedy)


def _short(federation: Federation, refusing: Collection[str]) -> Iterator[Fault]:
    short = [at for at, queue in enumerate(federation.queues) if queue.name in refusing]
    for at in short[:1]:
        every = len(short) == len(federation.queues)
        subject = "no queue runs" if every else f"{len(short)} of {len(federation.queues)} queues do not run"
        message = f"{subject} 24 h: there neither scouts, nor merge jobs, nor jobs without a walltime go"
        remedy = "tasks need a walltime or cpu_time, and scouts: 0 where no queue is longer"
        yield Fault(("queues", at, "max_walltime"), message, remedy)


def _unwritable(federation: Federation) -> Iterator[Fault]:
    """Yield storages of queues that this machine can read but not write: outputs would stay in scratch."""
    there, homes = InstalledMovers(lambda: None), {queue.storage for queue in federation.queues}
    for at, storage in enumerate(federation.storages):
        scheme = storage.url.partition("://")[0]
        if storage.name in homes and scheme in there.schemes and scheme not in there.writable:
            message = f"no mover that is installed here writes {scheme}://, so outputs would not be delivered"
            yield Fault(("storages", at, "url"), f"{message}{hint(scheme)}")


def _catalogues_lacking(federation: Federation) -> Iterator[Fault]:
    for at, declared in enumerate(federation.catalogues):
        try:
            catalogues.load(declared, federation)
        except AdapterError as error:
            message = f"the catalogue {declared.name} cannot be asked from here: {error}"
            yield Fault(("catalogues", at, "kind"), message)
        except (LookupError, ValueError):
            continue


def _unusable(element: ComputingElement) -> str:
    """Return why the installed adapter cannot be used here; empty if it can."""
    try:
        loader.load(element)
    except AdapterError as error:
        return str(error)
    except (LookupError, ValueError, TypeError):
        return ""
    return ""


def _elements(federation: Federation) -> list[tuple[Path, ComputingElement]]:
    """Return each kind with each of its options once, at its first place."""
    first: dict[str, tuple[Path, ComputingElement]] = {}
    for at, queue in enumerate(federation.queues):
        if element := queue.computing_element:
            path: Path = ("queues", at, "computing_element")
            places: list[tuple[Path, ComputingElement]] = [
                ((*path, "servers", n), element.at(server.name)) for n, server in enumerate(element.servers)
            ]
            places = places or [(path, element.at(""))]
            server = element.servers[0].name if element.servers else ""
            places += [
                ((*path, "credentials", n), element.at(server, credential.name))
                for n, credential in enumerate(element.credentials)
                if credential.person or credential.group  # one without has its fault already
            ]
            for place, variant in places:
                key = f"{variant.kind} {variant.list_match} {variant.options!r} {variant.credentials!r}"
                first.setdefault(key, (place, variant))
    return list(first.values())


@cache
def _kinds() -> Collection[str]:
    return loader.installed()


@cache
def _schemes() -> Collection[str]:
    return known_schemes()


def _storage_faults(at: int, storage: Storage) -> Iterator[Fault]:
    path: Path = ("storages", at, "url")
    if url_fault(storage.url):
        return
    try:
        check(storage)
    except StorageOptionError as error:
        yield Fault(("storages", at, "options"), str(error))
    except ValueError as error:
        yield Fault(path, str(error)[:300])
    yield from _misspelt(path, storage.url.partition("://")[0], _schemes())
    if storage.transfer_service is not None:
        yield from _service_faults(("storages", at, "transfer_service"), storage.transfer_service)


def _service_faults(path: Path, service: TransferService) -> Iterator[Fault]:
    try:
        transfer_services.check(service)
    except AdapterError:
        yield from _misspelt((*path, "kind"), service.kind, installed(TRANSFER_SERVICES).keys())
    except StorageOptionError as error:
        yield Fault((*path, "options"), str(error))
    except ValueError as error:
        yield Fault((*path, "url"), str(error)[:300])


def _element_faults(path: Path, element: ComputingElement) -> Iterator[Fault]:
    if element.kind not in _kinds():
        if element.credentials:
            return  # the fault of the element itself says so
        yield from _misspelt((*path, "kind"), element.kind, _kinds())
        return
    try:
        adapter = loader.load(element)
    except AdapterError:  # for want of a package of this machine
        return
    except (LookupError, ValueError, TypeError) as error:
        yield Fault((*path, "options"), str(error) or repr(error), "see what this kind takes")
        return
    if element.list_match and not isinstance(adapter, ListMatching):
        message = f"kind {element.kind!r} cannot tell whether it has a resource for a pilot"
        yield Fault((*path, "list_match"), message, "leave list_match out")


def _catalogue_faults(at: int, federation: Federation) -> Iterator[Fault]:
    declared, path = federation.catalogues[at], ("catalogues", at)
    if declared.kind not in catalogues.installed():
        yield from _misspelt((*path, "kind"), declared.kind, catalogues.installed())
        return
    try:
        catalogues.load(declared, federation)
    except (LookupError, ValueError) as error:
        # A missing package on this machine is no fault.
        if not isinstance(error, AdapterError):
            yield Fault((*path, "options"), str(error) or repr(error), "see what this kind takes")


def _misspelt(path: Path, name: str, known_names: Collection[str]) -> Iterator[Fault]:
    near = [] if name in known_names else nearest(name, known_names, cutoff=0.8)
    # Only a name close to a known one is a fault: other kinds may be installed where the loops run.
    if near:
        yield Fault(path, f"{name!r} is not known here", f"did you mean {near[0]}?")
