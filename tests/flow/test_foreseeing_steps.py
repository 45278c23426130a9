"""Steps whose phases see what those before them changed, without reading again."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pilotage.flow.reads import ProcessFields
from pilotage.flow.runtime import Runtime
from pilotage.flow.step import Phase, always, take
from pilotage.flow.steps import step
from pilotage.model.documents.decision import Committed, Decision, Move
from pilotage.model.documents.projected_world import projected
from pilotage.model.documents.world import World
from pilotage.model.records.states import JobState, TransferState
from pilotage.model.records.work import File, Replica
from pilotage.testing.stores import create, new_transfer
from tests.reading import world_of

from .house import House


def _queued(house: House, file: str = "file") -> int:
    record = new_transfer(file, source="north-disk", destination="south-disk")
    held = Replica(file=record.file, storage="north-disk")
    create(house.store, File(name=record.file, size=1, checksum=""), held)
    (id_,) = create(house.store, record, time=house.now)
    return id_


def _moved(time: float, source: TransferState, target: TransferState, *ids: int) -> Decision:
    move = Move(kind="transfer", ids=ids, source=source, target=target, cause="test")
    return Decision(step="stage", time=time, seed=1, changes=(move,))


def test_d8_a_transfer_with_room_is_delivered_by_the_first_pass(house: House) -> None:
    id_ = _queued(house)
    take(step("stage"), house.runtime, house.runtime.begin(100))
    world = world_of(house.store, "stage", house.now, 1, limit=100)
    assert [(one.id, one.state) for one in world.transfers] == [(id_, TransferState.DELIVERING)]


def test_what_the_commit_handed_back_is_not_foreseen(house: House) -> None:
    id_ = _queued(house)
    world = world_of(house.store, "stage", house.now, 1, limit=100)
    move = Move(
        kind="transfer",
        ids=(id_,),
        attempts=(1,),
        source=TransferState.QUEUED,
        target=TransferState.PREPARING,
        cause="test",
        changes={"emergency": True},
        own_changes={id_: {"error": "slow"}},
        next_attempt=True,
    )
    decision = Decision(step="stage", time=world.time + 1, seed=1, changes=(move,))
    (before,), (after,) = world.transfers, projected(world, decision).transfers
    moved = replace(
        before, state=TransferState.PREPARING, since=world.time, emergency=True, attempt=2, error="slow"
    )
    assert after == moved
    assert projected(world, decision, Committed(accepted=((),), created=((),))) == world


def test_the_next_actor_sees_what_was_committed_and_not_what_was_handed_back(house: House) -> None:
    held, taken = _queued(house, "held"), _queued(house, "taken")
    seen: dict[int, TransferState] = {}

    def prepare(world: World) -> Decision:
        return _moved(world.time, TransferState.QUEUED, TransferState.PREPARING, held, taken)

    def look(world: World) -> Decision:
        seen.update({one.id: one.state for one in world.transfers})
        return Decision(step="stage", time=world.time, seed=1)

    def cancel(runtime: Runtime, world: World) -> Mapping[str, Any]:
        cancelled = _moved(world.time, TransferState.QUEUED, TransferState.CANCELLED, taken)
        runtime.store.commit(cancelled, "somebody else")
        return {}

    reads = (*step("stage").reads, ProcessFields((), cancel))

    phases = always(Phase(actor="first", decide=prepare), Phase(actor="second", decide=look))
    take(replace(step("stage"), reads=reads, phases=phases), house.runtime, house.runtime.begin(100))
    assert seen == {held: TransferState.PREPARING, taken: TransferState.QUEUED}


def test_replicas_that_rest_on_moves_are_foreseen(house: House) -> None:
    id_ = _queued(house)
    world = world_of(house.store, "stage", house.now, 1, limit=100)
    made = Replica(file=world.transfers[0].file, storage="south-disk")
    move = Move(
        kind="transfer",
        ids=(id_,),
        source=TransferState.QUEUED,
        target=TransferState.DONE,
        cause="test",
        creates={id_: (made,)},
    )
    other = Move(kind="job", ids=(7,), source=JobState.HOLDING, target=JobState.FINISHED, cause="test")
    decision = Decision(step="stage", time=world.time, seed=1, changes=(move, other))
    assert made in projected(world, decision).replicas
