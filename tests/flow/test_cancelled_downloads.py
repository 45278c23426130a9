"""A task that is cancelled takes along the downloads that only its jobs wait for (D2)."""

from collections import Counter

from pilotage.flow.task_cancellation import cancel
from pilotage.model.documents.world import Report
from pilotage.model.records.states import JobState, TransferState
from pilotage.model.records.work import InputFile

from .house import House, attempts

FILES = 300


def test_cancelling_a_task_cancels_what_nobody_else_waits_for_at_once(house: House) -> None:
    files = [InputFile(name=f"f{number}", size=4, replicas=("south-disk",)) for number in range(FILES)]
    mine = house.task(inputs=tuple(files), files_per_job=10)
    other = house.task(inputs=tuple(files[:5]))
    house.take("broker")
    assert states(house) == {TransferState.QUEUED: FILES}
    cancel(house.runtime, mine, "enough", "user:alice")
    assert states(house) == {TransferState.CANCELLED: FILES - 5, TransferState.QUEUED: 5}
    assert house.take("stage")
    cancel(house.runtime, other, "enough", "user:alice")
    left = states(house)
    assert left[TransferState.CANCELLED] >= FILES - 5
    assert not left[TransferState.QUEUED], "what has a slot goes on, and nothing else"


def states(house: House) -> Counter[str]:
    return sum(map(Counter, house.store.transfer_queries.counts_by_share().values()), Counter())


def test_f3_a_task_that_is_stopped_takes_its_downloads_along(house: House) -> None:
    here = [InputFile(name=f"here{number}", size=4, replicas=("north-disk",)) for number in range(10)]
    far = [InputFile(name=f"far{number}", size=4, replicas=("south-disk",)) for number in range(30)]
    hopeless = house.task(inputs=(*here, *far), files_per_job=1)
    house.task(inputs=tuple(far[:5]))
    house.take("broker")
    assert states(house) == {TransferState.QUEUED: 30}
    pilot = house.pilot()
    for job, attempt in attempts(house.match(pilot)):
        told = Report(job=job, attempt=attempt, state="failed", error="KeyError", exit_code=1)
        house.tell(pilot, told)
    assert house.take("stop")
    assert set(house.states(hopeless)) == {JobState.CLOSED}
    assert states(house) == {TransferState.CANCELLED: 25, TransferState.QUEUED: 5}
