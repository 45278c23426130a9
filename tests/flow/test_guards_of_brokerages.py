"""What holds for every brokerage: sites' limits and requirements, status, VOs and circuit breakers (M8)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from pilotage.explain.analysis import explain
from pilotage.explain.rendering import lines
from pilotage.model.documents.decision import Candidates, Choice, Decision, Move
from pilotage.model.documents.world import World
from pilotage.model.records.federation import Federation, Site
from pilotage.model.records.states import JobState
from pilotage.policies import brokerage
from pilotage.policies.brokerage.contract import violations
from pilotage.testing import federation, jobs, jobs_at, queue, task, world

from .house import House
from .test_matchmaking import end_jobs, federate, states

HIGH, LOW = 700, 1


def by_task(house: House, number: int) -> list[tuple[str, str]]:
    (choice, *_) = house.store.queries.task_choices(number)
    return [(one.rule, one.name) for one in choice.refusals]


def test_m8_no_plugin_takes_a_place_between_cycles_that_a_job_of_higher_priority_waits_for(
    house: House,
) -> None:
    federate(house, max_jobs=2)
    house.take("advertise")
    house.task(jobs=2)
    house.take("broker")
    waiting = house.task(jobs=1, priority=HIGH)
    house.take("broker")
    assert states(house, waiting) == [JobState.PENDING]
    end_jobs(house, 2)
    production = house.task(jobs=3, priority=LOW, brokerage="production")
    house.take("broker")
    house.take("broker")
    assert sorted(map(str, states(house, production))) == ["activated", "pending", "pending"]
    house.task(jobs=1, priority=LOW, brokerage="production")
    house.take("lift")
    assert ("M8", "site's places before the next cycle") in by_task(house, production)
    urgent = house.task(jobs=1, priority=HIGH + 1, brokerage="production")
    house.take("broker")
    assert states(house, urgent) == [JobState.ACTIVATED], "a higher priority waits for no cycle"


def test_m8_the_place_is_taken_in_the_next_cycle(house: House) -> None:
    federate(house, max_jobs=1)
    house.take("advertise")
    house.task(jobs=1)
    house.take("broker")
    waiting = house.task(jobs=1, priority=HIGH)
    house.take("broker")
    end_jobs(house, 1)
    production = house.task(jobs=1, priority=LOW, brokerage="production")
    house.take("broker")
    house.now += 300
    for name in ("advertise", "watch", "broker", "lift", "broker"):
        house.take(name)
    assert states(house, waiting) == [JobState.ACTIVATED]
    assert states(house, production) == [JobState.PENDING]


@pytest.mark.parametrize(
    ("requirements", "placed"), [("TARGET.RequestMemory <= 1000", 0), ("CurMatches < 3", 3)]
)
def test_m8_a_sites_own_requirements_hold_for_the_production_brokerage(
    house: House, requirements: str, placed: int
) -> None:
    federate(house, requirements=requirements)
    house.take("advertise")
    refused = house.task(jobs=8, ram=2000, brokerage="production")
    for _ in range(3):
        house.take("broker")
    assert house.states(refused).get(JobState.ACTIVATED, 0) == placed
    assert by_task(house, refused)[-1] == ("M8", "site's requirements")
    if not placed:
        fitting = house.task(jobs=2, ram=500, brokerage="production")
        house.take("broker")
        assert states(house, fitting) == [JobState.ACTIVATED] * 2


class Careless:
    """Sends every job to the queue of its options, whatever holds there."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.queue = options["queue"]

    def decide(self, world: World) -> Decision:
        names = sorted(one.name for one in world.federation.queues)
        moves: list[Move] = []
        choices: list[Choice] = []
        for asked in sorted(world.tasks, key=lambda one: one.id):
            ids = tuple(sorted(job.id for job in world.jobs if job.task == asked.id))
            move = Move(
                kind="job",
                ids=ids,
                source=JobState.DEFINED,
                target=JobState.ACTIVATED,
                cause="sent",
                changes={"queue": self.queue},
                choice=len(choices),
            )
            candidates = Candidates(queues=tuple(names), weights=(1.0,) * len(names))
            choices.append(
                Choice(
                    task=asked.id,
                    job_kind="normal",
                    jobs=ids,
                    placed={self.queue: len(ids)},
                    considered=len(names),
                    candidates=candidates,
                    refusals=(),
                )
            )
            moves.append(move)
        return Decision(
            step="broker", time=world.time, seed=world.seed, changes=tuple(moves), choices=tuple(choices)
        )


