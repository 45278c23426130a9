"""The accounts of random simulated work agree with what was decided and with the histories."""

from collections import defaultdict
from typing import Any

import pytest

from pilotage.model.documents.decision import Committed, Decision, Move
from pilotage.model.records.states import AT_A_PILOT, DONE_JOBS, JobState
from pilotage.simulation.scenario import Spell
from pilotage.store import Use, UseQuery
from tests.simulation.test_week import live, rows, simulation


class Witness:
    """What each attempt ran and whether it is lost, by the decisions, apart from the store."""

    def __init__(self) -> None:
        self.ran: defaultdict[int, list[float]] = defaultdict(list)
        self.core_seconds = self.cpu_seconds = self.lost_seconds = 0.0
        self._started: dict[int, float] = {}

    def note(self, decision: Decision, committed: Committed) -> None:
        """Note the moves of jobs."""
        for change, accepted in zip(decision.changes, committed.accepted, strict=True):
            if isinstance(change, Move) and change.kind == "job":
                for job in accepted:
                    self._move(job, change, decision.time)

    def _move(self, job: int, move: Move, time: float) -> None:
        values: dict[str, Any] = {**move.changes, **move.own_changes.get(job, {})}
        if move.target is JobState.RUNNING:
            self._started[job] = time
        if move.source in AT_A_PILOT and move.target not in AT_A_PILOT:
            seconds = values.get("wall_seconds")
            if seconds is None:
                seconds = time - self._started[job] if move.source is JobState.RUNNING else 0.0
            if seconds or move.source is JobState.RUNNING:
                self.ran[job].append(seconds)
                self.core_seconds += seconds
                self.cpu_seconds += values.get("cpu_seconds") or 0.0
                self.lost_seconds += seconds if move.target not in DONE_JOBS else 0.0
        if move.source in (JobState.HOLDING, JobState.TRANSFERRING) and move.target not in DONE_JOBS:
            self.lost_seconds += self.ran[job][-1]


@pytest.mark.endurance
@pytest.mark.slow
def test_nothing_is_counted_twice_or_lost_whatever_fails() -> None:
    week = simulation(
        seed=1,
        transfer_fails=0.1,
        payload_fails=0.1,
        never_calls=0.05,
        answer_lost=0.03,
        outages=(Spell(begins=3600.0, ends=4 * 3600.0),),
    )
    witness = Witness()
    week.store.listeners.append(witness.note)
    live(week, 12, 21)
    week.store.add_measurements()
    query = UseQuery(owner=None, since=0, until=1e11, by=("day", "person", "queue", "task", "cause"))
    usage = week.store.past.usage(query)
    jobs = rows(week, "SELECT job, count(*) FROM ended_attempts WHERE NOT is_loss GROUP BY job")
    for job, count in jobs:
        history = [str(event.source) for event in week.store.queries.events("job", job)]
        assert count == history.count("running") == len(witness.ran[job])
    assert dict(jobs).keys() == witness.ran.keys()
    assert usage.total.attempts == sum(map(len, witness.ran.values())) > 600
    assert usage.total.core_seconds == pytest.approx(witness.core_seconds)
    assert usage.total.cpu_seconds == pytest.approx(witness.cpu_seconds)
    assert usage.total.lost_seconds == pytest.approx(witness.lost_seconds)
    _agrees(usage.total, usage.rows)
    assert sum(loss.lost_seconds for loss in usage.lost) == pytest.approx(usage.total.lost_seconds)
    written = rows(week, "SELECT SUM(size) FROM files WHERE job IS NOT NULL")[0][0]
    assert usage.total.written_bytes >= written > 0
    assert usage.total.read_bytes == 1e9 * sum(
        len(witness.ran[job]) for (job,) in rows(week, "SELECT id FROM jobs WHERE kind <> 'merge'")
    ) + sum(_merged(week, job) * len(witness.ran[job]) for job in witness.ran)
    week.close()


def _agrees(total: Use, parts: tuple[Use, ...]) -> None:
    for name in ("attempts", "core_seconds", "hs23_seconds", "lost_seconds", "read_bytes", "written_bytes"):
        assert sum(getattr(part, name) for part in parts) == pytest.approx(getattr(total, name)), name


def _merged(week: Any, job: int) -> int:
    """Return the bytes that a merge job reads."""
    query = (
        "SELECT COALESCE(SUM(files.size), 0) FROM job_inputs JOIN files ON files.name = job_inputs.file"
        f" JOIN jobs ON jobs.id = job_inputs.job WHERE jobs.kind = 'merge' AND jobs.id = {job}"
    )
    return int(rows(week, query)[0][0])
