"""Text about how a job's files are moved, and about results that wait in sites' spools."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from pilotage.model.documents.remarks import Remark
from pilotage.model.records.federation import Federation, Storage
from pilotage.model.records.observations import WaitingResults
from pilotage.model.records.states import TransferState
from pilotage.model.records.work import FileOfJob, Transfer
from pilotage.model.values.phrases import duration, plural

BETWEEN_STORAGES = ({"http", "https"}, {"root", "roots"}, {"s3"})
"""URL schemes of storages that may copy among themselves, so that no byte passes through our server."""


def with_ways(
    files: Iterable[FileOfJob], federation: Federation, home: str, is_remote: bool
) -> tuple[FileOfJob, ...]:
    """Add to files how the job gets them at its queue's storage ``home``, or how its outputs leave it.

    With ``is_remote``, its pilot reads missing files from other storages (E3).
    """
    storages = {storage.name: storage for storage in federation.storages}
    return tuple(replace(file, way=_route(file, storages, home, is_remote)) for file in files)


def of_files(files: Sequence[FileOfJob]) -> Iterator[str]:
    """Yield a line about each file."""
    for file in files:
        yield f"  {file.kind} {file.file}, {_size(file.size)}: {file.way}"


def _route(file: FileOfJob, storages: Mapping[str, Storage], home: str, is_remote: bool) -> str:
    if file.transfer is not None:
        return _describe_transfer(file, file.transfer, storages)
    holders = ", ".join(file.storages) or "no storage"
    if file.kind == "output":
        return f"is at {holders}"
    if not home:
        return f"is at {holders}; the job has no queue yet"
    if home in file.storages:
        return f"is at {home}, the storage of its queue"
    return f"is at {holders}, " + ("from where its pilot reads it" if is_remote else f"and not at {home}")


def _describe_transfer(file: FileOfJob, transfer: Transfer, storages: Mapping[str, Storage]) -> str:
    ended = f"{transfer.state} in {duration(file.took)}" if file.took is not None else f"{transfer.state}"
    state = ended if transfer.state is TransferState.DONE else f"{transfer.state}, attempt {transfer.attempt}"
    share = f"share {transfer.share}, priority {transfer.priority}"
    error = f"; last error: {transfer.error}" if transfer.error else ""
    ends = f"from {transfer.source} to {transfer.destination}"
    mover = transfer.way or _mover_label(transfer.source, transfer.destination, storages)
    return f"transfer {transfer.id} {ends}, {mover}: {state}, {share}{error}"


def _mover_label(source: str, destination: str, storages: Mapping[str, Storage]) -> str:
    """Return who moves bytes between two storages. Some storages that could copy directly do not."""
    ends = [storages[name] for name in (destination, source) if name in storages]
    if service := next((storage.transfer_service for storage in ends if storage.transfer_service), None):
        return f"by the {service.kind} service {service.url}"
    if source == destination:
        return "renamed there"
    schemes = {storage.url.partition("://")[0] for storage in ends}
    if len(ends) == 2 and any(schemes <= family for family in BETWEEN_STORAGES):
        return "copied by the storages themselves where they can, else streamed"
    return "streamed by the server"


def _size(size: int) -> str:
    """Return bytes with three digits."""
    value = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} TB"


def of_waiting_results(subject: str, waiting: Iterable[WaitingResults], now: float) -> Iterator[Remark]:
    """Yield a remark on the results at each queue: how many, for how long, and why they still wait."""
    by_queue: dict[str, list[WaitingResults]] = defaultdict(list)
    for result in waiting:
        by_queue[result.queue].append(result)
    for queue, results in sorted(by_queue.items()):
        size, first = (
            sum(result.size for result in results) / 1e6,
            min(results, key=lambda result: result.since),
        )
        problem = next((result.problem for result in results if result.problem), "")
        yield Remark(
            kind="fault" if problem else "wait",
            subject=subject,
            text=f"results of {plural(len(results), 'job')} ({size:.3g} MB) wait in the spool of queue "
            f"{queue}, where their pilots left them; seen for {duration(now - first.since)}: "
            f"{problem or 'a server takes them from there'}",
            mend="operator" if problem else "wait",
            command=f"pilotage explain job:{first.job}",
            since=first.since,
            until=min(result.until for result in results),
        )
