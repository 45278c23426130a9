"""Native sites advertise what their batch systems tell, and the matchmaking places by it (M1 to M8)."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from pilotage.explain import queues
from pilotage.explain.analysis import explain
from pilotage.flow.calls.places import sites
from pilotage.flow.calls.work import what_if
from pilotage.flow.task_cancellation import cancel
from pilotage.model.documents.decision import Create, Decision
from pilotage.model.records.advertisements import Advertisement, NewAdvertisement
from pilotage.model.records.federation import ComputingElement, Federation
from pilotage.model.records.states import JobState
from pilotage.ports.computing import Capacity
from tests.reading import world_of

from .house import FakeElement, House


class Counted(FakeElement):
    """A batch system that tells how much it runs."""

    def capacity(self) -> Capacity:
        return Capacity(slots=100, running=4, waiting=2, everybody=True)


def federate(house: House, **site: Any) -> Federation:
    """Put a federation in force in which north has these fields and everything is matched."""
    before = house.store.federation()
    named = tuple(replace(one, **site) if one.name == "north" else one for one in before.sites)
    house.store.save_federation(replace(before, sites=named, plugins={"": "matchmaking"}), "t")
    return house.store.federation()


def told(house: House) -> Advertisement:
    (found,) = world_of(house.store, "advertise", house.now, 1).advertisements
    return found


def states(house: House, task: int) -> list[JobState]:
    return sorted(job.state for job in house.store.queries.jobs(task, None, 100))


def test_m2_native_sites_advertise_every_period(house: House) -> None:
    house.element = Counted()
    house.take("advertise")
    first = told(house)
    assert (first.source, first.number, first.other_jobs) == ("native", 1, 6)
    house.now += 299
    assert house.take("advertise") == 0
    house.now += 1
    house.take("advertise")
    second = told(house)
    assert (second.number, second.time) == (2, house.now)
    assert second.attributes == {
        "CountsEverybody": True,
        "CurrentJobs": 6,
        "CurrentSubmittingJobs": 2,
        "PendingJobs": 2,
        "RunningJobs": 4,
        "Slots": 100,
    }


def test_m2_two_servers_do_not_start_the_matches_anew_twice(house: House) -> None:
    house.take("advertise")
    stale = NewAdvertisement(site="north", source="native", replaces=0)
    change = Create(records=(stale,), cause="late")
    committed = house.store.commit(Decision(step="advertise", time=house.now, seed=1, changes=(change,)), "b")
    assert committed.created == ((None,),)
    assert told(house).number == 1


LIMITS = (
    {"max_jobs": 10},
    {"max_submitting_jobs": 6},
    {"max_pending_jobs": 6},
    {"max_jobs": 10, "throttle": "current"},
)
"""Limits that leave room for four jobs beside those of others."""


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("brokerage", ["matchmaking", "production"])
def test_m5_m8_no_advertisement_forgets_a_job_that_no_pilot_runs(
    house: House, limit: dict[str, Any], brokerage: str
) -> None:
    """Pilots never come; the site advertises in every period: what was matched to it is still there."""
    house.element = Counted()
    federate(house, **limit)
    house.take("advertise")
    task = house.task(jobs=20, brokerage=brokerage)
    for _ in range(12):
        house.take("broker")
        assert states(house, task).count(JobState.ACTIVATED) <= 4
        house.now += 300
        for name in ("advertise", "watch", "lift"):
            house.take(name)
    assert states(house, task).count(JobState.ACTIVATED) == 4
    assert told(house).number == 13


def test_m5_m7_no_more_than_the_throttle_then_the_rest_waits_for_the_next_cycle(house: House) -> None:
    federate(house, max_jobs=4)
    house.take("advertise")
    task = house.task(jobs=6)
    house.take("broker")
    assert states(house, task) == [JobState.ACTIVATED] * 4 + [JobState.PENDING] * 2
    assert told(house).matched == 4
    house.take("lift")
    assert states(house, task).count(JobState.PENDING) == 2
    end_jobs(house, 2)
    house.now += 300
    house.take("advertise")
    house.take("watch")
    house.take("broker")
    assert states(house, task) == [JobState.ACTIVATED] * 4 + [JobState.FINISHED] * 2
    assert told(house).matched == 2


def end_jobs(house: House, count: int) -> None:
    """Let a pilot run so many jobs to their end."""
    pilot = house.pilot(site="north")
    held = [(order.job, order.attempt) for order in house.match(pilot, count).works[0].jobs]
    house.report(pilot, "running", held)
    house.report(pilot, "done", held)
    for name in ("stage", "finish"):
        house.take(name)


def leave_by_rebrokerage(house: House, task: int) -> None:
    """None of the task's jobs has started within two days."""
    house.now += 2 * 86400 + 1
    house.take("watch")