def _limited(house: Federation) -> Federation:
    return replace(house, sites=tuple(replace(site, max_jobs=2) for site in house.sites))


def _requiring(house: Federation) -> Federation:
    sites = (replace(site, requirements='TARGET.VO == "cms"') for site in house.sites)
    return replace(house, sites=tuple[Site, ...](sites))


PLACES: Mapping[str, tuple[dict[str, Any], Any]] = {
    "B4 status": ({"status": "offline"}, None),
    "B2 unified queue": ({"status": "online", "unified": True}, None),
    "F1 VO": ({"vos": ("cms",)}, None),
    "M8 site's throttle": ({}, _limited),
    "M8 site's requirements": ({}, _requiring),
}


@pytest.mark.parametrize("reason", PLACES)
def test_the_engine_stops_what_a_plugin_of_its_own_places_there_and_the_contract_finds_it(
    reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields, limit = PLACES[reason]
    if fields.pop("unified", False):
        queues = [queue("BAD"), queue("CHILD", parent="BAD"), queue("GOOD", site="AWAY")]
    else:
        queues = [queue("BAD", **fields), queue("GOOD", site="AWAY")]
    house = federation(queues)
    house = limit(house) if limit else house
    asked = task(1, brokerage="careless")
    state = world(house, asked, jobs=jobs(asked, 3), job_counts=jobs_at("BAD", running=2))
    plugin = Careless({"queue": "BAD"})
    told = violations(plugin, state)
    assert told
    assert all(f"is sent to BAD, where the server stops it: {reason} needs" in one for one in told)
    decision = _decided(state, plugin, monkeypatch)
    (move,) = decision.moves
    assert (move.target, move.ids) == (JobState.PENDING, tuple(job.id for job in state.jobs))
    (choice,) = decision.choices
    assert [f"{one.rule} {one.name}" for one in choice.refusals] == [reason]
    assert (choice.placed, choice.jobs) == ({}, move.ids)
    assert "BAD" not in choice.candidates.queues
    text = lines(explain(choice))
    assert "has its fill" not in text[0]
    assert "no queue" in text[0] or "the queue that their plugin chose refuses them" in text[0]
    assert reason.partition(" ")[2] in text[1]


def test_a_choice_of_jobs_that_a_guard_stops_in_part_is_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = task(1, brokerage="careless"), task(2, brokerage="careless", queues=("BAD",))
    house = federation([queue("BAD", status="offline"), queue("GOOD", site="AWAY")])
    state = world(house, tasks=[one, other], jobs=[*jobs(one, 2), *jobs(other, 2, first=3)])
    decision = _decided(state, Careless({"queue": "BAD"}), monkeypatch)
    assert [(move.target, move.ids) for move in decision.moves] == [
        (JobState.PENDING, (1, 2)),
        (JobState.ACTIVATED, (3, 4)),  # its task names the queue
    ]
    assert [choice.placed for choice in decision.choices] == [{}, {"BAD": 2}]


def _decided(state: World, plugin: Any, monkeypatch: pytest.MonkeyPatch) -> Decision:
    from pilotage.flow.brokerages import Brokerages
    from pilotage.flow.steps.broker import decide

    monkeypatch.setattr(brokerage, "load", lambda *_: plugin)
    return decide(state, "careless", Brokerages())
