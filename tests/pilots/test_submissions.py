"""What computing elements told of pilots, and what becomes of them."""

from typing import Any

import pytest

from pilotage.model.documents.decision import Move, Touch
from pilotage.model.records.observations import PilotSighting, PilotSubmission
from pilotage.model.records.servers import Absence
from pilotage.model.records.states import PilotState as P
from pilotage.policies.pilots.submissions import observed
from pilotage.testing import NOW, pilot, world


def moves(**told: Any) -> list[tuple[tuple[int, ...], P, P, str]]:
    """Ids, source, target and error of each move."""
    decision = observed(world(**told))
    return [
        (move.ids, P(move.source), P(move.target), str(move.changes.get("error", "")))
        for move in decision.moves
    ]


def created(*ids: int) -> tuple[Any, ...]:
    return tuple(pilot(id_, P.CREATED, reference="", heartbeat=None) for id_ in ids)


def test_submitted_pilots_become_so_with_their_reference() -> None:
    told = tuple(PilotSubmission(pilot=id_, reference=f"batch-{id_}") for id_ in (2, 1))
    decision = observed(world(pilots=created(1, 2, 3), submissions=told))
    (move,) = decision.moves
    assert (move.ids, move.source, move.target) == ((1, 2), P.CREATED, P.SUBMITTED)
    references = {change.ids: change.changes for change in decision.changes if isinstance(change, Touch)}
    assert references == {(1,): {"reference": "batch-1"}, (2,): {"reference": "batch-2"}}
    assert isinstance(decision.changes[0], Move), "a touch finds the pilot wherever it is by then"


def test_of_a_pilot_that_called_home_first_only_the_reference_is_news() -> None:
    told = (PilotSubmission(pilot=1, reference="batch-1"),)
    decision = observed(world(pilots=(pilot(1, reference=""),), submissions=told))
    assert decision.changes == (Touch(kind="pilot", ids=(1,), changes={"reference": "batch-1"}),)


def test_refused_pilots_fail_with_the_error_alike_ones_together() -> None:
    told = tuple(
        PilotSubmission(pilot=id_, error=error) for id_, error in ((1, "full"), (2, "x"), (3, "full"))
    )
    assert moves(pilots=created(1, 2, 3), submissions=told) == [
        ((1, 3), P.CREATED, P.FAILED, "not submitted: full"),
        ((2,), P.CREATED, P.FAILED, "not submitted: x"),
    ]
    assert moves(pilots=(pilot(1),), submissions=told) == [], "it called home: the refusal was wrong"


def test_pilots_that_ended_at_their_site_fail_and_say_how() -> None:
    state = P.SUBMITTED
    told = (
        PilotSighting(pilot=1, state="ended"),
        PilotSighting(pilot=2, state="ended", reason="NODE_FAIL", exit_code=137, end_doubt=600),
        PilotSighting(pilot=3, state="running"),
        PilotSighting(pilot=4, state="waiting"),
    )
    assert moves(pilots=tuple(pilot(id_, state) for id_ in (1, 2, 3, 4)), sightings=told) == [
        ((1,), state, P.FAILED, "its batch job ended without a report"),
        ((2,), state, P.FAILED, "its batch job ended without a report: NODE_FAIL (exit code 137)"),
    ]
    assert observed(world(pilots=(pilot(1, state),), sightings=told[:1])).moves[0].changes["ended"] == NOW


@pytest.mark.parametrize(("doubt", "wait"), [(0, 150), (600, 600)])
def test_a_running_pilot_outlives_a_batch_job_that_it_did_not_enrol_from(doubt: float, wait: float) -> None:
    """It fails once it has been silent since the end for as long as that is doubted: the job was its own."""
    told = (PilotSighting(pilot=1, state="ended", reason="FAILED", exit_code=9, end_doubt=doubt),)
    why = "its batch job ended without a report: FAILED (exit code 9)"
    (noted,) = observed(world(pilots=(pilot(1),), sightings=told)).changes
    changes: dict[str, Any] = {"ended_there_since": NOW, "end_doubt": wait, "error": why}
    assert noted == Touch(kind="pilot", ids=(1,), changes=changes)

    def after(seconds: float, heard: float) -> tuple[Any, ...]:
        since = NOW - seconds
        ended = pilot(1, ended_there_since=since, heartbeat=since + heard, error=why, end_doubt=wait)
        return observed(world(pilots=(ended,), sightings=told)).changes

    assert after(wait - 1, heard=1) == ()
    (failed,) = after(wait, heard=1)
    assert isinstance(failed, Move)
    assert (failed.target, failed.changes) == (P.FAILED, {"error": why, "ended": NOW})
    (forgotten,) = after(wait, heard=60)
    changes = {"ended_there_since": None, "reference": "", "error": ""}
    assert forgotten == Touch(kind="pilot", ids=(1,), changes=changes), "nobody asks about that job again"
    away = (Absence(began=NOW - 100, ended=NOW - 5),)
    ended = pilot(1, ended_there_since=NOW - 50 - wait, heartbeat=NOW - 51 - wait, error=why, end_doubt=wait)
    assert observed(world(pilots=(ended,), absences=away)).changes == (), "no server heard it"


def test_pilots_that_their_batch_system_forgot_fail_after_a_while_unless_they_called() -> None:
    said = "slurm does not list it"
    told = tuple(
        PilotSighting(pilot=id_, state="unknown", reason=said, missing=missing)
        for id_, missing in ((1, True), (2, True), (3, True), (4, False), (5, True))
    )
    since = {1: 600, 2: 599, 4: 600}
    there = (
        *(pilot(id_, P.SUBMITTED, missing_since=NOW - ago) for id_, ago in since.items()),
        pilot(3, missing_since=NOW - 600),
        pilot(5, P.SUBMITTED),
    )
    assert moves(pilots=there, sightings=told) == [
        ((1,), P.SUBMITTED, P.FAILED, f"lost by its batch system: {said}")
    ]
    touched = observed(world(pilots=there, sightings=told)).changes
    noted = {
        one.ids: one.changes["missing_since"]
        for one in touched
        if isinstance(one, Touch) and "missing_since" in one.changes
    }
    assert noted == {(5,): NOW}
    again = observed(world(pilots=there, sightings=(PilotSighting(pilot=2, state="waiting"),))).changes
    assert {one.ids: one.changes for one in again if isinstance(one, Touch)} == {
        (2,): {"missing_since": None}
    }


def test_what_is_told_of_pilots_that_are_over_or_unknown_changes_nothing() -> None:
    told = (PilotSighting(pilot=1, state="ended"), PilotSighting(pilot=9, state="ended"))
    assert moves(pilots=(pilot(1, P.FINISHED),), sightings=told) == []
    late = (PilotSubmission(pilot=9, reference="batch-9"), PilotSubmission(pilot=9, error="x"))
    assert observed(world(submissions=late)).changes == ()
