"""Storms of faults in virtual time: whatever strikes in a week, each job ends once."""

import random
from collections import Counter

import pytest

from pilotage.model.records.states import JobState
from pilotage.simulation.payloads import SimulatedTask
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


def faults_of(seed: int) -> list[str]:
    """Let a storm pass over nine tasks, and return all that is wrong."""
    week, drawn, waiting = storm(seed), random.Random(seed), tasks(9)
    found: list[str] = []

    def pass_by() -> bool:
        pilots = [pilot for site in week._sites.values() for pilot in site.pilots.values()]
        running = Counter(job for pilot in pilots for job, _ in pilot.running())
        found.extend(f"job {job} runs at {count} places" for job, count in running.items() if count > 1)
        for owner, spec in waiting[:1]:
            work = tuple(drawn.expovariate(1 / 18000) for _ in range(spec.planned_jobs))
            assert not week.submit(SimulatedTask(spec=spec, owner=owner, work=work)).refused
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
@pytest.mark.parametrize("seed", range(1, 11))
def test_storms(seed: int) -> None:
    assert faults_of(seed) == []