def leave_by_cancelling(house: House, task: int) -> None:
    cancel(house.runtime, task, "not wanted", "alice")


def leave_by_failing(house: House, task: int) -> None:
    pilot = house.pilot(site="north")
    held = [(order.job, order.attempt) for order in house.match(pilot, 9).works[0].jobs]
    house.report(pilot, "running", held)
    house.report(pilot, "failed", held)


@pytest.mark.parametrize("leave", [leave_by_rebrokerage, leave_by_cancelling, leave_by_failing])
def test_m5_a_job_that_leaves_a_site_frees_its_place(house: House, leave: Any) -> None:
    federate(house, max_jobs=3)
    house.take("advertise")
    first = house.task(jobs=3)
    house.take("broker")
    assert states(house, first) == [JobState.ACTIVATED] * 3
    leave(house, first)
    house.take("advertise")
    federate(house, max_jobs=3, requirements='TARGET.TaskName == "other"')
    second = house.task(jobs=5, name="other")
    house.take("broker")
    assert states(house, second) == [JobState.ACTIVATED] * 3 + [JobState.PENDING] * 2


@pytest.mark.parametrize("brokerage", ["matchmaking", "production"])
def test_m5_a_site_whose_limit_is_less_than_the_slots_of_a_pilot_runs_no_more(
    house: House, brokerage: str
) -> None:
    element = FakeElement()
    house.element = element
    house.federate(computing_element=ComputingElement(kind="fake", max_pilots=9, pilot_slots=4))
    federate(house, max_jobs=6)
    house.take("advertise")
    house.task(jobs=30, brokerage=brokerage)
    for _ in range(4):
        house.take("broker")
        house.take("provision")
        house.now += 60
    # One of four slots, and one of the two that are left.
    assert sorted(order.slots for order in element.orders) == [2, 4]
    assert sorted(order.cores for order in element.orders) == [2, 4]


class Mortal(FakeElement):
    """A batch system that nobody reaches any more once it is dead."""

    is_dead = False

    def capacity(self) -> Capacity:
        if self.is_dead:
            raise ConnectionError("no route to the login node")
        return Capacity()


def test_m2_a_native_site_whose_batch_system_is_dead_falls_silent(house: House) -> None:
    """Its ad is as old as its last answer: after three periods it matches nothing, and says why."""
    house.element = element = Mortal()
    federate(house, max_jobs=50)
    house.take("advertise")
    house.now += 300
    house.take("advertise")
    answered = house.now
    element.is_dead = True
    for _ in range(4):
        assert sites.views(house.runtime)[0].problem == ""
        house.now += 240
        house.take("advertise")
    assert (told(house).time, told(house).number) == (answered, 2)
    since = f"{datetime.fromtimestamp(answered, UTC):%Y-%m-%d %H:%M:%S} UTC"
    words = f"has not answered since {since}, queue north-queue: ConnectionError: no route to the login node"
    assert words in sites.views(house.runtime)[0].problem
    task = house.task()
    house.take("broker")
    assert states(house, task) == [JobState.PENDING]
    (choice,) = house.store.queries.task_choices(task)
    assert words in str(choice.refusals[0].have)
    element.is_dead = False
    house.now += 60
    house.take("advertise")
    assert (sites.views(house.runtime)[0].problem, told(house).time) == ("", house.now)


def test_m2_a_bad_ad_of_an_older_version_stops_neither_the_pass_nor_the_view(house: House) -> None:
    federate(house, max_jobs=50)
    push(house, pendingJobs="x", MaxPendingJobs=5)
    task = house.task()
    house.take("broker")
    assert states(house, task) == [JobState.PENDING]
    for age in (0, 10_000):
        house.now += age
        (view,) = sites.views(house.runtime)
        assert "PendingJobs is 'x', no count" in view.problem
        assert "MaxPendingJobs = 5;" in str(sites.text(house.runtime, "north"))


