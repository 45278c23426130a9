"""Move the replicas of a storage to another one: copy them by transfers, or record them there."""

from collections.abc import Collection, Iterable, Sequence

from pilotage.model.documents.decision import Change, Create, Decision, Forget
from pilotage.model.records.federation import StagingConstants
from pilotage.model.records.storage_moves import FileAtStorage, MovedFile, MoveStep
from pilotage.model.records.work import NewTransfer, Replica
from pilotage.model.rules.transfer_shares import base_priority
from pilotage.model.values.paths import is_copy

STEP = "storages.move"

SHARE = "_default"
"""The share of these transfers. They have its lowest priority, so that transfers for jobs go first."""


def move(
    files: Iterable[FileAtStorage],
    old: str,
    new: str,
    constants: StagingConstants,
    time: float,
    *,
    again: bool = False,
) -> tuple[Decision, tuple[MovedFile, ...]]:
    """Request transfers of files to the new storage, and forget the old replicas of files that have arrived.

    A failed transfer is requested again only with ``again``. If other storages hold a file, a copy of it is
    forgotten without a transfer. The old replica of a file stays while a live job reads it.
    """
    steps = [(file, _step(file, new, again)) for file in files]
    requests = tuple(
        NewTransfer(
            file=file.file,
            source=old,
            destination=new,
            direction="upload",
            share=SHARE,
            priority=1,
            share_priority=base_priority(SHARE, constants),
        )
        for file, step in steps
        if step == "requested"
    )
    gone = tuple(_replica(file, old) for file, step in steps if step == "moved")
    changes: list[Change] = []
    if requests:
        changes.append(Create(records=requests, cause=f"moved from {old} to {new}"))
    if gone:
        changes.append(Forget(replicas=gone, if_unread=True))
    return _decision(changes, time), tuple(_moved_file(file, step) for file, step in steps)


def record(
    files: Sequence[FileAtStorage], at_new: Collection[str], old: str, new: str, time: float
) -> tuple[Decision, tuple[MovedFile, ...]]:
    """Record the files in ``at_new``, which are at the new storage already; the others are missing there.

    They have the same path at both, because the storages are two names for one place.
    """
    steps: list[tuple[FileAtStorage, MoveStep]] = [
        (file, "missing" if file.file not in at_new else "in use" if file.is_read else "moved")
        for file in files
    ]
    there = [file for file, step in steps if step != "missing"]
    changes: list[Change] = []
    if there:
        replicas = tuple(_replica(file, new) for file in there)
        changes.append(Create(records=replicas, cause=f"the same place as {old}"))
        changes.append(Forget(replicas=tuple(_replica(file, old) for file in there), if_unread=True))
    return _decision(changes, time), tuple(_moved_file(file, step) for file, step in steps)


def _step(file: FileAtStorage, new: str, again: bool) -> MoveStep:
    if new in file.other_storages or (is_copy(file.path) and file.other_storages):
        return "in use" if file.is_read else "moved"
    if file.is_moving:
        return "moving"
    if file.is_being_made:
        return "in use"
    return "failed" if file.error and not again else "requested"


def _moved_file(file: FileAtStorage, step: MoveStep) -> MovedFile:
    is_over = step in ("failed", "missing")
    return MovedFile(
        file=file.file,
        size=file.size,
        step=step,
        error=file.error if step == "failed" else "",
        lost=is_over and not file.other_storages,
    )


def _replica(file: FileAtStorage, storage: str) -> Replica:
    return Replica(file=file.file, storage=storage, path=file.path)


def _decision(changes: Sequence[Change], time: float) -> Decision:
    return Decision(step=STEP, time=time, seed=0, changes=tuple(changes))
