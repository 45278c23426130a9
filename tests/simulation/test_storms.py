"""Storms of faults in virtual time: whatever strikes in a week, each job ends once and runs at one place."""

import random
from collections import Counter

import pytest

from pilotage.model.records.states import JobState
from pilotage.simulation.payloads import SimulatedTask
from pilotage.simulation.pilots import VirtualPilot
from pilotage.simulation.reading import virtual
from pilotage.simulation.scenario import LinkBehaviour, Scenario, SiteBehaviour, Spell, StorageBehaviour
from pilotage.simulation.simulation import Simulation

from .test_week import DAY, HOUR, NAMES, federation, rows, states, tasks, unended

WEEK = 7 * DAY


def spells(drawn: random.Random, most: int, longest: float) -> tuple[Spell, ...]:
    """Up to so many periods of the first five days."""
    begins = [drawn.uniform(0, 5 * DAY) for _ in range(drawn.randint(0, most))]
    return tuple(Spell(begins=begin, ends=begin + drawn.uniform(60, longest)) for begin in begins)


def storm(seed: int) -> Simulation:
    """A simulation whose faults follow from its seed."""
    drawn = random.Random(f"storm {seed}")
    sites = {
        name: SiteBehaviour(
            payload_fails=drawn.choice((0, 0.05)),
            never_calls=drawn.choice((0, 0.05)),
            answer_lost=drawn.choice((0, 0.03)),
            black_holes=drawn.choice((0, 0, 1)),
            outages=spells(drawn, 2, 6 * HOUR),
            cuts=spells(drawn, 4, 5 * HOUR),
        )
        for name in NAMES
    }
    scenario = Scenario(
        name="storm",
        federation="",
        period=900,
        heartbeat=1800,
        sites=sites,
        links=LinkBehaviour(transfer_fails=drawn.choice((0, 0.1))),
        storages={f"{name}-disk": StorageBehaviour(outages=spells(drawn, 2, 3 * HOUR)) for name in NAMES},
    )
    return Simulation(virtual(federation(), scenario), scenario, seed)


def faults_of(week: Simulation, numbers: slice = slice(0, 9), work: float = 18_000) -> list[str]:
    """Let a simulation pass with some tasks, jobs of so many HS23 s, and return all that is wrong."""
    drawn, waiting = random.Random(7), tasks(numbers.stop)[numbers]
    found: list[str] = []

    def pass_by() -> bool:
        pilots = [pilot for site in week._sites.values() for pilot in site.pilots.values()]
        running = Counter(job for pilot in pilots for job, _ in pilot.running())
        found.extend(f"job {job} runs at {count} places" for job, count in running.items() if count > 1)
        for owner, spec in waiting[:1]:
            lengths = tuple(drawn.expovariate(1 / work) for _ in range(spec.planned_jobs))
            assert not week.submit(SimulatedTask(spec=spec, owner=owner, work=lengths)).refused
        del waiting[:1]
        return not waiting and not unended(week)

    week.run(3 * WEEK, until=pass_by)
    found += _left(week)
    week.close()
    return found


def _left(week: Simulation) -> list[str]:
    found = [f"{unended(week)} tasks have not ended"] if unended(week) else []
    if odd := set(states(week, "jobs")) - {"finished", "failed", "closed"}:
        found.append(f"jobs are {sorted(odd)}")
    for (job,) in rows(week, "SELECT id FROM jobs"):
        ends = [event for event in week.store.queries.events("job", job) if event.target == JobState.FINISHED]
        found += [f"job {job} finished {len(ends)} times"] if len(ends) > 1 else []
    return found


@pytest.mark.endurance
@pytest.mark.slow
def test_a_site_that_is_cut_off_ends_its_payloads_before_others_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def faults() -> list[str]:
        cuts = (Spell(begins=0.5 * HOUR, ends=6 * HOUR),)
        sites = {name: SiteBehaviour(wait=60, cuts=cuts) for name in ("north", "east")}
        scenario = Scenario(name="cut", federation="", period=900, heartbeat=1800, sites=sites)
        # The second task has no scouts, which stay at the nucleus.
        return faults_of(Simulation(virtual(federation(), scenario), scenario, 1), slice(1, 2), 300_000)

    assert faults() == []
    monkeypatch.setattr(VirtualPilot, "_stop", lambda *_: None)
    assert [fault for fault in faults() if "runs at 2 places" in fault], "it can fail"


@pytest.mark.endurance
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 11))
def test_storms(seed: int) -> None:
    assert faults_of(storm(seed)) == []
