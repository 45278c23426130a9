"""Results that a pilot left in its site's spool are taken once, or refused, and the job waits for them."""

import base64
import hashlib
from collections.abc import Collection
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from zlib import adler32

import pytest
from sqlalchemy import text

from pilotage.agent.files.leaving import leave
from pilotage.agent.files.spool_wire import MANIFEST, CourierOrder
from pilotage.agent.logs import read_streams
from pilotage.agent.wire import AttemptLogs, FileRequest, Output, Report
from pilotage.flow.calls.pilots import couriers, pilot_files
from pilotage.flow.calls.pilots.enrol import enrol
from pilotage.flow.calls.work import stuck
from pilotage.flow.task_cancellation import cancel
from pilotage.model.records.logs import LogKey
from pilotage.model.records.states import JobState, PilotState
from pilotage.model.records.work import PilotKind
from pilotage.model.values.identity import Identity
from pilotage.ports.computing import LeftBehind, PilotStatus
from pilotage.server.api.work import logs
from pilotage.server.api.work.tasks import whole
from pilotage.store import Store
from pilotage.testing import ALICE
from pilotage.testing.stores import move, moved, new_pilot

from .house import FakeElement, House

DAYS = 14


@dataclass
class Site(FakeElement):
    """A batch system whose pilots leave results in a folder."""

    spool: Path
    dropped: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def end(self, *places: str) -> None:
        """Let all pilots have ended, and have left this."""
        told = [
            LeftBehind(place=one, manifest=(self.spool / one / MANIFEST).read_text(), days=DAYS)
            for one in places
        ]
        self.status = PilotStatus(state="ended", reason="TIMEOUT", results=tuple(told))

    def read_left(self, place: str, number: int, start: int, size: int) -> str:
        """See the port."""
        return base64.b64encode(
            (self.spool / place / str(number)).read_bytes()[start : start + size]
        ).decode()

    def drop_left(self, places: Collection[str]) -> None:
        """See the port."""
        self.dropped += places


class Away(House):
    """A house with a job at a pilot that could not reach it, and that left the job's results."""

    def start(self, spool: Path) -> None:
        """Let the payload run."""
        self.site = self.element = Site(spool)
        self.id = self.task(command=("write",), outputs=("out", "log"))
        self.take("broker")
        self.now += 1000
        self.take("provision")
        self.take("provision")
        self.pilot_id = self.site.orders[0].pilot
        own = enrol(self.runtime, self.pilot_id, self.site.orders[0].token, "n" * 40).token
        self.token_hash = hashlib.sha256(own.encode()).hexdigest()
        ((self.order,),) = [work.jobs for work in self.match(self.pilot_id).works]
        self.pair = (self.order.job, self.order.attempt)
        self.report(self.pilot_id, "running", [self.pair])

    def leave(self, token_hash: str = "", pair: tuple[int, int] | None = None) -> str:
        """Leave one output in the spool, and one at the storage, as an agent does."""
        job, attempt = pair or self.pair
        scratch = self.place / "north" / self.order.scratch
        for folder, name in ((self.site.spool / "work", "out"), (scratch, "log")):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("made")
        stored = Output("log", 4, f"adler32:{adler32(b'made'):08x}")
        report = Report(job, attempt, "done", wall_seconds=5, outputs=(stored,))
        (self.site.spool / "stdout").write_text("half way\n")
        (stdout,) = read_streams(self.site.spool)
        sent = AttemptLogs(job, attempt, (stdout,), ((1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 0.0),))
        arguments = report, sent, self.site.spool / "work", ("out",)
        leave(self.site.spool / "left", 1, token_hash or self.token_hash, *arguments)
        return f"left/{job}.{attempt}"

    def night(self, seconds: float = 2 * 86400) -> None:
        """Let time pass; then the batch system says what happened."""
        self.now += seconds
        self.take("provision")
        self.take("provision")
        self.take("watch")

    @property
    def job(self) -> tuple[JobState, int]:
        """State and attempt of the job."""
        found = self.store.queries.job(self.pair[0])
        assert found
        return found.state, found.attempt


@pytest.fixture
def house(store: Store, tmp_path: Path) -> Away:
    made = Away(store, tmp_path)
    made.start(tmp_path / "spool")
    return made


def test_results_of_an_ended_pilot_are_those_of_its_attempt(house: Away) -> None:
    place = house.leave()
    house.site.end(place)
    house.night()
    house.take("watch")
    assert house.store.queries.pilot(house.pilot_id).state is PilotState.FAILED  # type: ignore[union-attr]
    assert house.job == (JobState.HOLDING, 1)
    assert (house.place / "north" / house.order.scratch / "out").read_text() == "made"
    assert house.site.dropped == [place]
    key = LogKey(kind="job", record=house.pair[0], attempt=1)
    kept = logs.kept_logs(house.store, key, {}, runs=False)
    assert [part.text for log in kept.logs for part in log.parts] == ["half way\n"]
    assert len(kept.points) == 1
    assert house.store.results_in_spools.everything() == ()


@pytest.mark.parametrize("forged", ["seal", "text", "file", "job", "noise", "depth"])
def test_what_the_pilot_did_not_leave_is_refused(house: Away, forged: str) -> None:
    place = house.leave(
        token_hash="f" * 64 if forged == "seal" else "", pair=(99, 1) if forged == "job" else None
    )
    if forged == "text":
        manifest = house.site.spool / place / MANIFEST
        manifest.write_text(manifest.read_text().replace('"wall_seconds":5', '"wall_seconds":6'))
    if forged in ("noise", "depth"):
        (house.site.spool / place / MANIFEST).write_text("ä\n" + "[" * 100_000 * (forged == "depth"))
    if forged == "file":
        (house.site.spool / place / "0").write_text("fake")
    house.site.end(place)
    house.night()
    house.take("watch")
    assert house.job == (JobState.DEFINED, 2), "its pilot was silent for two days"
    assert not (house.place / "north" / house.order.scratch / "out").exists()
    assert house.store.results_in_spools.everything() == ()


