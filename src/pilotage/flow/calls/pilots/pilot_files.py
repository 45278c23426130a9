"""Files of jobs at storages that pilots cannot open themselves: an address for one, or its bytes."""

from collections.abc import Generator
from dataclasses import dataclass, replace

from pilotage.agent.wire import OPEN_SCHEMES, Access, FileRequest, Source
from pilotage.flow.runtime import Runtime
from pilotage.model.documents.world import Heartbeat
from pilotage.model.records.catalogues import moving_scope
from pilotage.model.records.federation import Federation, Storage
from pilotage.model.records.work import Job
from pilotage.model.values.paths import scratch_path
from pilotage.model.values.scopes import name_of, split_identifier
from pilotage.ports.moving import PER_VO, Delivered, Readable, options_for
from pilotage.store.pilots.reports import told_by_pilots

SERVER_ONLY = frozenset({"token_file", "ca_file", "cert_file"})
"""Options with files on the server's machine, which pilots do not have."""

GRANTED = frozenset({"http", "https", "s3"})
"""URL schemes of storages that give an address for one file."""

PILOTS_KNOW = frozenset({"headers", "client_kwargs", "redirects_to"})
"""Options without credentials, which pilots get."""

ALWAYS_KNOWN = frozenset({"redirects_to"})
"""Options that pilots get even if they ask for each file."""


class NotTheirs(LookupError):
    """A file does not belong to the pilot's jobs; the message names it and the reason."""


@dataclass(frozen=True, slots=True)
class JobFile:
    """A job's file at a storage, with its VO's options there, and for reading its size in bytes."""

    storage: Storage
    path: str
    size: int = 0


def asks(storage: Storage) -> bool:
    """Return whether pilots ask for each file of a storage, because its URL alone does not open it
    (decision 34)."""
    scheme = storage.url.partition("://")[0]
    options = set(storage.options).union(*storage.options.get(PER_VO, {}).values())
    return scheme not in OPEN_SCHEMES or bool(SERVER_ONLY & options)


def through_server(storage: Storage) -> bool:
    """Return whether the server hands on the files of a storage, because it gives no addresses."""
    scheme = storage.url.partition("://")[0]
    return asks(storage) and (scheme not in GRANTED or "cert_file" in storage.options)


def source_of(storage: Storage) -> Source:
    """Return what pilots learn about a storage: only its address, nothing that opens it."""
    named = ALWAYS_KNOWN if asks(storage) else PILOTS_KNOW
    options = {name: value for name, value in options_for(storage).items() if name in named}
    return Source(storage.url, options, asks(storage))


def access(runtime: Runtime, pilot: int, request: FileRequest) -> Access:
    """Return an address of a file, empty if its storage gives none. Blocks.

    Raises NotTheirs, and StorageError or LookupError if the storage cannot be asked.
    """
    file = find(runtime, pilot, request)
    grant = runtime.deliveries.grant(file.storage, file.path, request.size)
    return Access(grant.url, grant.headers, grant.authorities) if grant else Access()


def read(runtime: Runtime, pilot: int, request: FileRequest) -> tuple[int, Generator[bytes]]:
    """Return the size of an input, and its bytes in chunks. Raises like access, and TooManyReaders."""
    file = find(runtime, pilot, request)
    return file.size, runtime.pilot_files.read([(file.storage, file.path)], 0)


def store(runtime: Runtime, pilot: int, request: FileRequest, stream: Readable) -> Delivered:
    """Write an output. Blocks. Raises like access, TooManyReaders, and the stream's exceptions."""
    file = find(runtime, pilot, request)
    with runtime.pilot_files.place():
        return runtime.deliveries.store(file.storage, file.path, stream, request.size or 0)


def find(runtime: Runtime, pilot: int, request: FileRequest) -> JobFile:
    """Return an input, or with a size an output, of an attempt that the pilot holds, or an output that it
    delivers for the holder. Raises NotTheirs."""
    pair = (request.job, request.attempt)
    carried = runtime.store.results_in_spools.carried(*pair, pilot) if request.size is not None else None
    world = runtime.world(told_by_pilots([Heartbeat(pilot=carried.pilot if carried else pilot)]))
    job = next((job for job in world.jobs if (job.id, job.attempt) == pair), None)
    if job is None:
        raise NotTheirs(f"the pilot does not hold attempt {request.attempt} of job {request.job}")
    if request.size is None:
        return _input(runtime, world.federation, job, request)
    task = next(task for task in world.tasks if task.id == job.task)
    path = scratch_path(world.federation.name, job.id, job.attempt, request.name)
    storage = _storage(world.federation, job, "")
    if not task.expected(job.kind).outputs:
        raise NotTheirs(f"{request.name}: job {request.job} has no outputs")
    return JobFile(storage, path)


def _input(runtime: Runtime, federation: Federation, job: Job, request: FileRequest) -> JobFile:
    storage = _storage(federation, job, request.source)
    identifier = next((identifier for identifier in job.inputs if name_of(identifier) == request.name), "")
    entry = runtime.store.catalogue.entry(identifier) if identifier else None
    lying = [replica.place for replica in entry.replicas if replica.storage == storage.name] if entry else []
    if entry is None or not lying:
        raise NotTheirs(f"{request.name}: job {request.job} has no such input at {storage.name}")
    scope = moving_scope(federation.catalogues, split_identifier(identifier)[0])
    options = options_for(storage, scope)
    return JobFile(replace(storage, options=options), lying[0], entry.file.size)


def _storage(federation: Federation, job: Job, source: str) -> Storage:
    """Return the storage of the job's queue, or a remote one (E3)."""
    home = next(queue.storage for queue in federation.queues if queue.name == job.queue)
    for storage in federation.storages:
        if storage.name == (source or home) and (storage.name == home or storage.remote_reads):
            return storage
    raise NotTheirs(f"pilots do not read from storage {source}")
