"""The page of conformance names every rule, where it really stands, and tests that hold it."""

import pytest

import rules
from pilotage.policies.brokerage.engine.local_checks import CHECKS as OWN
from pilotage.policies.brokerage.production.checks import CHECKS
from rules import RULES, Rule

BUILT = [rule for rule in RULES if rule.where]


def named(rule: Rule) -> str:
    return rule.number


def test_every_rule_stands_there_once() -> None:
    expected = [f"B{number}" for number in range(1, rules.LAST_B + 1) if number not in (28, 29)]
    expected += ["T", "T fast"]
    expected += [f"D{number}" for number in range(1, rules.LAST_D + 1)]
    expected += [f"P{number}" for number in range(1, rules.LAST_P + 1)]
    expected += [f"M{number}" for number in range(1, rules.LAST_M + 1)]
    assert [rule.number for rule in RULES] == expected


def test_every_check_stands_where_its_rule_says() -> None:
    where = {rule.number: rule.where for rule in RULES}
    for check in set(CHECKS) - set(OWN):
        assert check.judge.__module__.removeprefix("pilotage.") in where[check.rule], check.rule


@pytest.mark.parametrize("rule", BUILT, ids=named)
def test_the_code_names_the_rule_where_it_stands(rule: Rule) -> None:
    for module in rule.where:
        assert rule.number in rules.numbers_in(rules.source(module)), module


@pytest.mark.parametrize("rule", BUILT, ids=named)
def test_every_rule_that_is_built_has_a_test(rule: Rule) -> None:
    assert rules.tests().get(rule.number), f"no test carries {rule.number} in its name or docstring"


def test_tests_carry_no_rule_that_there_is_not() -> None:
    unknown = set(rules.tests()) - {rule.number for rule in BUILT}
    assert not unknown, f"say in docs/rules.py where {sorted(unknown)} stand"


def test_every_default_is_a_constant_of_the_code() -> None:
    assert all(dict(rules.values(rule)) for rule in RULES if rule.defaults)
