"""What is said of a queue where nothing starts, and of a task's jobs there."""

from typing import Any

import pytest

from pilotage.explain import queues
from pilotage.model.documents.decision import Candidates, Choice, Refusal
from pilotage.model.records.federation import ComputingElement, Queue, Storage
from pilotage.model.records.states import JobState, PilotState
from pilotage.model.records.unified_queues import PilotLimit
from pilotage.model.rules.queue_condition import QueueCondition
from pilotage.testing import NOW

OURS = ComputingElement(kind="slurm", max_pilots=5)
STORAGE = Storage(name="disk", site="LAB", url="file:///lab", free=700, blacklisted=("write_wan",))


def seen(queue: dict[str, Any] | None = None, **values: Any) -> QueueCondition:
    attributes: dict[str, Any] = {"name": "lab", "site": "LAB", "storage": "disk", "computing_element": OURS}
    values.setdefault("pilot_limits", (PilotLimit(("lab",), OURS.max_pilots),))
    return QueueCondition(time=NOW, queue=Queue(**(attributes | (queue or {}))), storage=STORAGE, **values)


def test_a_queue_to_which_no_pilot_can_be_submitted_tells_the_last_error_and_who_can_mend_it() -> None:
    told = queues.trouble(seen(errors=("not submitted: invalid account\nmore", "other")))
    assert told == (
        "no pilot of lab has ever called home, and the last 2 failed: not submitted: invalid account; "
        "an operator can mend it"
    )


def test_a_missing_adapter_comes_first() -> None:
    told = queues.trouble(seen(errors=("refused",), problem="no adapter is called slurm"))
    assert "none can be submitted: no adapter is called slurm; an operator" in told


def test_a_queue_without_computing_element_gets_no_pilots() -> None:
    others = {"computing_element": None}
    assert "it has no computing_element" in queues.trouble(seen(others))
    gone = queues.trouble(seen(others, last_pilot=NOW - 4 * 3600))
    assert gone.startswith("no pilot of lab has called home for 4 h, ")
    assert queues.trouble(seen(others, last_pilot=NOW - 60)) == ""


@pytest.mark.parametrize("status", ["offline", "paused"])
def test_a_closed_queue_is_said_to_be_closed(status: str) -> None:
    assert f"lab is {status}" in queues.trouble(seen({"status": status}))


def test_pilots_that_wait_are_trouble_only_after_a_while() -> None:
    waiting = {PilotState.SUBMITTED: 2}
    assert queues.trouble(seen(pilots=waiting, waiting_since=NOW - 60)) == ""
    told = queues.trouble(seen(pilots=waiting, waiting_since=NOW - 1800))
    assert "2 pilots in its site's queue, the oldest for 30 min" in told


def test_where_a_pilot_runs_nothing_is_wrong() -> None:
    assert queues.trouble(seen(pilots={PilotState.RUNNING: 1}, errors=("refused",))) == ""


def test_a_long_error_leaves_room_for_who_can_mend_it() -> None:
    told = queues.trouble(seen(errors=("x" * 1000,)))
    assert len(told) < 300
    assert told.endswith("an operator can mend it")


def test_everything_about_a_queue() -> None:
    told = queues.of_queue(
        seen(
            {"max_memory": 4000, "max_walltime": 86400},
            jobs={JobState.ACTIVATED: 3, JobState.FINISHED: 9},
            errors=("refused 1", "refused 2"),
            tried_at=NOW + 240,
            last_start=NOW - 120,
        )
    )
    assert "  one pilot tests it in 4 min, if jobs wait by then" in told
    assert told[0] == "queue lab of site LAB: online"
    assert "  jobs: 3 activated" in told
    assert "  pilots: none, of at most 5 started from here by slurm" in told
    assert [line for line in told if "refused" in line] == ["    refused 2"], "alike errors once"
    assert any(line.endswith("2 min ago") for line in told)
    assert "  limits: 1 core, memory 4000 MB, no limit of work directory, walltime 24 h" in told
    assert told[-1] == "  storage disk: 700 GB free, declared, blacklisted: write_wan"


def test_a_tasks_jobs_there_are_told_with_every_refusal_or_the_place_among_the_candidates() -> None:
    refusals = (
        Refusal(
            rule="B15",
            name="memory",
            mend="user",
            queues=("a", "lab"),
            have=(1000, 2000),
            need=3000,
            unit="MB",
        ),
        Refusal(rule="B4", name="status", mend="operator", queues=("lab",), have=("test",), need="online"),
    )
    candidates = Candidates(queues=("b", "c"), weights=(2.0, 1.0), factors={"B32": (2.0, 1.0)}, room=(5, 0))
    choice = Choice(
        task=7,
        job_kind="normal",
        jobs=(1,),
        placed={"b": 1},
        considered=4,
        candidates=candidates,
        refusals=refusals,
    )
    assert queues.of_task("lab", [choice], rules=True) == [
        "task 7, normal jobs:",
        "  it cannot take them, for 2 reasons:",
        "  - memory (B15): need 3000 MB, best 2000; you: change memory",
        "  - status (B4): needs online, has test; operator",
    ]
    assert queues.of_task("c", [choice])[1:] == [
        "  it can take them, place 2 of 2: it got 0 jobs; full after earlier jobs of this pass",
        "  weight 1 = load 1",
    ]