def test_m7_a_new_job_takes_no_place_that_one_that_waits_with_a_higher_priority_could_take(
    house: House,
) -> None:
    federate(house, max_jobs=2)
    house.take("advertise")
    running = house.task(jobs=2, priority=500)
    house.take("broker")
    waiting = house.task(jobs=2, priority=900)
    house.take("broker")
    assert states(house, waiting) == [JobState.PENDING] * 2
    end_jobs(house, 2)
    assert states(house, running) == [JobState.FINISHED] * 2
    new = house.task(jobs=1, priority=1)
    house.take("broker")
    assert states(house, new) == [JobState.PENDING]
    (choice,) = house.store.queries.task_choices(new)
    assert [refusal.rule for refusal in choice.refusals] == ["M7"]
    house.now += 300
    for name in ("advertise", "watch", "broker"):
        house.take(name)
    assert states(house, waiting) == [JobState.ACTIVATED] * 2
    assert states(house, new) == [JobState.PENDING]


def test_m8_the_director_keeps_to_what_a_site_advertised(house: House) -> None:
    element = FakeElement()
    house.element = element
    federate(house, max_jobs=50)
    house.take("advertise")
    house.task(jobs=20)
    house.take("broker")
    push(house, CurrentJobs=9, MaxJobs=10)
    house.take("provision")
    assert len(element.orders) == 1


def payload_variables(house: House) -> dict[str, str]:
    """Return what Pilotage tells a payload of its site, at the match of a new job."""
    house.task()
    house.take("broker")
    (work,) = house.match(house.pilot(site="north"), 1).works
    return {name.removeprefix("PILOTAGE_"): value for name, value in work.environment.items()}


def push(house: House, **attributes: Any) -> None:
    """Let the site send its own ad."""
    record = NewAdvertisement(site="north", source="pushed", attributes=attributes)
    change = Create(records=(record,), cause="sent")
    house.store.commit(Decision(step="advertise", time=house.now, seed=1, changes=(change,)), "site:north")


@pytest.mark.parametrize("declared", ["", "fnal"])
def test_m2_station_and_monitoring_url_reach_the_payload(house: House, declared: str) -> None:
    of = federate(house, monitoring_url="https://monitor")
    storages = tuple(replace(one, station=declared) for one in of.storages)
    house.store.save_federation(replace(of, storages=storages), "t")
    house.take("advertise")
    monitor = {"MONITORING_URL": "https://monitor"}
    assert payload_variables(house) == {"SITE": "north", "STATION": declared or "north", **monitor}


@pytest.mark.parametrize(
    ("told", "station"),
    [
        ({"StationName": "chicago"}, "chicago"),
        ({"stationnames": ["chicago", "boston"]}, "chicago"),
        ({"StationNames": ["chicago", "north"]}, "north"),
        ({"StationNames": []}, "north"),
    ],
)
@pytest.mark.parametrize("by", ["site", "operator"])
def test_m2_the_station_and_monitoring_url_that_a_site_tells_reach_the_payload(
    house: House, told: dict[str, Any], station: str, by: str
) -> None:
    """A job that was matched by a station looks for its data there."""
    attributes = {**told, "MonitoringUrl": "https://its.own"}
    federate(house, monitoring_url="https://declared", attributes=attributes if by == "operator" else {})
    house.take("advertise")
    if by == "site":
        push(house, **attributes)
    found = {"SITE": "north", "STATION": station, "MONITORING_URL": "https://its.own"}
    assert payload_variables(house) == found
    if by == "site":
        house.now += 60
        push(house)
        assert payload_variables(house)["MONITORING_URL"] == "https://declared"


@pytest.mark.parametrize("by", ["site", "operator"])
def test_m2_m3_tasks_may_name_the_stations_that_a_site_tells(house: House, by: str) -> None:
    stations = {"stationnames": ["chicago", "boston"]}
    federate(house, attributes=stations if by == "operator" else {})
    house.take("advertise")
    if by == "site":
        ((_, (fault,)),) = house.submit({"stations": ("boston",)}).refused
        assert fault == ("stations[0]", "there is no station 'boston'; known: north")
        push(house, **stations)
    named, other = house.task(stations=("boston",)), house.task(stations=("north",))
    house.take("broker")
    assert states(house, named) == [JobState.ACTIVATED]
    assert states(house, other) == [JobState.PENDING], "what the site tells replaces its storages' stations"
    changed = what_if.run(house.runtime, what_if.Changes(task={"stations": ["chicago"]}), other)
    assert changed.opened == ("north-queue",)
    ((_, (fault,)),) = house.submit({"stations": ("bostn",)}).refused
    assert fault == ("stations[0]", "there is no station 'bostn'; did you mean boston?")


