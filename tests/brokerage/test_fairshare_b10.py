"""B10: the fair-share policy of a queue, every form of its grammar, and what it refuses."""

from dataclasses import replace

import pytest

from pilotage.model.records.work import MergeSpec, Task
from pilotage.model.values.fairshare import FairshareWork, PolicyError, parse
from pilotage.model.values.identity import Identity
from pilotage.policies.brokerage.engine.queue_columns import QueueColumns
from pilotage.testing import federation, queue, task, world
from pilotage.testing.choices import decide, only_choice, refusal, refusals, refused


@pytest.mark.parametrize(
    ("policy", "work", "refuses"),
    [
        ("", FairshareWork(), False),
        ("type=evgen:0%", FairshareWork(type="evgen"), True),
        ("type=evgen:1%", FairshareWork(type="evgen"), False),
        ("type=evgen:0%", FairshareWork(type="evgenlike"), False),
        ("type=evgen:0%", FairshareWork(type="my-evgen"), False),
        ("type=evgensimul:0%", FairshareWork(type="evgen"), True),
        ("type=evgensimul:0%", FairshareWork(type="simul"), True),
        ("type=evgensimul:0%", FairshareWork(type="evgensimul"), False),
        ("type=test:0%", FairshareWork(type="test"), True),
        ("type=test:0%", FairshareWork(type="prod_test"), True),
        ("type=test:0%", FairshareWork(type="rc_Test2"), True),
        ("type=test:0%", FairshareWork(type="reprocessing"), False),
        ("type=any:0%", FairshareWork(type="reco"), True),
        ("type=any:0%", FairshareWork(), True),
        ("type=*:0%", FairshareWork(type="reco"), True),
        ("type=re.*:0%", FairshareWork(type="reprocessing"), True),
        ("group=phys-.*:0%", FairshareWork(group="phys-higgs"), True),
        ("group=(phys|soft)*-*:0%", FairshareWork(group="software-x"), True),
        ("group=phys:0%", FairshareWork(group="phys-higgs"), False),
        ("group=any:0%", FairshareWork(), True),
        ("group=*:0%", FairshareWork(group="x"), True),
        ("gshare=Express|Test:0%", FairshareWork(gshare="Express"), True),
        ("gshare=Express|Test:0%", FairshareWork(gshare="Expressed"), False),
        ("gshare=any:0%", FairshareWork(gshare="x"), True),
        ("priority<500:0%", FairshareWork(priority=499), True),
        ("priority<500:0%", FairshareWork(priority=500), False),
        ("priority<=500:0%", FairshareWork(priority=500), True),
        ("priority<=500:0%", FairshareWork(priority=501), False),
        ("priority>500:0%", FairshareWork(priority=501), True),
        ("priority>500:0%", FairshareWork(priority=500), False),
        ("priority>=500:0%", FairshareWork(priority=500), True),
        ("priority>=500:0%", FairshareWork(priority=499), False),
        ("priority=500:0%", FairshareWork(priority=500), True),
        ("priority==500:0%", FairshareWork(priority=501), False),
        ("priority!=500:0%", FairshareWork(priority=501), True),
        ("priority!=500:0%", FairshareWork(priority=500), False),
        ("type=evgen:group=phys:0%", FairshareWork(type="evgen", group="phys"), True),
        ("type=evgen:group=phys:0%", FairshareWork(type="evgen", group="det"), False),
        ("type=evgen:priority>500:0%", FairshareWork(type="evgen", priority=500), False),
        ("type=evgen:00%", FairshareWork(type="evgen"), True),
        (" type=evgen : 0% , type=any:100%,", FairshareWork(type="evgen"), True),
        ("type=evgen:0", FairshareWork(type="evgen"), True),
        ("group=phys-*:0%", FairshareWork(group="phys-higgs"), True),
        ("group=*higgs:0%", FairshareWork(group="phys-higgs"), True),
        ("group=*higgs:0%", FairshareWork(group="phys-susy"), False),
        ("type=*:0%", FairshareWork(), True),
    ],
)
def test_b10_each_form_of_the_grammar(policy: str, work: FairshareWork, refuses: bool) -> None:
    assert parse(policy).refuses(work) is refuses


def test_b10_the_first_entry_that_matches_decides() -> None:
    policy = parse("type=evgen:0%,type=ev.*:50%,type=any:0%")
    assert policy.refuses(FairshareWork(type="evgen"))
    assert not policy.refuses(FairshareWork(type="event"))
    assert policy.refuses(FairshareWork(type="reco"))


def test_b10_work_that_no_entry_matches_has_what_the_entries_leave_of_the_queue() -> None:
    assert not parse("type=evgen:0%,group=phys:0%").refuses(FairshareWork(type="reco", group="det"))
    assert not parse("group=x:20%").refuses(FairshareWork(type="reco"))
    assert parse("type=evgensimul:100%").refuses(FairshareWork(type="reco"))
    assert parse("type=evgen:60%,type=simul:40%").refuses(FairshareWork(type="reco"))
    assert not parse("type=evgen:60%,type=simul:39%").refuses(FairshareWork(type="reco"))


