"""Decisions about many records are committed part by part."""

from pilotage.model.documents.decision import Decision, Move
from pilotage.model.documents.decision_parts import parts
from pilotage.model.documents.moves import no_live_job
from pilotage.model.records.states import JobState, TaskState
from pilotage.testing import NOW


def closing(jobs: range) -> Move:
    return Move(
        kind="job",
        ids=tuple(jobs),
        attempts=tuple(job + 1000 for job in jobs),
        own_changes={job: {"exit_code": job} for job in jobs},
        source=JobState.DEFINED,
        target=JobState.CLOSED,
        cause="why",
    )


FAILING = Move(
    kind="task",
    ids=(1,),
    source=TaskState.RUNNING,
    target=TaskState.FAILED,
    cause="why",
    claims=(no_live_job(1),),
)


def decided(*moves: Move) -> Decision:
    return Decision(step="stop", time=NOW, seed=1, changes=moves)


def test_a_decision_about_few_records_is_one_part() -> None:
    whole = decided(closing(range(10)), FAILING)
    assert list(parts(whole, size=11)) == [whole]
    assert list(parts(decided())) == [decided()]


def test_a_task_ends_in_the_part_of_its_last_jobs() -> None:
    for jobs in (19, 20, 21):
        found = list(parts(decided(closing(range(jobs)), FAILING), size=10))
        assert [sum(len(move.ids) for move in part.moves if move.kind == "job") for part in found] == [
            10,
            *([10, jobs - 20] if jobs > 20 else [jobs - 10]),
        ]
        assert [FAILING in part.moves for part in found] == [False] * (len(found) - 1) + [True]


def test_the_records_their_order_and_their_attempts_are_those_of_the_whole() -> None:
    whole = decided(closing(range(7)), closing(range(50, 73)), FAILING)
    assert [sum(len(move.ids) for move in part.moves) for part in parts(whole, size=10)] == [10, 10, 11]
    moves = [move for part in parts(whole, size=10) for move in part.moves if move.kind == "job"]
    assert [id_ for move in moves for id_ in move.ids] == [*range(7), *range(50, 73)]
    assert all(move.attempts == tuple(id_ + 1000 for id_ in move.ids) for move in moves)
    assert all(move.own_changes == {id_: {"exit_code": id_} for id_ in move.ids} for move in moves)