def test_m4_explain_names_the_sole_obstacle_and_what_if_lifts_it(house: House) -> None:
    federate(house, attributes={"Arch": "arm"})
    house.take("advertise")
    task = house.task(site_requirements='TARGET.Arch == "x86" && TARGET.Cpus >= 1')
    house.take("broker")
    (choice,) = house.store.queries.task_choices(task)
    (obstacle,) = explain(choice).obstacles
    assert (obstacle.rule, obstacle.name, obstacle.only) == ("M4", 'the job\'s TARGET.Arch == "x86"', 1)
    assert choice.refusals[0].have == ("Arch = arm",)
    changed = what_if.run(house.runtime, what_if.Changes(task={"site_requirements": ""}), task)
    assert changed.opened == ("north-queue",)


def test_m5_m8_what_the_production_brokerage_forwards_counts_as_matched_and_is_bounded(house: House) -> None:
    """Both brokerages hand jobs to one forwarding site, which never gets more than its throttle takes."""
    options = {"url": "http://127.0.0.1:9", "token_file": "/nowhere", "storage": "hand"}
    house.element = FakeElement()
    house.federate(computing_element=ComputingElement(kind="pilotage", max_pilots=9, options=options))
    before = house.store.federation()
    named = tuple(replace(one, max_jobs=5) for one in before.sites)
    house.store.save_federation(replace(before, sites=named), "t")
    house.take("advertise")
    first = house.task(jobs=3, brokerage="production")
    house.take("broker")
    assert told(house).matched == 3
    matched = house.task(jobs=1, brokerage="matchmaking")
    house.take("broker")
    assert states(house, matched) == [JobState.ACTIVATED]
    last = house.task(jobs=4, brokerage="production")
    house.take("broker")
    house.take("broker")
    assert states(house, first) == [JobState.ACTIVATED] * 3
    assert sorted(map(str, states(house, last))) == ["activated", "pending", "pending", "pending"]
    assert told(house).matched == 5
    (choice, *_) = house.store.queries.task_choices(last)
    (refusal,) = choice.refusals
    assert (refusal.rule, refusal.name, refusal.need, refusal.have) == ("M8", "site's throttle", 5, (5,))
    for _ in range(3):
        house.take("provision")
    assert len(house.element.orders) <= 5


def test_m5_jobs_at_another_pilotage_count_from_their_match(house: House) -> None:
    options = {"url": "http://127.0.0.1:9", "token_file": "/nowhere", "storage": "hand"}
    house.element = FakeElement()
    house.federate(computing_element=ComputingElement(kind="pilotage", max_pilots=9, options=options))
    house.task(jobs=5)
    house.take("broker")
    pilots = [house.pilot(site="north") for _ in range(3)]
    held = [(order.job, order.attempt) for one in pilots for order in house.match(one, 1).works[0].jobs]
    house.report(pilots[0], "running", held[:1])
    house.take("advertise")
    (view,) = sites.views(house.runtime)
    assert (view.jobs, view.current_jobs, view.current_submitting_jobs) == (5, 5, 4)


def test_m4_m6_a_queue_tells_all_that_stands_in_the_way_of_a_match(house: House) -> None:
    """``explain --queue`` and the sole obstacle name the part, whose it is, and its values."""
    federate(house, max_jobs=3, requirements='TARGET.Owner != "alice"')
    house.take("advertise")
    push(house, CurrentJobs=7)
    task = house.task(site_requirements='TARGET.Arch == "arm"')
    house.take("broker")
    choices = house.store.queries.task_choices(task)
    told_ = "\n".join(queues.of_task("north-queue", choices))
    for part in (
        "it cannot take them, for 3 reasons:",
        'the job\'s TARGET.Arch == "arm"',
        'the site\'s TARGET.Owner != "alice"',
        "CurMatches < MaxJobs: need 3",
    ):
        assert part in told_, told_
    assert [obstacle.only for obstacle in explain(choices[0]).obstacles] == [0, 0, 0]
    freed = house.task()
    federate(house, max_jobs=3, requirements="")
    house.take("broker")
    (obstacle,) = explain(house.store.queries.task_choices(freed)[0]).obstacles
    assert (obstacle.rule, obstacle.name, obstacle.mend, obstacle.only) == (
        "M6",
        "CurMatches < MaxJobs",
        "wait",
        1,
    )