def test_b10_a_merge_job_ignores_the_priority() -> None:
    policy = parse("priority<500:0%,type=evgen:100%")
    assert policy.refuses(FairshareWork(type="evgen", priority=100))
    assert not policy.refuses(FairshareWork(type="evgen", priority=100, merge=True))
    assert policy.refuses(FairshareWork(type="reco", priority=100, merge=True))
    house = federation([queue("HIGH", fairshare_policy="priority<500:0%")])
    assert refused(house, "B10", priority=100) == {"HIGH"}
    merge = MergeSpec(command=("merge",), outputs=("all",))
    assert refused(house, "B10", priority=100, kind="merge", merge=merge) == set()


def test_b10_a_fault_names_its_column() -> None:
    with pytest.raises(PolicyError, match="column 16: 'tipe=any:10%'"):
        parse("type=evgen:0%, tipe=any:10%")


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        ("type=any", "'type=any' has no :n% at its end"),
        ("100%", "'100%' has no :n% at its end"),
        ("type=any:ten%", "'type=any:ten%' has no :n% at its end"),
        ("type=any:-1%", "'type=any:-1%' has no :n% at its end"),
        ("type=any:101%", "'type=any:101%' gives more than 100%"),
        ("type=evgen:0%,tipe=any:10%", "'tipe=any:10%' has the condition 'tipe=any', which is none of"),
        ("type=:10%", "has the condition 'type=', which is none of"),
        ("priority>high:10%", "has the condition 'priority>high', which is none of"),
        ("priority=>5:10%", "has the condition 'priority=>5', which is none of"),
        ("group=phys(:10%", r"has the pattern 'phys\(', which is no regular expression"),
        ("group=*a*a*-:10%", r"which has more than 2 of \* \+ \? \{ and 8 \|"),
        (f"group={'(a|a)' * 9}:10%", r"which has more than 2 of \* \+ \? \{ and 8 \|"),
        ("group=(a+)+-:10%", "which repeats a group in brackets"),
    ],
)
def test_b10_a_policy_that_does_not_parse_says_where_and_why(policy: str, problem: str) -> None:
    with pytest.raises(PolicyError, match=problem):
        parse(policy)


def test_b10_a_queue_without_a_share_for_the_work_refuses_it() -> None:
    house = federation([queue("MC", fairshare_policy="type=evgensimul:100%,type=any:0%"), queue("ALL")])
    assert refused(house, "B10", processing_type="reco") == {"MC"}
    assert refused(house, "B10", processing_type="simul") == set()
    assert refused(house, "B10") == {"MC"}


def test_b10_priorities_share_and_group_are_those_of_the_job() -> None:
    house = federation(
        [
            queue("LOW", fairshare_policy="priority>=800:0%"),
            queue("GOLD", fairshare_policy="gshare=gold:100%,gshare=any:0%"),
            queue("PHYS", fairshare_policy="group=phys:0%"),
        ]
    )
    assert refused(house, "B10", priority=800) == {"LOW", "GOLD"}
    assert refused(house, "B10", priority=799, share="gold") == set()
    assert refused(house, "B10", working_group="phys", share="gold") == {"PHYS"}


def test_b10_priorities_are_compared_one_by_one_where_many_tasks_are_brokered_together() -> None:
    house = federation(
        [
            queue("HIGH", fairshare_policy="priority>800:0%"),
            queue("EQUAL", fairshare_policy="priority=500:0%"),
        ]
    )
    priorities = (499, 500, 501, 799, 800, 801)
    tasks = [task(number, priority=priority) for number, priority in enumerate(priorities, 1)]
    found = {
        choice.task: refusals(choice).get("B10", set()) for choice in decide(world(house, *tasks)).choices
    }
    assert found == {1: set(), 2: {"EQUAL"}, 3: set(), 4: set(), 5: set(), 6: {"HIGH"}}


def _owned_by(group: str, of: Task) -> Task:
    return replace(of, owner=Identity(name="alice", group=group))


def test_b10_the_group_is_the_owners_where_the_task_names_none() -> None:
    house = federation([queue("PHYS", fairshare_policy="group=phys:0%")])
    assert "B10" in refusals(only_choice(world(house, _owned_by("phys", task()))))
    assert "B10" not in refusals(only_choice(world(house, _owned_by("phys", task(working_group="det")))))


def test_b10_says_which_policy_refused_and_that_an_operator_can_mend_it() -> None:
    house = federation([queue("MC", fairshare_policy="type=any:0%")])
    found = refusal(only_choice(world(house, task())), "B10")
    assert (found.have, found.mend) == (("type=any:0%",), "operator")


def test_b10_a_policy_that_was_never_checked_is_an_error_that_names_queue_and_column() -> None:
    house = federation([queue("MC", fairshare_policy="type=any")])
    with pytest.raises(ValueError, match="queue 'MC': fairshare_policy: column 1: 'type=any' has no :n%"):
        QueueColumns.of(house)
