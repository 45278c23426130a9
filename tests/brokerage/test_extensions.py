"""Checks, factors and orders that others add to the production brokerage."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from pilotage.explain.analysis import explain
from pilotage.explain.rendering import lines
from pilotage.model.documents.decision import Choice, Decision, Move
from pilotage.model.documents.serialization import from_document, from_json, to_document, to_json
from pilotage.model.documents.world import World
from pilotage.model.records.states import JobState
from pilotage.policies.brokerage.contract import violations
from pilotage.policies.brokerage.production import (
    CandidateOrder,
    Production,
    QueueColumns,
    Ranking,
    TaskColumns,
    Verdict,
    check,
    factor,
    order,
)
from pilotage.testing import federation, jobs, jobs_at, queue, task, world

from .test_production_properties import relaxed, worlds

HOUSE = federation([queue("A", max_memory=4000), queue("B"), queue("C", status="offline")])


@check("X1", "letter", "operator", reads=("cores",), lifted_by="another alphabet")
def no_a(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Multi-core work never goes to A."""
    return Verdict((tasks.cores > 1) & (queues.names == "A"), "another letter", queues.names)


@factor("X2", "b counts double")
def double_b(tasks: TaskColumns, queues: QueueColumns) -> Any:
    """B weighs twice as much."""
    return np.where(queues.names == "B", 2.0, 1.0)


@order("X3", "backwards", unit="th")
def backwards(ranking: Ranking) -> Any:
    """The last name first."""
    return -ranking.candidates


def decided(state: World, **extensions: Any) -> tuple[Decision, Choice]:
    plugin = Production(**extensions)
    assert violations(plugin, state) == []
    decision = plugin.decide(state)
    return decision, decision.choices[0]


def test_a_check_refuses_beside_the_rules_and_is_told_like_them() -> None:
    state = world(HOUSE, task(cores=2))
    _, choice = decided(state, checks=[no_a])
    assert [(item.rule, item.queues) for item in choice.refusals] == [
        ("B4", ("C",)),
        ("B13", ("A", "B", "C")),
        ("X1", ("A",)),
    ]
    explanation = explain(choice)
    assert [(item.rule, item.only) for item in explanation.obstacles] == [("B13", 1), ("B4", 0), ("X1", 0)]
    assert "another letter" in str(explanation.obstacles[-1].need)


def test_a_check_can_be_switched_off_as_the_rules_can() -> None:
    house = federation([queue("A", cores=2)])
    state = world(house, task(cores=2))
    assert decided(state, checks=[no_a])[1].candidates.queues == ()
    assert decided(state, checks=[no_a], options={"off": ["X1"]})[1].candidates.queues == ("A",)
    with pytest.raises(ValueError, match="X1"):
        Production({"off": ["X1"]})


def test_a_factor_multiplies_the_weight_and_stands_beside_the_others() -> None:
    state = world(HOUSE, task())
    _, plain = decided(state)
    _, choice = decided(state, factors=[double_b])
    assert set(plain.candidates.queues) == {"A", "B"}
    assert choice.candidates.queues == ("B", "A")
    assert choice.candidates.factors["X2"] == (2.0, 1.0)
    assert choice.candidates.weights == (2 * plain.candidates.weights[1], plain.candidates.weights[0])
    assert explain(choice).decided_by == "X2"


def test_a_factor_counts_while_jobs_are_spread() -> None:
    asked = task()
    state = world(HOUSE, asked, jobs=jobs(asked, 12))
    assert decided(state)[1].placed == {"A": 6, "B": 6}
    placed = decided(state, factors=[double_b])[1].placed
    assert placed["B"] > placed["A"] > 0


def test_a_factor_sees_each_task() -> None:
    @factor("X2", "cores")
    def by_cores(tasks: TaskColumns, queues: QueueColumns) -> Any:
        return tasks.cores * np.ones(len(queues))

    house = federation([queue("A", cores=0)])
    state = world(house, task(1, cores=1), task(2, cores=3))
    decision, _ = decided(state, factors=[by_cores])
    assert [choice.candidates.factors["X2"] for choice in decision.choices] == [(1.0,), (3.0,)]


def test_an_order_fills_candidates_one_after_another() -> None:
    asked = task()
    state = world(HOUSE, asked, jobs=jobs(asked, 25), job_counts=jobs_at("B", activated=4))
    decision, choice = decided(state, order=backwards)
    assert choice.candidates.queues == ("B", "A")
    assert choice.placed == {"B": 16, "A": 9}
    assert [move.ids[0] for move in decision.changes if isinstance(move, Move)] == [1, 17]
    assert choice.candidates.ordering is not None
    assert choice.candidates.ordering.keys == (-1.0, -0.0)


def test_an_order_tells_what_put_the_best_first() -> None:
    _, choice = decided(world(HOUSE, task()), order=backwards)
    explanation = explain(choice)
    assert (explanation.ordering, explanation.ordering_rule, explanation.runner_up) == (
        "backwards",
        "X3",
        "A",
    )
    assert (explanation.margin, explanation.decided_by) == (None, "")
    rendered = lines(explanation, rules=True)
    assert rendered[1].split()[:6] == ["B", "1", "job", "backwards", "(X3)", "-1,"]
    assert rendered[-2] == "  runner-up A, by backwards (X3)"


def test_equal_keys_go_by_weight_then_by_lot() -> None:
    @order("X3", "all alike")
    def alike(ranking: Ranking) -> Any:
        return 0.0

    house = federation([queue("A"), queue("B"), queue("C", num_slots=50)])
    orders = [
        decided(replace(world(house, task()), seed=seed), order=alike)[1].candidates.queues
        for seed in range(20)
    ]
    assert set(orders) == {("C", "A", "B"), ("C", "B", "A")}