class Courier:
    """Another pilot of the queue, which found what the first one left."""

    def __init__(self, house: Away, kind: PilotKind = "generic", owner: Identity = ALICE) -> None:
        self.house = house
        self.id = new_pilot(house.store, queue="north-queue", kind=kind, owner=owner)
        moved(house.store, move("pilot", [self.id], PilotState.CREATED, PilotState.RUNNING), time=house.now)

    def asks(self, place: str) -> CourierOrder:
        """What the server asks it to do."""
        manifest = (self.house.site.spool / place / MANIFEST).read_text()
        return couriers.take(
            self.house.runtime, self.id, LeftBehind(place=place, manifest=manifest, days=DAYS)
        )

    def stores(self) -> None:
        """Store the output through the server, and say so."""
        wanted = FileRequest(*self.house.pair, "out", size=4)
        pilot_files.store(self.house.runtime, self.id, wanted, BytesIO(b"made"))
        assert couriers.delivered(self.house.runtime, self.id, *self.house.pair)


def test_another_pilot_of_the_queue_delivers_them(house: Away) -> None:
    place = house.leave()
    courier, late = Courier(house), Courier(house)
    told = courier.asks(place)
    assert told.order
    assert told.order.scratch == house.order.scratch
    assert late.asks(place) == CourierOrder(), "the first one delivers them"
    assert courier.asks(place) == told, "its answer was lost"
    with pytest.raises(pilot_files.NotTheirs):
        late.stores()
    # The batch system says that their pilot has ended: the job waits for them.
    house.site.end(place)
    house.night(600)
    assert house.job == (JobState.RUNNING, 1)
    courier.stores()
    assert house.job == (JobState.HOLDING, 1)
    assert (house.place / "north" / house.order.scratch / "out").read_text() == "made"
    assert courier.asks(place) == CourierOrder(unwanted=True)
    assert house.store.results_in_spools.everything() == ()


def test_a_server_takes_what_a_lost_pilot_was_to_deliver(house: Away) -> None:
    place = house.leave()
    assert Courier(house).asks(place).order
    house.site.end(place)
    house.now += 3601
    house.night()
    assert house.job == (JobState.HOLDING, 1)


@pytest.mark.parametrize("other", ["owner", "seal", "text", "queue", "noise"])
def test_no_pilot_delivers_what_it_may_not_run_or_what_nobody_left(house: Away, other: str) -> None:
    place = house.leave(token_hash="f" * 64 if other == "seal" else "")
    courier = Courier(house)
    if other == "owner":
        courier = Courier(house, "private", Identity(name="bob"))
    if other == "queue":
        house.store.database.write(
            lambda connection: connection.execute(text("UPDATE pilots SET queue = 'x' WHERE id = 1")) and None
        )
    manifest = house.site.spool / place / MANIFEST
    if other in ("text", "noise"):
        forged = manifest.read_text().replace('"wall_seconds":5', '"wall_seconds":6')
        manifest.write_text(forged if other == "text" else "x")
    assert courier.asks(place) == CourierOrder()
    assert house.store.results_in_spools.everything() == ()
    assert not couriers.delivered(house.runtime, courier.id, *house.pair)
    house.now += 86400
    house.take("watch")
    if other != "noise":
        assert Courier(house).asks(place) == CourierOrder(unwanted=True)
    assert house.job == (JobState.DEFINED, 2)


@pytest.mark.parametrize("gone", ["cancelled", "next attempt"])
def test_results_that_nobody_wants_any_more_are_removed(house: Away, gone: str) -> None:
    place = house.leave()
    if gone == "cancelled":
        cancel(house.runtime, house.id, "enough", "alice")
    else:
        house.now += 86400
        house.take("watch")
    state = house.job
    house.site.end(place)
    house.night()
    assert house.job[1] == state[1]
    assert not (house.place / "north" / house.order.scratch / "out").exists()
    assert house.store.results_in_spools.everything() == ()


def test_a_job_waits_while_its_results_cannot_be_taken_and_everybody_sees_it(
    house: Away, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = house.leave()
    house.site.end(place)
    with monkeypatch.context() as patched:
        patched.setattr(
            house.site, "read_left", lambda *_: (_ for _ in ()).throw(OSError("no route to host"))
        )
        house.night()
        house.now += 5 * 86400
        house.take("watch")
    assert house.job == (JobState.RUNNING, 1)
    task = house.store.queries.task(house.id)
    assert task
    (fault,) = [one for one in whole(house.runtime, task).remarks if one.kind == "fault"]
    told = fault.text
    assert told.startswith("results of 1 job (4e-06 MB) wait in the spool of queue north-queue, where ")
    assert told.endswith("no route to host")
    assert "seen for 5 d" in told
    (found,) = [one for one in stuck.everything(house.runtime) if one.kind == "results"]
    assert (found.place, found.count) == ("north-queue", 1)
    assert "no route to host" in found.remark.text
    house.now += 120
    house.take("watch")
    assert house.job == (JobState.HOLDING, 1)


def test_a_job_does_not_wait_longer_than_its_spool_keeps_results(
    house: Away, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.site.end(house.leave())
    monkeypatch.setattr(
        house.site, "read_left", lambda *_: (_ for _ in ()).throw(OSError("no route to host"))
    )
    house.night()
    house.now += DAYS * 86400
    house.take("watch")
    assert house.job == (JobState.DEFINED, 2)
    assert house.store.results_in_spools.everything() == ()
