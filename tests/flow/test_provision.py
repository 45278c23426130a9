"""Pilots are recorded, then submitted; what came of it is recorded too (P10)."""

import logging
from dataclasses import replace
from typing import Any

import pytest

from pilotage.explain.queues import of_queue
from pilotage.flow.calls.pilots.pilot_end import end
from pilotage.flow.outside.inquiries import KEPT_FOR
from pilotage.flow.step import take
from pilotage.flow.steps import step
from pilotage.flow.steps.provision import ASKED_AGAIN_AFTER
from pilotage.model.records.constants import SubmitPool
from pilotage.model.records.federation import ComputingElement, DirectorConstants, Server, Site
from pilotage.model.records.states import JobState, PilotState
from pilotage.model.records.work import Pilot
from pilotage.policies.pilots import director, submissions
from pilotage.ports.computing import Capacity, PilotSize, PilotStatus, Submitted
from tests.reading import world_of

from .house import NOW, FakeElement, House, attempts
from .test_servers_gone import Named


@pytest.fixture
def element(house: House) -> FakeElement:
    """A batch system with fifty jobs waiting for pilots in its queue."""
    made = FakeElement()
    house.element = made
    house.task(jobs=50, priority=900)
    house.take("broker")
    return made


def pilots(house: House) -> list[Pilot]:
    return list(house.store.queries.pilots(None, None, 100))


def test_pilots_are_submitted_with_a_token_of_their_own_and_never_beyond_the_queue_s_limit(
    house: House, element: FakeElement
) -> None:
    for _ in range(3):
        house.take("provision")
    assert len(element.orders) == 3
    assert {pilot.state for pilot in pilots(house)} == {PilotState.SUBMITTED}
    assert {pilot.reference for pilot in pilots(house)} == {f"reference-{o.pilot}" for o in element.orders}
    for order in element.orders:
        credential = house.store.tokens.find(order.token)
        assert credential is not None
        assert (credential.role, credential.pilot, order.server_url) == (
            "enrolment",
            order.pilot,
            "http://server",
        )


def test_p9_a_pilots_token_lasts_five_days(house: House, element: FakeElement) -> None:
    house.take("provision")
    found = [house.store.tokens.find(order.token) for order in element.orders]
    assert found
    assert {credential and credential.expires for credential in found} == {house.now + 5 * 86_400}


def test_a_pilot_that_is_not_taken_fails_with_the_reason_and_its_token_is_void(
    house: House, element: FakeElement
) -> None:
    element.fault = OSError("the batch system is away")
    house.take("provision")
    found = pilots(house)
    assert {pilot.state for pilot in found} == {PilotState.FAILED}
    assert {pilot.error for pilot in found} == {"not submitted: the batch system is away"}


