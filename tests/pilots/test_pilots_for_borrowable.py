"""Pilots at other candidates of jobs that may leave (E4)."""

from dataclasses import replace
from typing import Any

import pytest

from pilotage.model.documents.decision import Create, Decision
from pilotage.model.documents.world import TaskQueue, World
from pilotage.model.records.borrowing import BorrowableLine, Candidacy
from pilotage.model.records.constants import BindingConstants
from pilotage.model.records.federation import DirectorConstants, Federation
from pilotage.model.records.states import PilotState
from pilotage.model.records.work import NewPilot, Pilot
from pilotage.policies.pilots import director
from pilotage.policies.pilots.pilots_for_borrowable import pilots_for_borrowable
from pilotage.testing import ALICE, NOW, federation, pilot, queue, requirements, world

WANTED = requirements(ALICE, cpu_time=3600)
OTHERS = ("A", "B")


def three(**parts: Any) -> Federation:
    queues = [queue(max_pilots=1000), queue("A", max_pilots=30), queue("B", max_pilots=10)]
    return federation(parts.pop("queues", queues), **parts)


def waits(name: str, age: float = 600, **parts: Any) -> Pilot:
    one = pilot(queue=name, state=PilotState.SUBMITTED, **parts)
    return replace(one, requirements=WANTED, created=NOW - age, since=NOW - age)


def lined(
    jobs: int, candidates: tuple[str, ...] = OTHERS, of: Federation | None = None, **parts: Any
) -> World:
    """A world in which elastic jobs wait at Q, and the candidates passed in their choice."""
    return world(
        of or three(),
        task_queues=parts.pop("task_queues", (line("Q", jobs),)),
        borrowable_lines=(BorrowableLine(choice=1, queue="Q", requirements=WANTED, jobs=jobs, priority=500),),
        candidacies=[Candidacy(choice=1, queue=name, binding="elastic") for name in ("Q", *candidates)],
        **parts,
    )


def line(name: str, jobs: int) -> TaskQueue:
    return TaskQueue(queue=name, requirements=WANTED, jobs=jobs, priority=500)


def asked(found: World) -> dict[str, int]:
    return {entry.queue: entry.jobs for entry in pilots_for_borrowable(found)}


def made(decision: Decision) -> list[NewPilot]:
    creates = (change for change in decision.changes if isinstance(change, Create))
    return [one for change in creates for one in change.records if isinstance(one, NewPilot)]


def test_e4_a_job_that_may_leave_is_worth_a_pilot_at_its_other_candidates_by_their_room() -> None:
    assert asked(lined(20)) == {"A": 15, "B": 5}


def test_e4_no_candidate_is_asked_for_more_than_it_has_room_for() -> None:
    assert asked(lined(200)) == {"A": 30, "B": 10}


def test_e4_nothing_is_asked_elsewhere_of_jobs_that_stay() -> None:
    assert asked(lined(20, candidates=())) == {}
    assert asked(world(three(), task_queues=(line("Q", 20),))) == {}
    assert asked(lined(20, of=three(binding=BindingConstants(pilots_elsewhere=0)))) == {}


@pytest.mark.parametrize("parts", [{"status": "paused"}, {"status": "offline"}, {"computing_element": None}])
def test_e4_queues_that_start_no_pilots_are_left_out(parts: dict[str, Any]) -> None:
    shut = replace(queue("B"), **parts)
    queues = [queue(), queue("A", max_pilots=30), shut]
    assert asked(lined(20, of=three(queues=queues))) == {"A": 20}


def test_e4_pilots_that_wait_elsewhere_already_count_for_all_candidates_together() -> None:
    there = [waits("A", id=number) for number in range(1, 21)]
    assert asked(lined(20, pilots=there)) == {"A": 20}
    found = director.provision(lined(20, pilots=there))
    assert {one.queue for one in made(found)} == {"Q"}


def test_e4_pilots_that_a_candidate_needs_itself_do_not_count() -> None:
    there = [waits("A", id=number) for number in range(1, 11)]
    found = asked(lined(10, pilots=there, task_queues=(line("Q", 10), line("A", 10))))
    assert sum(found.values()) == 10


def test_e4_a_candidate_where_pilots_wait_for_long_is_asked_for_fewer() -> None:
    queues = [queue(), queue("A", max_pilots=30), queue("B", max_pilots=30)]
    slow = replace(waits("A", age=3600, id=1), requirements="")
    found = asked(lined(10, of=three(queues=queues), pilots=[slow]))
    assert found["B"] > found.get("A", 0)


@pytest.mark.parametrize("policy", ["taskqueue", "balanced"])
def test_e4_the_director_makes_these_pilots_and_says_what_for(policy: Any) -> None:
    constants = DirectorConstants(policy=policy, pilots_per_iteration=1000, work_per_slot=1)
    decision = director.provision(lined(20, of=three(director=constants)))
    by_queue = {name: [one for one in made(decision) if one.queue == name] for name in ("Q", *OTHERS)}
    assert [len(by_queue[name]) for name in OTHERS] == [15, 5]
    assert len(by_queue["Q"]) >= 20
    assert by_queue["A"][0].reason.endswith("; 15 of the jobs wait at other queues")
    assert "other queues" not in by_queue["Q"][0].reason
    assert [note["elsewhere"] for note in decision.notes["task_queues"]] == [15, 5, 0]


def test_e4_throttles_of_sites_hold_for_these_pilots_as_for_all() -> None:
    queues = [queue(), queue("A", site="AWAY", max_pilots=30)]
    fed = three(queues=queues)
    sites = [replace(one, max_submitting_jobs=4) if one.name == "AWAY" else one for one in fed.sites]
    throttled = replace(fed, sites=tuple(sites))
    decision = director.provision(lined(20, candidates=("A",), of=throttled))
    assert len([one for one in made(decision) if one.queue == "A"]) <= 4
