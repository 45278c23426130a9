"""Virtual sites: slots that others give back, and what payloads say that they used."""

from dataclasses import replace

from sqlalchemy import text

from pilotage.model.records.federation import UNKNOWN_CORE_POWER, ComputingElement, Federation
from pilotage.model.records.work import MergeSpec, TaskSpec
from pilotage.model.values.identity import Identity
from pilotage.simulation.idleness import slots
from pilotage.simulation.metrics import metrics
from pilotage.simulation.payloads import MERGE, SimulatedTask
from pilotage.simulation.pilots import ASK_AGAIN
from pilotage.simulation.reading import virtual
from pilotage.simulation.scenario import Scenario, SiteBehaviour, Spell
from pilotage.simulation.simulation import BEGIN, Simulation
from tests.simulation.test_week import federation


def one_queue(element: ComputingElement, cores: int = 0) -> Federation:
    found = federation()
    queue = replace(found.queues[0], computing_element=element, cores=cores)
    return replace(found, queues=(queue,))


def simulation(declared: Federation, behaviour: SiteBehaviour, seed: int) -> Simulation:
    scenario = Scenario(name="sites", federation="", tick=30, period=60, default_site=behaviour)
    return Simulation(virtual(declared, scenario), scenario, seed)


def submit(made: Simulation, work: float, jobs: int = 1, cores: int = 1) -> None:
    submitted = SimulatedTask(
        spec=TaskSpec(name="some", command=("run",), jobs=jobs, cores=cores, scouts=0),
        owner=Identity(name="alice", vo="ligo"),
        work=(work,),
    )
    assert not made.submit(submitted).refused


def until_ended(made: Simulation, jobs: int) -> None:
    """Run until so many jobs have ended."""
    for _ in range(80):
        if len(made.journal.ended) >= jobs:
            break
        made.run(1000)
    assert len(made.journal.ended) == jobs


def test_slots_that_others_give_back_are_taken_when_the_hour_begins() -> None:
    behaviour = SiteBehaviour(slots=10, slots_taken=1, wait=3000, wait_spread=0)
    grown, seed = False, 0
    while not grown:
        made = simulation(one_queue(ComputingElement(max_pilots=10)), behaviour, seed)
        try:
            submit(made, 1e7, jobs=10)
            made.run(3500)
            (site,) = made._sites.values()
            before = site.slots(10)
            made.run(200)
            after = site.slots(10)
            grown = after.granted > before.granted
            assert after.running + after.free >= min(after.granted, 10), f"seed {seed}"
        finally:
            made.close()
        seed += 1
        assert seed < 8, "a seed in which the second hour gives more slots than the first"


def test_a_payload_uses_its_own_cores_not_those_of_its_pilot() -> None:
    element = ComputingElement(max_pilots=1)
    made = simulation(one_queue(element), SiteBehaviour(wait=60, wait_spread=0), 1)
    try:
        submit(made, 8000, cores=8)
        made.run(120)
        submit(made, 1000)
        made.run(7200)
        query = text("SELECT cpu_seconds, pilot FROM jobs WHERE state = 'finished' ORDER BY id")
        used = made.store.database.read(lambda connection: connection.execute(query).all())
        power = UNKNOWN_CORE_POWER
        assert [tuple(row) for row in used] == [(8000 / power, 1), (1000 / power, 1)]
    finally:
        made.close()


def test_a_pilot_that_was_given_something_asks_again_for_its_other_slots() -> None:
    made = simulation(one_queue(ComputingElement(max_pilots=1, pilot_slots=8)), SiteBehaviour(wait=60), 1)
    try:
        submit(made, 1e5, jobs=3)
        made.run(200)
        submit(made, 1e5, jobs=3)
        made.run(200)
        began = sorted(time - BEGIN for time in made.journal.first_starts.values())
        assert len(began) == 6
        assert began[-1] < 200 + 2 * ASK_AGAIN
    finally:
        made.close()


def test_payloads_of_a_pilot_have_no_more_cores_than_it() -> None:
    made = simulation(one_queue(ComputingElement(max_pilots=1, pilot_slots=8)), SiteBehaviour(wait=60), 1)
    try:
        submit(made, 1000, jobs=4)
        made.run(60)
        submit(made, 7e4, jobs=4, cores=7)
        until_ended(made, 8)
        assert sum(work for *_, work in made.journal.ended.values()) <= made.granted
    finally:
        made.close()


def test_an_outage_that_ends_within_another_ends_with_that() -> None:
    outages = (Spell(begins=100, ends=2000), Spell(begins=200, ends=300), Spell(begins=0, ends=50))
    behaviour = SiteBehaviour(wait=60, wait_spread=0, outages=outages)
    made = simulation(one_queue(ComputingElement(max_pilots=1)), behaviour, 1)
    try:
        made.run(120)
        submit(made, 1000)
        made.run(1800)
        assert not made.journal.first_starts
        until_ended(made, 1)
    finally:
        made.close()


def test_a_site_that_no_pilot_was_ever_asked_for_has_the_slots_and_outages_of_its_scenario() -> None:
    behaviour = SiteBehaviour(slots=3, outages=(Spell(begins=100, ends=200),))
    made = simulation(one_queue(ComputingElement(max_pilots=10)), behaviour, 1)
    try:
        granted = []
        for _ in range(3):
            granted += [site.granted for site in slots(made.federation, made._sites)]
            made.run(130)
        assert granted == [3, 0, 3]
    finally:
        made.close()


def test_work_whose_report_is_lost_with_its_pilot_is_done_once() -> None:
    behaviour = SiteBehaviour(wait=0, wait_spread=0, outages=(Spell(begins=1040, ends=1045),))
    made = simulation(one_queue(ComputingElement(max_pilots=1)), behaviour, 1)
    try:
        submit(made, 1005 * (made.federation.queues[0].core_power or UNKNOWN_CORE_POWER))
        made.run(1060)
        assert made.journal.first_starts
        made.run(10_000)
        ((at, _, work),) = made.journal.ended.values()
        assert made.journal.starts == 2
        assert at - BEGIN > 2000
        assert metrics(made, made._scenario).cpu_efficiency == work / made.granted < 0.6
    finally:
        made.close()


def test_a_merge_job_takes_a_minute_and_its_wait_is_not_counted() -> None:
    made = simulation(one_queue(ComputingElement(max_pilots=2)), SiteBehaviour(wait=60, wait_spread=0), 1)
    merge = MergeSpec(command=("merge",), outputs=("all",))
    spec = TaskSpec(name="m", command=("run",), jobs=2, outputs=("out",), merge=merge, scouts=0)
    try:
        made.submit(SimulatedTask(spec=spec, owner=Identity(name="alice", vo="ligo"), work=(36_000,)))
        until_ended(made, 3)
        assert sorted(work for *_, work in made.journal.ended.values()) == [MERGE, 36_000, 36_000]
        found = metrics(made, made._scenario)
        assert (found.jobs, found.lost, found.unfinished) == (3, 0, 0)
        assert found.wait_95 < 600
    finally:
        made.close()
