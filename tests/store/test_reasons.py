"""Reasons come out of the store as they were decided, and nothing that they share is left behind."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from sqlalchemy import text

from pilotage.model.documents.decision import Asked, Candidates, Choice, Decision, Ordering, Refusal
from pilotage.model.documents.reasons import packed, unpacked
from pilotage.model.documents.serialization import to_json
from pilotage.model.documents.world import World
from pilotage.model.records.states import JobState as J
from pilotage.policies.brokerage.production import Production, Ranking, order
from pilotage.store import Store
from pilotage.store.history.reasons import choice_of, documents_of, facts_of
from pilotage.testing import NOW, federation, queue, task, world
from pilotage.testing.stores import move, new_jobs, new_task
from tests.brokerage.test_production_properties import relaxed, worlds

STRANGE = Choice(
    task=1,
    job_kind="normal",
    jobs=(3, 2**40),
    placed={"B": 2},
    considered=3,
    candidates=Candidates(
        queues=("B",),
        weights=(0.25,),
        factors={"X1": (2.0,)},
        ordering=Ordering(rule="X2", name="rank", keys=(-1.5,), unit="points"),
        room=(7,),
        most=1,
    ),
    refusals=(
        Refusal(
            rule="X3",
            name="mixed",
            mend="user",
            queues=("C", "A"),
            have=(None, "none"),
            need=(True, 2.5),
            asked=(Asked(field="ram", value=3, each=None, instead=1),),
        ),
        Refusal(rule="X4", name="none", mend="wait", queues=("A",), have=(1,), need="more", lifted_by="time"),
    ),
    left=1,
    waived=(Refusal(rule="X5", name="gone", mend="operator", queues=("B",), have=(float(7),), need=8),),
)


def stored(choices: Any) -> list[Choice]:
    """The choices once more, from their documents."""
    shared, own = documents_of(*packed(choices))
    known = facts_of(shared)
    return [unpacked(choice_of(document, known), known.facts) for document in own]


@order("X1", "backwards", unit="th")
def backwards(ranking: Ranking) -> Any:
    """The last name first."""
    return -ranking.candidates.astype(float)


@relaxed
@given(worlds())
def test_the_store_gives_back_what_was_decided(state: World) -> None:
    for plugin in (Production(), Production(order=backwards)):
        choices = plugin.decide(state).choices
        assert [to_json(choice) for choice in stored(choices)] == [to_json(choice) for choice in choices]
        assert stored(tuple(choices)) == list(choices), "also where a brokerage makes each by itself"


def test_choices_of_any_brokerage_are_stored() -> None:
    (found,) = stored((STRANGE,))
    (mixed, other) = found.refusals
    assert (mixed.queues, mixed.have, mixed.need) == (("A", "C"), ("none", None), (2.5, True))
    assert other == STRANGE.refusals[1]
    assert replace(found, refusals=()) == replace(STRANGE, refusals=())


def test_an_unknown_version_is_refused() -> None:
    shared, _ = documents_of(*packed((STRANGE,)))
    with pytest.raises(ValueError, match="version 9 are stored, this program knows 1"):
        facts_of(b"\x09" + shared[1:])


def _facts(store: Store) -> int:
    count = text("SELECT count(*) FROM decision_facts")
    return int(store.database.read(lambda connection: connection.execute(count).scalar_one()))


def _waits(store: Store, *tasks: int, time: float) -> None:
    choices = tuple(replace(STRANGE, task=number, jobs=(int(time - NOW),)) for number in tasks)
    store.commit(Decision(step="broker", time=time, seed=1, choices=choices), "tester")


def test_what_choices_share_goes_with_the_last_of_them(store: Store) -> None:
    first, second = new_task(store), new_task(store)
    _waits(store, first, second, time=NOW)
    _waits(store, first, time=NOW + 31)
    assert _facts(store) == 2
    assert [choice.jobs for choice in store.queries.task_choices(second)] == [(0,)]
    _waits(store, second, time=NOW + 32)
    assert _facts(store) == 2
    _waits(store, first, second, time=NOW + 64)
    assert _facts(store) == 1
    assert [choice.jobs for choice in store.queries.task_choices(first)] == [(64,)]


def test_a_choice_that_moved_jobs_keeps_what_it_shares(store: Store) -> None:
    number = new_task(store)
    (job,) = new_jobs(store, number, 1)
    (made,) = Production().decide(world(federation([queue(max_memory=1)]), task(number, ram=9))).choices
    changes = (replace(move("job", [job], J.DEFINED, J.PENDING), choice=0),)
    store.commit(Decision(step="broker", time=NOW, seed=1, changes=changes, choices=(made,)), "tester")
    _waits(store, number, time=NOW + 31)
    _waits(store, number, time=NOW + 62)
    assert _facts(store) == 2
    assert [replace(made, jobs=found.jobs) for found in store.queries.job_choices(job)] == [
        Choice(**{name: getattr(found, name) for name in Choice.__slots__})
        for found in store.queries.job_choices(job)
    ]
