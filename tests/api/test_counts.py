"""Each number of jobs has one source: whatever shows it for a task shows the same."""

import re
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pilotage.model.documents.decision import Move
from pilotage.model.records.states import AT_A_PILOT, JobState

from .conftest import ALICE, House, copied, submit_to
from .test_explanations import brokered

S = JobState
WAYS: dict[JobState, tuple[JobState, ...]] = {
    S.ACTIVATED: (),
    S.RUNNING: (S.SENT, S.STARTING, S.RUNNING),
    S.FAILED: (S.SENT, S.RUNNING, S.FAILED),
    S.FINISHED: (S.SENT, S.RUNNING, S.HOLDING, S.TRANSFERRING, S.FINISHED),
    S.CANCELLED: (S.CANCELLED,),
    S.CLOSED: (S.CLOSED,),
}
"""The states through which a job comes into each of these, from activated on."""

ERROR = "payload exited with code 3\nOSError: no"


def bring(house: House, ids: list[int], state: JobState) -> None:
    at = S.ACTIVATED
    for target in WAYS[state] if ids else ():
        changes: dict[str, Any] = {"error": ERROR, "exit_code": 3} if state in (S.FAILED, S.CLOSED) else {}
        move = Move(kind="job", ids=tuple(ids), source=at, target=target, cause="test", changes=changes)
        house.commit(move)
        at = target


def numbers(lines: list[str], phrase: str) -> list[int]:
    return [int(found) for line in lines for found in re.findall(rf"(\d+) (?:{phrase})", line)]


@given(wanted=st.lists(st.sampled_from(sorted(WAYS)), min_size=1, max_size=8))
@settings(max_examples=15, deadline=None)
def test_every_place_that_counts_a_task_s_jobs_counts_the_same(
    template: Path, wanted: list[JobState]
) -> None:
    for house in copied(template):
        counts_agree(house, wanted)


def counts_agree(house: House, wanted: list[JobState]) -> None:
    alice = house.as_("user", ALICE)
    task = brokered(house, partial(submit_to, alice), jobs=len(wanted), scouts=0)
    jobs = alice.get(f"/tasks/{task}/jobs").json()["jobs"]
    for state in sorted(set(wanted)):
        bring(house, [job["id"] for job, goes in zip(jobs, wanted, strict=True) if goes is state], state)
    counted = {str(state): many for state, many in Counter(wanted).items()}
    view, explained = alice.get(f"/tasks/{task}").json(), alice.get(f"/tasks/{task}/explain").json()
    listed = alice.get("/tasks").json()["tasks"][0]
    assert view["jobs"] == listed["jobs"] == explained["task"]["jobs"] == counted
    found = alice.get(f"/tasks/{task}/jobs").json()["jobs"]
    assert Counter(job["state"] for job in found) == counted
    (queue,) = (one for one in alice.get("/queues").json()["queues"] if one["name"] == "north-queue")
    live = {state: many for state, many in queue["jobs"].items() if state in counted}
    assert live == {state: many for state, many in counted.items() if state in queue["jobs"]}
    assert sum(queue["jobs"].get(str(state), 0) for state in AT_A_PILOT) == counted.get("running", 0)
    lines = explained["lines"]
    if counted.get("failed"):
        assert sum(numbers(lines, "jobs? failed at|jobs? failed,")) == counted["failed"]
        assert sum(numbers(lines, "closed after a failed attempt")) == counted.get("closed", 0)
