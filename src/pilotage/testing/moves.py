"""Apply the moves of a decision to job records, as the commit would."""

from collections.abc import Sequence

from pilotage.model.documents.decision import Decision, Move
from pilotage.model.records.states import JobState, is_allowed
from pilotage.model.records.work import Job


def follow(jobs: Sequence[Job], decision: Decision) -> dict[int, tuple[JobState, int]]:
    """Return the state and attempt of every job after a decision.

    Raises AssertionError at a move that the commit would refuse.
    """
    now = {job.id: (job.state, job.attempt) for job in jobs}
    for move in decision.moves:
        assert is_allowed(move.kind, move.source, move.target), move
        assert len(set(move.ids)) == len(move.ids), move
        if move.kind == "job":
            _follow(now, move)
    return now


def _follow(now: dict[int, tuple[JobState, int]], move: Move) -> None:
    assert move.attempts is not None, move
    for number, attempt in zip(move.ids, move.attempts, strict=True):
        assert now[number] == (move.source, attempt), move
        now[number] = (JobState(move.target), attempt + move.next_attempt)