def test_an_adapter_that_answers_for_fewer_pilots_than_were_ordered_fails_them_all(
    house: House, element: FakeElement, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(element, "submit", lambda _: [Submitted(reference="one")])
    house.take("provision")
    found = pilots(house)
    assert {pilot.state for pilot in found} == {PilotState.FAILED}
    assert {pilot.error for pilot in found} == {"not submitted: 3 orders have 1 answers"}
    assert not any(pilot.id in house.runtime.elements.submissions for pilot in found)


def test_the_jobs_of_a_pilot_that_ended_with_its_batch_job_go_on_within_three_minutes(
    house: House, element: FakeElement
) -> None:
    """Its agent was killed, and the batch system says so."""
    house.take("provision")
    pilot = min(pilots(house), key=lambda one: one.id)
    ((job, attempt),) = attempts(house.match(pilot.id, 1))
    house.report(pilot.id, "running", [(job, attempt)])
    element.status = PilotStatus(state="ended", reason="FAILED", exit_code=-9)
    house.take("provision")
    found = house.store.queries.pilot(pilot.id)
    assert found is not None
    assert (found.state, found.error) == (
        PilotState.RUNNING,
        "its batch job ended without a report: FAILED (exit code -9)",
    )
    house.now += 180
    house.take("provision")
    house.take("watch")
    after = house.store.queries.job(job)
    assert after is not None
    assert (after.state, after.attempt) == (JobState.DEFINED, 2)


def test_a_pilot_that_ended_without_a_word_makes_room_for_another(house: House, element: FakeElement) -> None:
    house.take("provision")
    element.status = PilotStatus(state="ended")
    house.take("provision")
    element.status = PilotStatus(state="waiting")
    house.take("provision")
    assert len(element.orders) == 3, "the queue is left alone for a while (P6)"
    house.now += 60
    house.take("provision")
    ended = [pilot for pilot in pilots(house) if pilot.state == PilotState.FAILED]
    assert {pilot.error for pilot in ended} == {"its batch job ended without a report"}
    assert len(element.orders) == len(ended) + 1


def test_p6_pilots_on_a_full_disk_fail_with_the_reason_and_one_probes_after_a_pause(
    house: House, element: FakeElement
) -> None:
    house.take("provision")
    house.now += 1
    for pilot in pilots(house):
        end(house.runtime, pilot.id, "only 3 MB are free", is_unfit=True)
    assert {(pilot.state, pilot.error) for pilot in pilots(house)} == {
        (PilotState.FAILED, "only 3 MB are free")
    }
    house.take("provision")
    assert len(element.orders) == 3
    house.now += 60
    house.take("provision")
    assert len(element.orders) == 4


def test_p6_a_changed_declaration_of_a_queue_lets_one_pilot_probe_it_and_any_other_does_not(
    house: House, element: FakeElement, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(house.store, "clock", lambda: house.now)
    element.fault = OSError("no such partition")
    house.take("provision")
    house.now += 10
    element.fault = None
    for _ in range(2):
        house.runtime.save_federation(house.store.federation(), "unchanged")
        house.take("provision")
        assert not element.orders, "its breaker is open"
        house.now += 10
    (condition,) = [seen for seen in house.store.queries.conditions(house.now) if seen.errors]
    assert condition.tried_at
    assert condition.tried_at > house.now
    house.federate(computing_element=ComputingElement(options={"partition": "right"}))
    house.now += 1
    (condition,) = [seen for seen in house.store.queries.conditions(house.now) if seen.errors]
    assert condition.tried_at == condition.changed == house.now - 1
    told = of_queue(condition)
    assert "  its description changed 1 s ago: one pilot tests it next, if jobs wait" in told
    house.now += 60
    house.take("provision")
    assert len(element.orders) == 1


def test_a_batch_system_that_knows_nothing_ends_no_pilot(house: House, element: FakeElement) -> None:
    house.take("provision")
    element.status = PilotStatus(state="unknown")
    house.take("provision")
    assert {pilot.state for pilot in pilots(house)} == {PilotState.SUBMITTED}


def test_p4_pilots_that_wait_too_long_are_cancelled_at_their_site_and_hold_no_room(
    house: House, element: FakeElement
) -> None:
    house.take("provision")
    house.take("provision")
    waiting = [pilot.reference for pilot in pilots(house)]
    house.now += 6 * 3600
    house.take("watch")
    assert {pilot.state for pilot in pilots(house)} == {PilotState.CANCELLED}
    assert sorted(element.cancelled) == sorted(waiting)
    house.now += 86_400  # no pilot ever called there, so no job comes before
    house.take("lift")
    house.take("broker")
    house.take("provision")
    assert len(element.orders) == 2 * len(waiting)


def constants(house: House, **values: Any) -> None:
    """Put a federation in force whose director has these constants."""
    known = house.store.federation()
    house.store.save_federation(replace(known, director=DirectorConstants(**values)), "test")


def test_p2_two_servers_that_decide_from_the_same_world_make_the_pilots_of_one_iteration(
    house: House, element: FakeElement
) -> None:
    world = world_of(house.store, "provision", house.now, 1)
    first = house.store.commit(director.provision(world), "provision")
    second = house.store.commit(director.provision(world), "provision")
    assert len([id_ for ids in first.created for id_ in ids if id_]) == 3
    assert [id_ for ids in second.created for id_ in ids if id_] == []
    assert second.handed_back == 3
    house.federate(computing_element=ComputingElement(kind="fake", max_pilots=4))
    again = world_of(house.store, "provision", house.now + 60, 1)
    assert again.iterated == house.now
    assert director.provision(again).changes[:1] != ()


def test_p2_an_iteration_waits_for_its_period_however_often_the_step_is_woken(
    house: House, element: FakeElement
) -> None:
    house.federate(computing_element=ComputingElement(kind="fake", max_pilots=1000))
    constants(house, pilots_per_iteration=4, lowest_cpu_boost=1_080_000)
    house.take("provision")
    first = len(element.orders)
    assert first < 50
    for _ in range(5):
        house.now += 5
        house.take("provision")
    assert len(element.orders) == first
    house.now += 35
    house.take("provision")
    assert len(element.orders) > first


def test_p10_a_pilot_whose_submission_nobody_knows_of_is_submitted_again_under_its_name(
    house: House, element: FakeElement
) -> None:
    element.lost = TimeoutError("no answer within 120 s")
    house.take("provision")
    names = [order.name for order in element.orders]
    house.take("provision")
    assert {pilot.state for pilot in pilots(house)} == {PilotState.CREATED}
    assert len(element.orders) == len(names), "not at once"
    element.lost = None
    house.now += ASKED_AGAIN_AFTER
    house.take("provision")
    assert [order.name for order in element.orders] == [*names, *names]
    stamp = f"{int(NOW):x}"
    assert all(name.startswith(f"flow-{stamp}-pilot-") for name in names), "another store has other names"
    assert {pilot.state for pilot in pilots(house)} == {PilotState.SUBMITTED}
    tokens = [house.store.tokens.find(order.token) for order in element.orders]
    assert all(tokens), "whichever of its tokens it was submitted with, it may enrol"


def test_p10_a_server_that_ended_between_record_and_submission_loses_no_pilot(
    house: House, element: FakeElement
) -> None:
    """The records are committed, and nobody submitted them: as after a kill."""
    world = world_of(house.store, "provision", house.now, 1)
    house.store.commit(director.provision(world), "provision")
    assert element.orders == []
    house.now += ASKED_AGAIN_AFTER
    house.take("provision")
    assert len(element.orders) == 3
    assert {pilot.state for pilot in pilots(house)} == {PilotState.SUBMITTED}


def test_p10_pilots_that_a_silent_server_was_to_submit_are_submitted_at_once(
    house: House, element: FakeElement
) -> None:
    """Under the same names, which a batch system takes once if the silent one had come so far."""
    world = replace(world_of(house.store, "provision", house.now, 1), server="silent")
    house.store.commit(director.provision(world), "provision")
    assert {pilot.server for pilot in pilots(house)} == {"silent"}
    house.now += 10 * ASKED_AGAIN_AFTER
    house.take("provision")
    assert element.orders == [], "it lives, and may wait for its answer as long as it takes"
    read = world_of(house.store, "provision", house.now, 1)
    survivors = [
        submissions.observed(replace(read, server=name, servers_gone=("silent",))) for name in ("b", "c")
    ]
    first, second = (house.store.commit(one, "provision").accepted for one in survivors)
    assert (len(first[0]), second[0]) == (3, ()), "both saw the same: one gets each"
    house.runtime.presence = Named("c", "silent")
    house.take("provision")
    assert element.orders == [], "the other one submits them"
    house.runtime.presence = Named("another", "b")
    house.take("provision")
    assert len(element.orders) == 3
    assert {pilot.server for pilot in pilots(house)} == {"another"}
    assert {pilot.state for pilot in pilots(house)} == {PilotState.SUBMITTED}


def test_a_pilot_that_was_given_up_before_its_submission_was_known_is_cancelled_at_its_site(
    house: House, element: FakeElement
) -> None:
    provision = step("provision")
    take(provision, house.runtime, house.runtime.begin(1000))
    house.now += 301
    house.take("watch")
    assert {pilot.state for pilot in pilots(house)} == {PilotState.FAILED}
    house.take("provision")
    assert sorted(element.cancelled) == sorted(f"reference-{order.pilot}" for order in element.orders[:3])


def test_p6_each_server_is_called_for_its_own_pilots(house: House, element: FakeElement) -> None:
    names = ("a", "b")
    servers = tuple(Server(name=name, options={"host": name}) for name in names)
    house.federate(computing_element=ComputingElement(kind="fake", max_pilots=40, servers=servers))
    elements = {name: FakeElement() for name in names}
    house.runtime.elements._load = lambda declared: elements[declared.options["host"]]
    for memory in (1, 2, 3, 4):
        house.task(jobs=50, base_ram=memory)
    house.take("broker")
    house.take("provision")
    house.take("provision")
    by_server = {name: [p.id for p in pilots(house) if p.broker == name] for name in names}
    assert all(by_server.values())
    assert {name: sorted(order.pilot for order in elements[name].orders) for name in names} == {
        name: sorted(ids) for name, ids in by_server.items()
    }
    house.now += 6 * 3600
    house.take("watch")
    for name, ids in by_server.items():
        assert sorted(elements[name].cancelled) == sorted(f"reference-{id_}" for id_ in ids)


def test_p6_servers_that_are_ranked_are_asked_how_full_they_are(house: House, element: FakeElement) -> None:
    servers = tuple(Server(name=name, options={"free": free}) for name, free in (("full", 0), ("idle", 90)))
    ranked = ComputingElement(kind="fake", max_pilots=40, servers=servers, rank="free")
    house.federate(computing_element=ranked)

    class Told(FakeElement):
        def __init__(self, free: int) -> None:
            super().__init__()
            self.free = free

        def capacity(self) -> Capacity:
            return Capacity(slots=100, running=100 - self.free, waiting=0)

    house.runtime.elements._load = lambda declared: Told(declared.options["free"])
    constants(house, period=1e-3, pilots_per_iteration=4, lowest_cpu_boost=1_080_000)
    house.take("provision")
    before = {pilot.id for pilot in pilots(house)}
    house.now += 1
    house.take("provision")
    assert {pilot.broker for pilot in pilots(house) if pilot.id not in before} == {"idle"}


def test_pilots_that_the_batch_system_forgot_make_room_for_others(house: House, element: FakeElement) -> None:
    """A killed Slurm forgot them; for six hours they counted as waiting."""
    house.take("provision")
    house.take("provision")
    forgotten = {pilot.id for pilot in pilots(house)}
    element.status = PilotStatus(state="unknown", reason="not listed", missing=True)
    for pause in (1, 300, 299):
        house.now += pause
        house.take("provision")
    element.status = PilotStatus(state="waiting")
    house.take("provision")
    assert not element.cancelled, "it was not missing for long enough"
    element.status = PilotStatus(state="unknown", reason="not listed", missing=True)
    for pause in (1, 300, 300, 1):
        house.now += pause
        house.take("provision")
    lost = {pilot.id for pilot in pilots(house) if pilot.error == "lost by its batch system: not listed"}
    assert lost == forgotten
    assert sorted(element.cancelled) == sorted(f"reference-{id_}" for id_ in forgotten)
    house.now += 60
    house.take("provision")
    assert {pilot.id for pilot in pilots(house)} > forgotten, "after a pause of the queue"


def test_p8_a_batch_system_is_asked_once_in_five_minutes(house: House, element: FakeElement) -> None:
    class Asked(FakeElement):
        resource_count = 0
        questions = 0

        def resources(self, size: PilotSize) -> int:
            self.questions += 1
            return self.resource_count

    asked = house.element = Asked()
    house.federate(computing_element=ComputingElement(kind="fake", max_pilots=3, list_match=True))
    for _ in range(4):
        house.take("provision")
        house.now += 60
    assert (asked.questions, len(asked.orders)) == (1, 0)
    asked.resource_count = 7
    house.now += KEPT_FOR
    house.take("provision")
    house.take("provision")
    assert (asked.questions, len(asked.orders)) == (2, 3)


def test_p8_with_the_first_server_dead_the_second_has_the_pilots(house: House, element: FakeElement) -> None:
    class Told(FakeElement):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name
            self.questions = 0

        def resources(self, size: PilotSize) -> int:
            self.questions += 1
            if self.name == "dead":
                raise OSError("no route to host")
            return 7

    told = {name: Told(name) for name in ("dead", "alive")}
    servers = tuple(Server(name=name, options={"name": name}) for name in told)
    house.federate(
        computing_element=ComputingElement(kind="fake", max_pilots=3, list_match=True, servers=servers)
    )
    house.runtime.elements._load = lambda declared: told[declared.options["name"]]
    for _ in range(3):
        house.take("provision")
        house.now += 5
    assert {pilot.broker for pilot in pilots(house) if not pilot.error} == {"alive"}
    assert told["dead"].questions == 1, "its breaker is open"
    (silent,) = house.runtime.elements.inquiries.silent_servers()
    assert (silent.place[1], silent.failures, silent.error) == ("dead", 1, "no route to host")
    house.now = silent.until
    house.task(base_ram=3)
    house.take("broker")
    house.take("provision")
    (silent,) = house.runtime.elements.inquiries.silent_servers()
    assert silent.failures == 2
    assert silent.until == house.now + 120, "twice as long each time"


def test_p8_where_nobody_can_tell_pilots_are_submitted(house: House, element: FakeElement) -> None:
    house.federate(computing_element=ComputingElement(kind="fake", max_pilots=3, list_match=True))
    house.take("provision")
    house.take("provision")
    assert len(element.orders) == 3


def test_m8_two_decisions_from_the_same_world_pass_the_throttle_of_a_site_together_by_none(
    house: House, element: FakeElement
) -> None:
    known = house.store.federation()
    sites = (Site(name="north", nucleus=True, max_jobs=2), Site(name="south"))
    house.store.save_federation(replace(known, sites=sites), "test")
    house.take("advertise")
    world = world_of(house.store, "provision", house.now, 1)
    decision = director.provision(world)
    again = replace(decision, changes=decision.changes[1:])
    first = house.store.commit(decision, "provision")
    second = house.store.commit(again, "provision")
    assert [len([id_ for ids in made.created for id_ in ids if id_]) for made in (first, second)] == [2, 0]


def test_p11_pools_follow_the_federation_and_name_the_log(
    house: House, element: FakeElement, caplog: pytest.LogCaptureFixture
) -> None:
    constants(house, submit_pools={"night": SubmitPool()}, default_submit_pools=("night",))
    with caplog.at_level(logging.INFO):
        house.take("provision")
    assert {pilot.submit_pool for pilot in pilots(house)} == {"night"}
    assert "pilotage.submit_pools.night" in {record.name for record in caplog.records}
    assert [report.pool for report in house.runtime.elements.pools.reports()] == ["night"]


def test_p12_balanced_is_what_the_running_service_does_when_it_is_asked_to(
    house: House, element: FakeElement
) -> None:
    house.federate(computing_element=ComputingElement(kind="fake", max_pilots=1000))
    constants(house, policy="balanced", pilots_per_iteration=17, work_per_slot=1)
    for number in range(1, 4):
        house.take("provision")
        assert len(element.orders) == min(50, 17 * number)
        house.now += 60
