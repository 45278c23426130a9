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
"""The share of the transfers. They have its lowest priority, so that work goes first."""


def move(
    found: Iterable[FileAtStorage],
    old: str,
    new: str,
    constants: StagingConstants,
    time: float,
    *,
    again: bool = False,
) -> tuple[Decision, tuple[MovedFile, ...]]:
    """Request transfers of files to the new storage, and forget the replicas of those that are there.

    A file whose transfer failed is asked for ``again`` only if wanted. A copy of a file that others have is
    forgotten without a transfer. A file that a live job reads stays known at the old storage too.
    """
    steps = [(one, _step(one, new, again)) for one in found]
    requests = tuple(
        NewTransfer(
            file=one.file,
            source=old,
            destination=new,
            direction="upload",
            share=SHARE,
            priority=1,
            share_priority=base_priority(SHARE, constants),
        )
        for one, step in steps
        if step == "requested"
    )
    gone = tuple(_replica(one, old) for one, step in steps if step == "moved")
    changes: list[Change] = []
    if requests:
        changes.append(Create(records=requests, cause=f"moved from {old} to {new}"))
    if gone:
        changes.append(Forget(replicas=gone, if_unread=True))
    return _decision(changes, time), tuple(_told(one, step) for one, step in steps)


def record(
    found: Sequence[FileAtStorage], at_new: Collection[str], old: str, new: str, time: float
) -> tuple[Decision, tuple[MovedFile, ...]]:
    """Record files that lie at the new storage already: those of ``at_new``; the others are missing there.

    They have the same path at both, because the storages are two names of one place.
    """
    steps: list[tuple[FileAtStorage, MoveStep]] = [
        (one, "missing" if one.file not in at_new else "in use" if one.is_read else "moved") for one in found
    ]
    there = [one for one, step in steps if step != "missing"]
    changes: list[Change] = []
    if there:
        made = tuple(_replica(one, new) for one in there)
        changes.append(Create(records=made, cause=f"the same place as {old}"))
        changes.append(Forget(replicas=tuple(_replica(one, old) for one in there), if_unread=True))
    return _decision(changes, time), tuple(_told(one, step) for one, step in steps)


def _step(one: FileAtStorage, new: str, again: bool) -> MoveStep:
    if new in one.others or (is_copy(one.path) and one.others):
        return "in use" if one.is_read else "moved"
    if one.is_moving:
        return "moving"
    if one.is_being_made:
        return "in use"
    return "failed" if one.error and not again else "requested"


def _told(one: FileAtStorage, step: MoveStep) -> MovedFile:
    is_over = step in ("failed", "missing")
    return MovedFile(
        file=one.file,
        size=one.size,
        step=step,
        error=one.error if step == "failed" else "",
        lost=is_over and not one.others,
    )


def _replica(one: FileAtStorage, storage: str) -> Replica:
    return Replica(file=one.file, storage=storage, path=one.path)


def _decision(changes: Sequence[Change], time: float) -> Decision:
    return Decision(step=STEP, time=time, seed=0, changes=tuple(changes))
