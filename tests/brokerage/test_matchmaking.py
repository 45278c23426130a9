"""The matchmaking brokerage: rules M1 to M8, each by example."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pilotage.explain.analysis import explain
from pilotage.explain.rendering import lines
from pilotage.model.documents.decision import Choice, Decision
from pilotage.model.documents.world import JobCount, TaskCount, World
from pilotage.model.records.advertisements import Advertisement, parsed
from pilotage.model.records.counters import MATCHES_BY_SITE
from pilotage.model.records.failures import Failure
from pilotage.model.records.federation import ComputingElement, Federation, Hardware, Queue, Server
from pilotage.model.records.states import JobState
from pilotage.model.rules.site_limits import ANY_NUMBER
from pilotage.policies.brokerage import OptionError
from pilotage.policies.brokerage.contract import violations
from pilotage.policies.brokerage.engine.site_ads import site_ads
from pilotage.policies.brokerage.matchmaking.cycle import Matchmaking
from pilotage.testing import NOW, federation, jobs, queue, task, world

TWO = (queue("NEAR"), queue("FAR", site="AWAY"))


def house(*queues: Queue, storages: dict[str, dict[str, Any]] | None = None, **sites: Any) -> Federation:
    """A federation whose sites have these fields, all the same."""
    made = federation(queues or TWO, storages=storages)
    return replace(made, sites=tuple(replace(site, **sites) for site in made.sites))


def told(site: str, *, pilots: int = 0, age: float = 10, **fields: Any) -> Advertisement:
    """An advertisement of a site where so many of our pilots live."""
    values: dict[str, Any] = {"source": "native", "number": 1, "submitting": 0}
    return Advertisement(site=site, time=NOW - age, pilots=pilots, **values | fields)


def at(name: str, count: int, state: JobState = JobState.RUNNING) -> JobCount:
    """So many jobs at a queue."""
    return JobCount(queue=name, share="default", state=state, jobs=count)


def asked(
    of: Federation, *ads: Advertisement, many: int = 1, there: Sequence[JobCount] = (), **spec: Any
) -> World:
    """A world with jobs of one task, at sites that advertised moments ago, beside those that are there."""
    one = task(1, **spec)
    named = {ad.site for ad in ads}
    others = [told(site.name) for site in of.sites if site.name not in named]
    return world(of, one, jobs=jobs(one, many), advertisements=(*ads, *others), job_counts=tuple(there))


def decided(state: World) -> Decision:
    """The decision, which keeps every promise of a brokerage."""
    plugin = Matchmaking()
    assert violations(plugin, state) == []
    return plugin.decide(state)


def placed(state: World) -> Counter[str]:
    """How many jobs went to each queue."""
    return sum((Counter(choice.placed) for choice in decided(state).choices), Counter[str]())


def last(state: World) -> Choice:
    """The choice of those that matched nothing, or of all."""
    return decided(state).choices[-1]


def refusals(state: World) -> dict[tuple[str, str], dict[str, tuple[Any, Any]]]:
    """Need and have by rule and name, then by queue, of the last choice."""
    return {
        (refusal.rule, refusal.name): {
            name: (refusal.need[at] if isinstance(refusal.need, tuple) else refusal.need, refusal.have[at])
            for at, name in enumerate(refusal.queues)
        }
        for refusal in last(state).refusals
    }


def test_m3_a_station_of_the_list_is_drawn() -> None:
    of = house(*TWO, queue("THIRD", site="OTHER"), storages={"AWAY": {"station": "fnal"}})
    assert placed(asked(of, many=40, stations=("fnal",))) == {"FAR": 40}
    both = placed(asked(of, many=40, stations=("fnal", "OTHER")))
    assert both.keys() == {"FAR", "THIRD"}
    (refusal,) = last(asked(of, stations=("fnal",))).refusals
    assert refusal.have == ("StationNames = ['HOME']", "StationNames = ['OTHER']")


def test_m4_the_jobs_expression_names_what_is_false_and_its_values() -> None:
    of = house(queue("NEAR", max_memory=2000), queue("FAR", site="AWAY", max_memory=3000))
    state = asked(of, site_requirements='TARGET.MaxMemory >= 4000 && TARGET.Name != "HOME"')
    assert refusals(state) == {
        ("M4", "the job's TARGET.MaxMemory >= 4000"): {"FAR": (4000, 3000), "NEAR": (4000, 2000)},
        ("M4", 'the job\'s TARGET.Name != "HOME"'): {"NEAR": ('TARGET.Name != "HOME"', "Name = HOME")},
    }
    assert last(state).jobs == (1,)


def test_m4_the_sites_expression_names_what_is_false_and_its_values() -> None:
    of = house(
        requirements='TARGET.Owner != "bob" && TARGET.RequestMemory <= Share * 1000', attributes={"Share": 2}
    )
    assert placed(asked(of, ram=2000, ram_unit="MB")).total() == 1
    state = asked(of, ram=3000, ram_unit="MB")
    assert refusals(state) == {
        ("M4", "the site's TARGET.RequestMemory <= Share * 1000"): {
            "FAR": (3000, 2000),
            "NEAR": (3000, 2000),
        }
    }


def test_m4_what_is_undefined_is_not_true() -> None:
    state = asked(house(), site_requirements="TARGET.Nothing > 3")
    assert refusals(state) == {
        ("M4", "the job's TARGET.Nothing > 3"): dict.fromkeys(
            ("FAR", "NEAR"), ("TARGET.Nothing > 3", "nothing = undefined")
        )
    }


def test_m4_among_the_highest_rank_one_is_drawn_then_a_queue_of_it() -> None:
    of = house(queue("A1"), queue("A2"), queue("B1", site="B"), queue("C1", site="C"))
    of = replace(
        of, sites=tuple(replace(s, attributes={"Speed": 1 if s.name == "C" else 2}) for s in of.sites)
    )
    found = placed(asked(of, many=200, site_rank="TARGET.Speed"))
    assert found.keys() == {"A1", "A2", "B1"}
    assert 60 < found["B1"] < 140
    assert 25 < found["A1"] < 75


def test_m4_a_rank_may_follow_what_was_matched() -> None:
    found = placed(asked(house(), many=30, site_rank="0 - TARGET.CurMatches"))
    assert found == {"NEAR": 15, "FAR": 15}


def test_m4_a_queue_that_cannot_run_it_is_refused_though_its_site_matches() -> None:
    of = house(queue("SMALL", max_memory=1000), queue("LARGE", max_memory=9000))
    state = asked(of, ram=5000)
    assert placed(state) == {"LARGE": 1}
    assert refusals(state) == {("M4", "queue's memory"): {"SMALL": (5000, 1000)}}


def test_m4_b14_hardware_that_an_architecture_names_is_at_the_queue() -> None:
    """A job matched to a queue with other hardware would never start, or fail there."""
    amd = Hardware(type="gpu", vendor=("amd",), model=("any",))
    nvidia = Hardware(type="gpu", vendor=("nvidia",), model=("any",))
    arm = Hardware(type="cpu", arch=("aarch64",))
    of = house(
        queue("PLAIN"),
        queue("ARM", architectures=(arm,)),
        queue("AMD", architectures=(amd,)),
        queue("NVIDIA", site="AWAY", architectures=(nvidia,)),
        queue("KEPT", site="AWAY", architectures=(replace(nvidia, vendor=("nvidia", "excl")),)),
    )
    for architecture, queues in {
        "&nvidia-a100": {"NVIDIA", "KEPT"},
        "&amd": {"AMD"},
        "#aarch64": {"PLAIN", "ARM", "AMD", "NVIDIA"},
        "#x86_64": {"PLAIN", "AMD", "NVIDIA"},
        "": {"PLAIN", "ARM", "AMD", "NVIDIA"},
    }.items():
        assert placed(asked(of, many=60, architecture=architecture)).keys() == queues, architecture
    assert refusals(asked(of, architecture="&nvidia")).keys() == {
        ("M4", "queue's GPUs"),
        ("M4", "queue's hardware"),
    }


def test_m5_m6_no_more_than_max_jobs_counting_what_is_there() -> None:
    there = [at("NEAR", 2), at("NEAR", 1, JobState.ASSIGNED), at("FAR", 5, JobState.ACTIVATED)]
    state = asked(house(max_jobs=5), many=10, there=there)
    assert placed(state) == {"NEAR": 2}
    assert refusals(state) == {
        ("M6", "CurMatches < MaxJobs"): dict.fromkeys(
            ("NEAR", "FAR"), ("CurMatches < MaxJobs", "CurMatches = 5, MaxJobs = 5")
        ),
    }


def test_m5_m6_no_more_than_max_submitting_jobs_counting_what_was_matched() -> None:
    of = house(max_submitting_jobs=4)
    there = [at("NEAR", 3, JobState.SENT), at("NEAR", 50), at("FAR", 4, JobState.ASSIGNED)]
    state = asked(of, told("HOME", matched=2), many=10, there=there)
    assert placed(state) == {"NEAR": 1}
    name = "JobsMatchedSinceLastAdvertisement + CurrentSubmittingJobs < MaxSubmittingJobs"
    needs, has = refusals(state)["M6", name]["NEAR"]
    assert needs == name
    assert "JobsMatchedSinceLastAdvertisement = 3" in str(has)
    assert "MaxSubmittingJobs = 4" in str(has)


@pytest.mark.parametrize("matched", [0, 1, 9])
def test_m5_matches_counts_and_their_difference_agree_whatever_was_matched_since(matched: int) -> None:
    """Jobs count while they are there; those that run, or have ended, are on their way no more."""
    there = [at("NEAR", 2, JobState.ACTIVATED), at("NEAR", 3)]
    ad = told("HOME", pilots=1, submitting=1, matched=matched, attributes={"CurrentJobs": 4})
    (site,) = site_ads(asked(house(queue("NEAR")), ad, there=there))
    for more in range(3):
        counts = site.counts(more)
        since = counts["JobsMatchedSinceLastAdvertisement"]
        # Three batch jobs are none of our pilots.
        assert counts["CurMatches"] == 5 + 3 + more == counts["CurrentJobs"] + since
        assert counts["CurrentSubmittingJobs"] + since == 2 + more
        assert since == min(matched, 2) + more


def test_m5_jobs_of_others_count_as_the_site_told_them() -> None:
    """``CurrentJobs`` of a site contains our pilots: what is left of it are the jobs of others."""
    ad = told("HOME", source="pushed", pilots=3, attributes={"CurrentJobs": 7})
    assert placed(asked(house(queue("NEAR"), max_jobs=10), ad, many=20, there=[at("NEAR", 2)])) == {"NEAR": 4}
    fewer = replace(ad, attributes={"CurrentJobs": 1})
    assert placed(asked(house(queue("NEAR"), max_jobs=10), fewer, many=20)) == {"NEAR": 10}


def test_m5_empty_pilots_leave_room_for_the_jobs_that_they_wait_for() -> None:
    ad = told("HOME", pilots=4, pilot_slots=5)
    assert placed(asked(house(queue("NEAR"), max_jobs=5), ad, many=9)) == {"NEAR": 5}


def test_m5_what_is_claimed_is_the_advertisement() -> None:
    state = asked(house(queue("NEAR"), max_jobs=5), told("HOME", matched=1, number=7), many=2)
    (move,) = decided(state).moves
    (claim,) = move.claims
    assert (claim.counter, claim.key, claim.limit) == (MATCHES_BY_SITE, ("HOME", 7), ANY_NUMBER)


def test_m5_other_expressions_of_matches_are_claimed_exactly() -> None:
    of = house(queue("NEAR"), requirements="CurMatches % 10 != 4")
    state = asked(of, told("HOME", matched=1, number=7), many=9, there=[at("NEAR", 1)])
    moves = decided(state).moves
    assert [(len(move.ids), [claim.limit for claim in move.claims]) for move in moves] == [(3, [4]), (6, [])]


def test_m6_the_simple_variant_and_a_limit_on_pending_jobs() -> None:
    simple = house(queue("NEAR"), max_jobs=3, throttle="current")
    assert placed(asked(simple, many=9, there=[at("NEAR", 2)])) == {"NEAR": 1}
    has = refusals(asked(simple, there=[at("NEAR", 3)]))["M6", "CurrentJobs < MaxJobs"]["NEAR"]
    assert has == ("CurrentJobs < MaxJobs", "CurrentJobs = 3, MaxJobs = 3")
    over = refusals(asked(simple, there=[at("NEAR", 9)]))["M6", "CurrentJobs < MaxJobs"]["NEAR"]
    assert over == (3, 9)
    submitting = house(queue("NEAR"), max_jobs=9, throttle="current", max_submitting_jobs=2)
    assert placed(asked(submitting, many=9, there=[at("NEAR", 2)])) == {"NEAR": 2}
    pending = house(queue("NEAR"), max_pending_jobs=10)
    state = asked(pending, told("HOME", attributes={"PendingJobs": 8}), many=9)
    assert placed(state) == {"NEAR": 2}


EXAMPLES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "`max_jobs: 200`": ({"max_jobs": 200}, {"attributes": {"CurrentJobs": 200}}),
    "`max_submitting_jobs: 20`": (
        {"max_submitting_jobs": 20},
        {"attributes": {"CurrentSubmittingJobs": 20}},
    ),
    "`max_pending_jobs: 10`": ({"max_pending_jobs": 10}, {"attributes": {"PendingJobs": 10}}),
    "`max_jobs: 200`, `throttle: current`": (
        {"max_jobs": 200, "throttle": "current"},
        {"attributes": {"CurrentJobs": 200}},
    ),
    '`requirements: TARGET.ProcessingType != "evgen"`': (
        {"requirements": 'TARGET.ProcessingType != "evgen"'},
        {},
    ),
    "`max_jobs: 0`": ({"max_jobs": 0}, {}),
    "`requirements: time() % 86400 > 21600`": ({"requirements": "time() % 86400 > 21600"}, {}),
}
"""Examples of the guide that keep jobs away: what is declared, and an ad with which they do."""


@pytest.mark.parametrize("example", EXAMPLES)
def test_m6_each_example_of_the_guide_keeps_jobs_away_and_only_then(example: str) -> None:
    """Avoid, suppress, delay: the limits and expressions of the guide, as they stand there."""
    declared, ad = EXAMPLES[example]
    assert example in Path("docs/how-to/matchmaking.md").read_text()
    night = NOW - NOW % 86400 + 3600
    state = asked(house(queue("NEAR"), **declared), told("HOME", **ad), processing_type="evgen")
    closed = replace(state, time=night, advertisements=(told("HOME", age=NOW - night, **ad),))
    assert placed(closed) == {}
    lifted = {"max_jobs": 1} if declared.get("max_jobs") == 0 else declared
    noon = replace(asked(house(queue("NEAR"), **lifted), told("HOME"), processing_type="simul"), time=night)
    noon = replace(noon, time=night + 39600, advertisements=(told("HOME", age=NOW - night - 39600),))
    assert placed(noon) == {"NEAR": 1}


def test_m6_time_and_chance_are_the_worlds() -> None:
    of = house(requirements="time() % 86400 >= 0 && time() == AdvertisedAt + 10")
    assert placed(asked(of)).total() == 1
    drawn = asked(house(), many=50, site_rank="random()")
    assert len(placed(drawn)) == 1


def test_m4_the_rank_is_told_by_its_name() -> None:
    (choice, *_) = decided(asked(house(), site_rank="0 - TARGET.CurMatches", many=2)).choices
    told_ = "\n".join(lines(explain(choice)))
    assert "Rank 0" in told_
    assert "weight" not in told_


def test_f1_f2_vos_and_rests_are_those_of_every_brokerage() -> None:
    of = house(queue("NEAR", vos=("belle",)), queue("FAR", site="AWAY"))
    one = Failure(
        job=1,
        attempt=1,
        task=9,
        owner="ann",
        vo="",
        queue="FAR",
        node="n",
        pilot=1,
        pilots=1,
        time=NOW - 1,
        lasted=1,
        at_queue="place",
    )
    failures = [
        replace(one, job=10 * task + job, task=task, owner=owner)
        for task, owner in ((1, "ann"), (2, "ann"), (3, "bob"), (4, "bob"))
        for job in range(9)
    ]
    state = replace(asked(of), failures=tuple(failures))
    found = {(rule, name): where.keys() for (rule, name), where in refusals(state).items()}
    assert found == {("F1", "VO"): {"NEAR"}, ("F2", "failing jobs"): {"FAR"}}


def test_m7_what_matches_nothing_waits_for_the_next_cycle() -> None:
    state = asked(house(max_jobs=0))
    (move,) = decided(state).moves
    assert move.target is JobState.PENDING
    wake = move.changes["wake_at"]
    assert isinstance(wake, float)
    assert wake % 300 == 0
    assert NOW < wake <= NOW + 300


def test_m7_higher_priority_first() -> None:
    low, high = task(1, priority=100), task(2, priority=900)
    state = world(
        house(queue("NEAR"), max_jobs=1),
        low,
        high,
        advertisements=(told("HOME"),),
    )
    (move,) = [move for move in decided(state).moves if move.target is JobState.ACTIVATED]
    assert move.ids == (2,)


def waiting(low: int, high: int, limit: int | None = 3, **site: Any) -> World:
    """A new job of a low priority while so many of a high one wait for the next cycle at one site."""
    new, old = task(1, priority=low), task(2, priority=high)
    state = world(
        house(queue("NEAR"), max_jobs=limit, **site), new, jobs=jobs(new), advertisements=(told("HOME"),)
    )
    soon = NOW - NOW % 300 + 300
    ahead = tuple(replace(job, state=JobState.PENDING, wake_at=soon) for job in jobs(old, 2, first=10))
    return replace(state, tasks=(new, old), ahead=ahead)


def test_m7_no_place_is_taken_between_cycles_that_a_waiting_job_of_higher_priority_could_take() -> None:
    assert placed(waiting(1, 900, limit=2)) == {}
    assert refusals(waiting(1, 900, limit=2)) == {
        ("M7", "places left"): {"NEAR": ("no waiting job of higher priority", "one that waits")}
    }
    # Two wait, and there is room for a third.
    assert placed(waiting(1, 900, limit=3)) == {"NEAR": 1}
    # Equals and those below wait for their turn.
    assert placed(waiting(900, 900, limit=1)) == {"NEAR": 1}
    # Where places are not scarce, none is taken from anybody.
    assert placed(waiting(1, 900, limit=None)) == {"NEAR": 1}


def test_m7_only_what_a_waiting_job_could_take_is_kept_for_it() -> None:
    state = waiting(1, 900, limit=2)
    elsewhere = replace(state.tasks[1], spec=replace(state.tasks[1].spec, site_requirements="false"))
    assert placed(replace(state, tasks=(state.tasks[0], elsewhere))) == {"NEAR": 1}
    # It waits for its storage, and not for the next cycle.
    later = tuple(replace(job, wake_at=NOW + 3000) for job in state.ahead)
    assert placed(replace(state, ahead=later)) == {"NEAR": 1}


def test_m7_jobs_of_higher_priority_that_a_pass_does_not_read_keep_their_places() -> None:
    """A pass reads some jobs of each task: the others of a task of high priority wait as well."""
    low, high = task(1, priority=1), task(2, priority=900)
    state = world(
        house(queue("NEAR"), max_jobs=4),
        low,
        high,
        jobs=(*jobs(low, 2), *jobs(high, 2, first=10)),
        advertisements=(told("HOME"),),
        task_counts=(TaskCount(task=2, state=JobState.DEFINED, jobs=4),),
    )
    sent = {id_ for move in decided(state).moves if move.target is JobState.ACTIVATED for id_ in move.ids}
    assert sent == {10, 11}
    more = replace(state.federation, sites=tuple(replace(one, max_jobs=5) for one in state.federation.sites))
    sent = {
        id_
        for move in decided(replace(state, federation=more)).moves
        if move.target is JobState.ACTIVATED
        for id_ in move.ids
    }
    assert len(sent) == 3


def test_m7_where_a_sites_own_words_count_matches_any_waiting_job_keeps_the_place() -> None:
    assert placed(waiting(1, 900, limit=None, requirements="CurMatches < 3")) == {}


@pytest.mark.parametrize("age", [899, 901])
def test_m2_an_advertisement_stops_matching_after_three_periods(age: float) -> None:
    state = asked(house(queue("NEAR")), told("HOME", age=age))
    assert placed(state) == ({"NEAR": 1} if age < 900 else {})
    if age > 900:
        (has,) = refusals(state)["M2", "advertisement"].values()
        assert has == (
            "a fresh one",
            "advertised 901 s ago, more than 3 periods of 300 s: its batch system has not answered since "
            f"{datetime.fromtimestamp(NOW - 901, UTC):%Y-%m-%d %H:%M:%S} UTC",
        )


def test_m2_a_site_that_never_advertised_matches_nothing() -> None:
    state = world(house(queue("NEAR")), task(1))
    assert refusals(state)["M2", "advertisement"] == {
        "NEAR": ("a fresh one", "its batch system has not answered yet")
    }


def test_m2_one_bad_ad_stops_no_cycle() -> None:
    bad = told("AWAY", source="pushed", requirements='regexp("(a+)+$", TARGET.Owner)')
    state = asked(house(), bad, many=3)
    assert placed(state) == {"NEAR": 3}
    (name,) = {name for rule, name in refusals(state) if rule == "M4"}
    assert name.startswith("the site's unreadable Requirements: character 1: regexp() may take for ever")


def test_m2_an_ad_tells_what_is_declared_and_what_is_counted() -> None:
    of = house(
        queue("NEAR", max_memory=2000), max_jobs=9, monitoring_url="https://m", attributes={"Tier": "1"}
    )
    (ad,) = site_ads(asked(of, told("HOME", matched=1, attributes={"MaxJobs": 7}), there=[at("NEAR", 3)]))
    text = ad.text()
    for line in (
        'StationName = "HOME";',
        "MaxJobs = 7;",
        "CurMatches = 3;",
        'Tier = "1";',
        'MonitoringUrl = "https://m"',
    ):
        assert line in text


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"PendingJobs": "x"}, "PendingJobs is 'x', no count from 0 to 1000000000"),
        ({"pendingjobs": -1}, "PendingJobs is -1, no count"),
        ({"maxpendingjobs": 1.5}, "MaxPendingJobs is 1.5, no count"),
        ({"MaxJobs": True}, "MaxJobs is True, no count"),
        ({"CurrentJobs": [1]}, "CurrentJobs is [1], no count"),
        ({"STATIONNAMES": 7}, "StationNames is 7, no list of texts"),
        ({"Cpus": 10**30}, "Cpus is no text, truth value, number"),
        ({"Speed": float("nan")}, "Speed is no text, truth value, number"),
        ({"true": 1}, "true is no name of an attribute"),
        ({"MaxMemory": {"a": 1}}, "MaxMemory is no text"),
    ],
)
def test_m2_what_is_wrong_with_a_stored_ad_concerns_its_site_alone(
    attributes: dict[str, Any], words: str
) -> None:
    """An older version took such ads: the others match, and this one says what is wrong."""
    of = house(max_jobs=50, max_pending_jobs=50)
    state = asked(of, told("AWAY", source="pushed", attributes=attributes), many=3)
    assert placed(state) == {"NEAR": 3}
    (has,) = [have for _, have in refusals(replace(state, jobs=state.jobs))["M2", "advertisement"].values()]
    assert f"its advertisement cannot be used: {words}" in has
    assert {ad.name: bool(ad.text()) for ad in site_ads(state)} == {"AWAY": True, "HOME": True}


def test_m2_limits_hold_in_whatever_case_a_site_writes_them() -> None:
    ad = told("HOME", source="pushed", attributes=parsed("[ MAXPENDINGJOBS = 2 ]", "HOME").attributes)
    assert placed(asked(house(queue("NEAR")), ad, many=9)) == {"NEAR": 2}


def test_m2_the_entry_point_is_the_address_of_the_computing_element() -> None:
    def near(element: ComputingElement) -> Any:
        (ad,) = site_ads(asked(house(queue("NEAR", computing_element=element))))
        return ad.attributes["EntryPoint"], ad.attributes["EntryPoints"]

    ce = ComputingElement(kind="arc", options={"endpoint": "https://me:secret@ce.example:443/arex?token=x"})
    assert near(ce) == ("https://ce.example:443/arex", ("https://ce.example:443/arex",))
    assert near(ComputingElement(kind="slurm", options={"partition": "long"}))[0] == "slurm://localhost/long"
    assert near(ComputingElement(kind="pbs", options={"host": "me@login:22"}))[0] == "pbs://me@login:22"
    two = tuple(Server(name=name, options={"collector": f"{name}:9618"}) for name in ("a", "b"))
    servers = near(ComputingElement(kind="htcondor", servers=two))
    assert servers == ("htcondor://a:9618", ("htcondor://a:9618", "htcondor://b:9618"))


def test_m2_the_station_names_that_a_site_tells_are_its_own() -> None:
    of = house(queue("NEAR"), queue("FAR", site="AWAY"))
    ad = told("HOME", source="pushed", attributes={"StationNames": ("dzero", "mc")})
    assert placed(asked(of, ad, many=4, stations=("mc",))) == {"NEAR": 4}
    assert placed(asked(of, ad, many=4, stations=("HOME",))) == {}
    one = told("HOME", source="pushed", attributes={"StationName": "dzero"})
    assert placed(asked(of, one, many=4, stations=("dzero",))) == {"NEAR": 4}
    texts = {site.name: site.text() for site in site_ads(asked(of, ad))}
    assert 'StationNames = { "dzero", "mc" };' in texts["HOME"]
    assert 'StationName = "dzero";' in texts["HOME"]
    assert 'StationNames = { "AWAY" };' in texts["AWAY"]


def test_the_matchmaking_has_no_options() -> None:
    with pytest.raises(OptionError, match="there is no such option"):
        Matchmaking({"off": ["M6"]})


def test_e1_jobs_are_bound_to_the_site_that_is_drawn() -> None:
    state = asked(house(queue("NEAR"), queue("FAR", site="AWAY")), many=2)
    assert state.federation.binding.default == "elastic"
    assert {move.binding for move in decided(state).moves} == {"early"}
