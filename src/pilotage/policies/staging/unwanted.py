"""Removal of unwanted copies, by age, use and quota, and of queued downloads that no job waits for (D2)."""

from collections.abc import Iterable, Iterator

from pilotage.model.documents.decision import Begin, Decision, Forget
from pilotage.model.documents.moves import moves_of
from pilotage.model.documents.world import World
from pilotage.model.records.data import Copy
from pilotage.model.records.states import QUEUED_TRANSFERS, TransferState
from pilotage.model.records.unable_ways import iteration_name, undeletable
from pilotage.model.records.work import Replica
from pilotage.model.rules.copies_quotas import Counted, quota, usage
from pilotage.model.values.scopes import split_identifier
from pilotage.model.values.step_names import CLEAN


def remove(world: World) -> Decision:
    """Forget copies that were not used for ``copies_kept`` s, and the longest unused ones if a quota is
    exceeded.

    This happens once per ``cleaning_period``, until none are left. A copy stays while a task reads its file,
    and while no other storage of the federation holds it. So one of two unwanted copies stays. Copies that
    this server cannot delete stay until another server deletes them. Servers share a period only if they can
    delete at the same storages, so that one that cannot does not use up the period of the others.
    """
    constants = world.federation.staging
    rests = world.cleaned is not None and world.time - world.cleaned < constants.cleaning_period
    if rests or not (world.copies or world.copies_sizes):
        return Decision(step=CLEAN, time=world.time, seed=world.seed)
    replicas = tuple(Replica(file=copy.file, storage=copy.storage, path=copy.path) for copy in _chosen(world))
    # While copies are left, the next pass continues. The period begins when none are left.
    begin = Begin(step=iteration_name(CLEAN, world.unable), last=world.cleaned)
    change = Forget(replicas=replicas, if_unread=True) if replicas else begin
    return Decision(step=CLEAN, time=world.time, seed=world.seed, changes=(change,))


def _chosen(world: World) -> Iterator[Copy]:
    """Yield the copies to remove, longest unused first."""
    storages = {storage.name for storage in world.federation.storages}
    used = usage(world.copies_sizes)
    limits = {place: quota(world.federation, place) for place in used}
    gone: set[tuple[str, str]] = set()
    for copy in sorted(_unwanted(world), key=lambda copy: (copy.used, copy.file, copy.storage)):
        # Storages that left the federation do not count.
        holders = [name for name in copy.elsewhere if name in storages and (copy.file, name) not in gone]
        aged = world.time - copy.used > world.federation.staging.copies_kept
        places: list[Counted] = [(copy.storage, None), (copy.storage, split_identifier(copy.file)[0])]
        full = any((limit := limits.get(place)) is not None and used[place] > limit for place in places)
        if holders and (aged or full):
            gone.add((copy.file, copy.storage))
            used.subtract(dict.fromkeys(places, copy.size))
            yield copy


def _unwanted(world: World) -> Iterable[Copy]:
    unable = undeletable(world.federation.storages, world.unable)
    return (copy for copy in world.copies if not copy.wanted and copy.storage not in unable)


def cancel_unawaited(world: World) -> Decision:
    """Cancel queued downloads that no job waits for: they would waste slots.

    A download that is being delivered is not cancelled: its copy may serve other jobs.
    """
    unawaited = frozenset(world.unawaited)
    cause = "nobody waits for it any more"
    changes = tuple(
        move
        for state in QUEUED_TRANSFERS
        for move in moves_of(
            (
                transfer
                for transfer in world.transfers
                if transfer.id in unawaited and transfer.state is state
            ),
            TransferState.CANCELLED,
            cause,
            changes={"ended": world.time},
        )
    )
    return Decision(step="staging.unawaited", time=world.time, seed=world.seed, changes=changes)