def test_an_order_sees_the_weights_and_the_group() -> None:
    seen: list[Ranking] = []

    @order("X3", "heaviest last")
    def heaviest_last(ranking: Ranking) -> Any:
        seen.append(ranking)
        return ranking.weights

    _, choice = decided(world(HOUSE, task()), order=heaviest_last, factors=[double_b])
    assert choice.candidates.queues == ("A", "B")
    assert seen[0].group.task.id == 1
    assert set(seen[0].factors) == {"B32", "B33", "B34", "X2"}


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_a_factor_that_is_not_positive_is_refused(value: float) -> None:
    @factor("X2", "odd")
    def odd(tasks: TaskColumns, queues: QueueColumns) -> Any:
        return value

    with pytest.raises(ValueError, match="X2 odd gives a number that is not positive and finite"):
        Production(factors=[odd]).decide(world(HOUSE, task()))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_key_that_is_not_finite_is_refused(value: float) -> None:
    odd = CandidateOrder(rule="X3", name="odd", keys=lambda ranking: np.full(len(ranking.candidates), value))
    with pytest.raises(ValueError, match="X3 odd gives a number that is not finite"):
        Production(order=odd).decide(world(HOUSE, task()))


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("B15", "the rule B15 is there already"),
        ("B33", "the rule B33 is there already"),
        ("F1", "the rule F1 is there already"),
        ("carbon", "'carbon' does not name a rule; give a capital and a number"),
        ("", "'' does not name a rule"),
    ],
)
def test_rules_of_others_have_names_of_their_own(rule: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Production(checks=[replace(no_a, rule=rule)])


def test_a_rule_names_one_factor_or_order_and_any_number_of_checks() -> None:
    Production(checks=[no_a, replace(no_a, name="another")])
    for clash in (
        {"factors": [double_b, double_b]},
        {"checks": [replace(no_a, rule="X3")], "order": backwards},
    ):
        with pytest.raises(ValueError, match="is there already"):
            Production(**clash)


def test_choices_stored_before_there_were_orders_are_read() -> None:
    _, choice = decided(world(HOUSE, task()))
    document = to_document(choice)
    del document["candidates"]["ordering"]
    assert from_document(Choice, document) == choice
    ordered = decided(world(HOUSE, task()), order=backwards)[1]
    assert from_json(Choice, to_json(ordered)) == ordered


@pytest.mark.slow
@relaxed
@given(worlds())
def test_extensions_keep_the_contract_in_every_world(state: World) -> None:
    assert violations(Production(), state) == []
    assert violations(Production(checks=[no_a], factors=[double_b]), state) == []
    assert violations(Production(order=backwards), state) == []


class Broken:
    """Changes one thing of what the production brokerage decides."""

    def __init__(self, **changes: Any) -> None:
        self.changes = changes
        self.calls = 0

    def decide(self, of: World) -> Decision:
        self.calls += 1
        decision = Production().decide(of)
        changes = {
            name: value(decision) if callable(value) else value for name, value in self.changes.items()
        }
        return replace(decision, **changes)


def _move(**changes: Any) -> Any:
    return lambda decision: tuple(replace(move, **changes) for move in decision.changes)


def _choice(**changes: Any) -> Any:
    return lambda decision: tuple(replace(choice, **changes) for choice in decision.choices)


def _candidates(**changes: Any) -> Any:
    return lambda decision: tuple(
        replace(choice, candidates=replace(choice.candidates, **changes)) for choice in decision.choices
    )


def _refusals(**changes: Any) -> Any:
    return lambda decision: tuple(
        replace(choice, refusals=tuple(replace(item, **changes) for item in choice.refusals))
        for choice in decision.choices
    )


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"seed": 8}, "time and seed are not the world's"),
        ({"changes": _move(target=JobState.RUNNING)}, "jobs are moved to running"),
        ({"changes": _move(target=JobState.PENDING)}, "without a wake_at"),
        ({"changes": _move(changes={"queue": "Z"})}, "'Z', which is no queue"),
        ({"changes": _move(choice=None)}, "no choice that explains it"),
        ({"changes": _move(ids=(1, 1))}, "job 1 is moved twice"),
        ({"changes": _move(ids=(99,))}, "job 99 is moved and is not DEFINED"),
        ({"changes": _move(kind="task")}, "is no move of DEFINED jobs"),
        ({"choices": _choice(refusals=())}, "choice 0: C is left out"),
        ({"choices": _choice(considered=2)}, "considered is 2, but there are 3 queues"),
        ({"choices": _candidates(queues=("A", "B", "C"))}, "C is a candidate and refused"),
        ({"choices": _candidates(queues=("A", "B", "Z"))}, "Z is no queue of the federation"),
        ({"choices": _candidates(weights=(1.0,))}, "2 candidates have 1 weights"),
        ({"choices": _refusals(have=())}, "B4 status does not say what each queue"),
        ({"choices": _choice(placed={"A": 7})}, "placed is {'A': 7}"),
        ({"choices": _choice(jobs=(5,))}, "the jobs are not those of its moves"),
    ],
)
def test_the_contract_finds_what_a_plugin_breaks(changes: dict[str, Any], fault: str) -> None:
    assert any(fault in found for found in violations(Broken(**changes), world(HOUSE, task())))


def test_the_contract_finds_what_is_random_or_depends_on_order() -> None:
    plugin = Broken()
    plugin.changes = {"notes": lambda _: {"calls": plugin.calls}}
    assert "the same world again gives other bytes" in violations(plugin, world(HOUSE, task()))

    class First:
        def decide(self, of: World) -> Decision:
            return replace(Production().decide(of), notes={"first": of.federation.queues[0].name})

    assert violations(First(), world(HOUSE, task())) == ["the same world in another order gives other bytes"]
