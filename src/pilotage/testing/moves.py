"""Apply a decision to job records, as the commit would."""

from collections.abc import Sequence

from pilotage.model.documents.decision import Decision, Move
from pilotage.model.records.matching import BorrowRequest, ClaimRequest
from pilotage.model.records.states import JobState, is_allowed
from pilotage.model.records.work import Job
from pilotage.model.rules.job_order import Heads


def follow(jobs: Sequence[Job], decision: Decision) -> dict[int, tuple[JobState, int]]:
    """Return the state and attempt of every job after a decision.

    Raises AssertionError for a move that the commit would refuse.
    """
    now = {job.id: (job.state, job.attempt) for job in jobs}
    for move in decision.moves:
        assert is_allowed(move.kind, move.source, move.target), move
        assert len(set(move.ids)) == len(move.ids), move
        if move.kind == "job":
            _follow(now, move)
    return now


def given_to(jobs: Sequence[Job], decision: Decision) -> dict[int, list[int]]:
    """Return the jobs that each pilot gets, by number, as the commit finds them.

    Raises AssertionError where a pilot asks for jobs that are not there, or of a job twice.
    """
    heads = Heads(jobs)
    numbers: dict[int, list[int]] = {}
    for request in decision.requests:
        if isinstance(request, ClaimRequest):
            ids = [job.id for job in heads.take(request)]
            assert len(ids) == sum(head.jobs for head in request.heads), request
        else:
            ids = _borrowed(jobs, request)
            heads.leave(job for job in jobs if job.id in ids)
        if ids:
            numbers.setdefault(request.pilot, []).extend(ids)
    every = [id_ for ids in numbers.values() for id_ in ids]
    assert len(every) == len(set(every)), every
    return numbers


def _borrowed(jobs: Sequence[Job], request: BorrowRequest) -> list[int]:
    states = {(job.id, job.attempt, job.queue, job.state) for job in jobs}
    offers = request.jobs[: request.most]
    for offer in offers:
        job = offer.borrowing
        assert (job.job, job.attempt, job.preferred, offer.state) in states, offer
    return [offer.borrowing.job for offer in offers]


def _follow(now: dict[int, tuple[JobState, int]], move: Move) -> None:
    assert move.attempts is not None, move
    for number, attempt in zip(move.ids, move.attempts, strict=True):
        assert now[number] == (move.source, attempt), move
        now[number] = (JobState(move.target), attempt + move.next_attempt)
