"""Move files to jobs and from jobs, under transfer shares (D1 to D11)."""

import logging
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from pilotage.flow.loops.isolation import error_line
from pilotage.flow.outside.deliveries import log_breakers
from pilotage.flow.outside.removals import clear
from pilotage.flow.reads import ProcessFields
from pilotage.flow.runtime import Runtime
from pilotage.flow.step import Phase, Step, always
from pilotage.flow.transfer_priorities import take_files
from pilotage.model.documents.decision import Committed, Decision, Move, Touch
from pilotage.model.documents.subjects import SITE, TASK, TRANSFER
from pilotage.model.documents.world import World
from pilotage.model.records.states import JobState, TransferState
from pilotage.model.values.phrases import moment
from pilotage.model.values.step_names import STAGE
from pilotage.policies.staging import deliveries, preparing, retries, settle, slots, unwanted
from pilotage.ports.moving import Delivery, DeliveryFailed, order
from pilotage.store.transfers.staging import of_retried_jobs, staged

log = logging.getLogger(__name__)


def _unable(runtime: Runtime, world: World) -> Mapping[str, Any]:
    """Return the pairs of storages that this process cannot move files between, if there are transfers.

    Transfers of another server that is gone may wait again within this very pass.
    """
    return {"unable": runtime.deliveries.unable(world.federation) if world.transfers else ()}


def _observed(runtime: Runtime, world: World, decision: Decision, committed: Committed) -> None:
    """Forget recorded reports, and give up deliveries of transfers that are gone."""
    log_breakers(world, decision, committed)
    runtime.deliveries.forget(world.deliveries)
    runtime.deliveries.withdraw_all_but(
        [transfer for transfer in world.transfers if transfer.state is TransferState.DELIVERING]
    )


def _turned(runtime: Runtime, _: World, decision: Decision, __: Committed) -> None:
    """Ask for another pass if emergency slots turned regular: in this one none begins (D5)."""
    if any(isinstance(change, Touch) for change in decision.changes):
        runtime.wakeups.wake(STAGE)


def _settled(runtime: Runtime, world: World, decision: Decision, committed: Committed) -> None:
    clear(runtime, world, decision, committed)
    _turned(runtime, world, decision, committed)


def _start(runtime: Runtime, world: World, decision: Decision, committed: Committed) -> None:
    """Give transfers with a slot to their movers."""
    transfers = {transfer.id: transfer for transfer in world.transfers}
    storages = {storage.name: storage for storage in world.federation.storages}
    files = {file.name: file for file in world.files}
    paths = {(replica.file, replica.storage): replica.path for replica in world.replicas}
    ordered = partial(
        order,
        storages=storages,
        instance=world.federation.name,
        most_attempts=world.federation.staging.max_attempts,
        catalogues=world.federation.catalogues,
        bundle=world.federation.staging.files_per_slot,
    )
    orders: list[Delivery] = []
    for change, ids in zip(decision.changes, committed.accepted, strict=True):
        if isinstance(change, Move) and change.target is TransferState.DELIVERING:
            for transfer in (transfers[id_] for id_ in ids):
                if transfer.state is not TransferState.PREPARED:
                    # Another server chose its source, which is not known here.
                    runtime.deliveries.refuse(transfer, "another server has prepared it")
                    continue
                try:
                    path = paths.get((transfer.file, transfer.source), "")
                    orders.append(ordered(transfer, files[transfer.file], path=path))
                except DeliveryFailed as error:
                    runtime.deliveries.refuse(transfer, str(error))
                except Exception as error:
                    log.exception(
                        "transfer %d cannot be ordered", transfer.id, extra={"transfer": transfer.id}
                    )
                    runtime.deliveries.refuse(transfer, error_line(error))
    runtime.deliveries.start(orders)
    _turned(runtime, world, decision, committed)
    if orders and any(waiting.state is TransferState.QUEUED for waiting in world.transfers):
        # Transfers that began have freed their places among the prepared ones.
        runtime.wakeups.wake(STAGE)


def _idle(world: World) -> Iterator[str]:
    queued = [transfer for transfer in world.transfers if transfer.state is TransferState.QUEUED]
    delivering = sum(transfer.state is TransferState.DELIVERING for transfer in world.transfers)
    later = [
        transfer.wake_at
        for transfer in queued
        if transfer.wake_at is not None and transfer.wake_at > world.time
    ]
    prepared = sum(transfer.state is TransferState.PREPARED for transfer in world.transfers)
    if not queued:
        yield "no transfer is queued"
    if later:
        yield f"of {len(queued)} queued {len(later)} not tried again before {moment(min(later))}"
    if prepared:
        yield f"{prepared} prepared, and waiting for a slot to be delivered"
    if delivering:
        yield f"{delivering} delivering"


STEP = Step(
    name=STAGE,
    place=5,
    summary="Bring files to jobs and from jobs, under transfer shares.",
    prepare=take_files,
    reads=(
        *("deliveries", staged, "tasks", "replicas", of_retried_jobs),
        *("server", "servers_gone", ProcessFields(("unable",), _unable)),
    ),
    phases=always(
        Phase(actor="mover", decide=deliveries.observed, act=_observed, records=True),
        Phase(actor=STAGE, decide=retries.abandoned),
        Phase(actor=STAGE, decide=settle.settle, act=_settled),
        Phase(actor=STAGE, decide=unwanted.cancel_unawaited),
        Phase(actor=STAGE, decide=preparing.prepare, act=_turned),
        # A transfer with a slot of preparing needs only its source, which is known here.
        Phase(actor=STAGE, decide=preparing.prepare, act=_turned),
        Phase(actor=STAGE, decide=slots.start, act=_start),
    ),
    foresees=True,
    subjects=(TRANSFER, TASK, SITE),
    idle=_idle,
    # Transfers that moved on woke the step, and so did new ones while others wait for their place.
    goes_on=lambda runtime: runtime.wakeups.waits(STAGE),
    in_hand=lambda runtime: runtime.deliveries.in_hand,
    wakes_all_servers=True,
    wakes_on=frozenset(
        {
            ("job", JobState.HOLDING),
            ("transfer", TransferState.QUEUED),
            ("transfer", TransferState.PREPARING),
            ("transfer", TransferState.PREPARED),
            ("transfer", TransferState.DELIVERED),
            ("transfer", TransferState.FINISHING),
            ("transfer", TransferState.FAILED),
            ("transfer", TransferState.CANCELLED),
        }
    ),
)
