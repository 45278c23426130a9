"""The seams hold: real steps live through virtual days, the same each time, and end every job once."""

import hashlib
import random
from collections import Counter
from typing import Any

import pytest
from sqlalchemy import text

from pilotage.model.documents.decision import Committed, Decision
from pilotage.model.documents.serialization import canonical_json
from pilotage.model.records.federation import (
    ComputingElement,
    DirectorConstants,
    Federation,
    Link,
    LoopConstants,
    Queue,
    Site,
    Storage,
    TimeoutConstants,
)
from pilotage.model.records.states import JobState
from pilotage.model.records.work import InputFile, MergeSpec, TaskSpec
from pilotage.model.values.identity import Identity
from pilotage.simulation.payloads import SimulatedTask
from pilotage.simulation.reading import virtual
from pilotage.simulation.scenario import LinkBehaviour, Scenario, SiteBehaviour, Spell
from pilotage.simulation.simulation import Simulation
from pilotage.store.records import RECORDS

HOUR, DAY = 3600.0, 86400.0
NAMES = ("north", "east", "south")
ALICE, BOB = Identity(name="alice", vo="ligo"), Identity(name="bob", vo="atlas")


def federation() -> Federation:
    """Three sites of twenty pilots each, all linked; north is the nucleus."""
    return Federation(
        name="virtual",
        sites=tuple(Site(name=name, nucleus=name == "north") for name in NAMES),
        storages=tuple(
            Storage(name=f"{name}-disk", site=name, url=f"virtual://{name}", free=5000) for name in NAMES
        ),
        queues=tuple(
            Queue(
                name=f"{name}-queue",
                site=name,
                storage=f"{name}-disk",
                max_walltime=2 * DAY,
                computing_element=ComputingElement(max_pilots=10, pilot_slots=8),
            )
            for name in NAMES
        ),
        links=tuple(
            Link(source=one, destination=other, closeness=3, throughput_1h=50)
            for one in NAMES
            for other in NAMES
            if one != other
        ),
        director=DirectorConstants(max_pilot_waiting_hours=2),
        timeouts=TimeoutConstants(heartbeat=2 * HOUR, activated=6 * HOUR),
        loops=LoopConstants(pilot_idle=300),
    )


def tasks(count: int) -> list[tuple[Identity, TaskSpec]]:
    """Tasks of fifty jobs with an input each at one site, every third of them merged."""
    merge = MergeSpec(command=("merge",), outputs=("all",))
    made = []
    for number in range(count):
        inputs = tuple(
            InputFile(name=f"data/{number}/{at}", size=10**9, replicas=(f"{NAMES[number % 3]}-disk",))
            for at in range(50)
        )
        spec: dict[str, Any] = {"merge": merge} if number % 3 == 0 else {}
        made.append(
            (
                (ALICE, BOB)[number % 2],
                TaskSpec(
                    name=f"task-{number}",
                    command=("run",),
                    inputs=inputs,
                    outputs=("out",),
                    nucleus="north",
                    scouts=5 if number % 4 == 0 else 0,
                    max_attempts=10,
                    walltime=12 * HOUR,
                    **spec,
                ),
            )
        )
    return made


class Record:
    """A digest of every decision that was committed."""

    def __init__(self, simulation: Simulation) -> None:
        self.decisions = hashlib.sha256()
        self.steps: Counter[str] = Counter()
        simulation.store.listeners.append(self.note)

    def note(self, decision: Decision, _: Committed) -> None:
        self.decisions.update(canonical_json(decision).encode())
        self.steps[decision.step] += 1


def simulation(seed: int, **behaviour: Any) -> Simulation:
    """A simulation in which pilots wait ten minutes or longer, and all sites behave alike."""
    scenario = Scenario(
        name="week",
        federation="",
        period=900,
        heartbeat=1800,
        links=LinkBehaviour(transfer_fails=behaviour.pop("transfer_fails", 0)),
        sites=behaviour.pop("sites", {}),
        default_site=SiteBehaviour(**behaviour),
    )
    return Simulation(virtual(federation(), scenario), scenario, seed)


def live(simulation: Simulation, count: int, days: float) -> Record:
    """Submit a few tasks an hour, and let the days pass, or until all have ended."""
    record = Record(simulation)
    waiting, dice = tasks(count), random.Random(count)

    def submit_more() -> bool:
        for owner, spec in waiting[:3]:
            work = tuple(dice.expovariate(1 / 18000) for _ in range(spec.planned_jobs))
            assert not simulation.submit(SimulatedTask(spec=spec, owner=owner, work=work)).refused
        del waiting[:3]
        return not waiting and not unended(simulation)

    simulation.run(days * DAY, until=submit_more)
    return record


def rows(simulation: Simulation, statement: str) -> list[tuple[Any, ...]]:
    found = simulation.store.database.read(lambda connection: connection.execute(text(statement)).all())
    return [tuple(row) for row in found]


def unended(simulation: Simulation) -> int:
    ended = ("finished", "failed", "cancelled")
    return sum(count for state, count in states(simulation, "tasks").items() if state not in ended)


def states(simulation: Simulation, table: str) -> Counter[str]:
    return Counter(dict(rows(simulation, f"SELECT state, count(*) FROM {table} GROUP BY state")))


def events(simulation: Simulation) -> str:
    told = [
        rows(simulation, f"SELECT {columns} FROM {table} ORDER BY id")
        for table, columns in (
            ("meanings", "*"),
            *((table.name, "id, history") for table in RECORDS.values()),
        )
    ]
    return hashlib.sha256(repr(told).encode()).hexdigest()


@pytest.mark.endurance
@pytest.mark.slow
def test_a_virtual_week_ends_all_work_and_is_the_same_twice() -> None:
    lives = []
    for _ in range(2):
        week = simulation(7, payload_fails=0.02)
        record = live(week, 40, 7)
        assert states(week, "tasks") == {"finished": 40}
        assert states(week, "jobs") == {"finished": states(week, "jobs")["finished"]}
        lives.append((record.decisions.hexdigest(), events(week), record.steps))
        week.close()
    assert lives[0] == lives[1]


@pytest.mark.endurance
@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_job_ends_once_whatever_dies(seed: int) -> None:
    faults: dict[str, Any] = {"payload_fails": 0.05, "never_calls": 0.05, "answer_lost": 0.03}
    outages = {
        "east": (Spell(begins=1 * HOUR, ends=4 * HOUR),),
        "north": (Spell(begins=5 * HOUR, ends=6 * HOUR),),
    }
    weeks = simulation(
        seed,
        transfer_fails=0.1,
        sites={name: SiteBehaviour(outages=spells, **faults) for name, spells in outages.items()},
        **faults,
    )
    live(weeks, 9, 21)
    ended = states(weeks, "jobs")
    assert set(ended) <= {"finished", "failed", "closed"}, ended
    assert unended(weeks) == 0
    for (job,) in rows(weeks, "SELECT id FROM jobs"):
        targets = [event.target for event in weeks.store.queries.events("job", job)]
        assert targets.count(JobState.FINISHED) <= 1
    weeks.close()
