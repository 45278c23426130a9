"""A task that is cancelled takes along the downloads that only its jobs wait for (D2)."""

from collections import Counter

from pilotage.flow.calls.cancel import cancel
from pilotage.model.states import TransferState
from pilotage.model.work import InputFile

from .house import House

FILES = 300


def test_cancelling_a_task_cancels_what_nobody_else_waits_for_at_once(house: House) -> None:
    files = [InputFile(name=f"f{number}", size=4, replicas=("south-disk",)) for number in range(FILES)]
    mine = house.task(inputs=tuple(files), files_per_job=10)
    other = house.task(inputs=tuple(files[:5]))
    house.take("broker")
    assert house.store.transfer_queries.counts() == {TransferState.QUEUED: FILES}
    cancel(house.runtime, mine, "enough", "user:alice")
    assert states(house) == {TransferState.CANCELLED: FILES - 5, TransferState.QUEUED: 5}
    assert house.take("stage")
    cancel(house.runtime, other, "enough", "user:alice")
    left = states(house)
    assert left[TransferState.CANCELLED] >= FILES - 5
    assert not left[TransferState.QUEUED], "what has a slot goes on, and nothing else"


def states(house: House) -> Counter[str]:
    return Counter(house.store.transfer_queries.counts())
