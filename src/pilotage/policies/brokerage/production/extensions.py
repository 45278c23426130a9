"""Additions by organisations: checks, factors, and another order of candidates."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from pilotage.model.records.spec import Binding
from pilotage.policies.brokerage.engine.arrays import Codes, Column
from pilotage.policies.brokerage.engine.job_groups import Group
from pilotage.policies.brokerage.engine.queue_columns import QueueColumns
from pilotage.policies.brokerage.engine.task_columns import TaskColumns
from pilotage.policies.brokerage.production.checks import CHECKS, Check

_NAME = re.compile(r"[A-Z][0-9]+")
_TAKEN = frozenset({check.rule for check in CHECKS} | {f"B{number}" for number in range(1, 39)})

Weigh = Callable[[TaskColumns, QueueColumns], Column]
"""Returns a positive number per pair of task and queue, in a shape that broadcasts to (T, Q)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """A factor of every candidate's weight, shown under its rule; 1 is neutral."""

    rule: str
    name: str
    weigh: Weigh


def factor(rule: str, name: str) -> Callable[[Weigh], Factor]:
    """Return a decorator that turns a weighing function into a factor."""
    return lambda weigh: Factor(rule=rule, name=name, weigh=weigh)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """The candidates of a group of similar jobs (C,), in order of names, as codes into the columns of
    ``queues``.

    ``weights`` is their current weight, the product of ``factors`` (by rule).
    """

    group: Group
    queues: QueueColumns
    candidates: Codes
    weights: Column
    factors: Mapping[str, Column]


Keys = Callable[[Ranking], Column]
"""Returns a number per candidate (C,). The lowest comes first; equal ones sort by weight, then at random
(B37)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateOrder:
    """An order of candidates by its own keys. Jobs fill them in this order, instead of the spreading of
    B38."""

    rule: str
    name: str
    keys: Keys
    unit: str = ""


def order(rule: str, name: str, *, unit: str = "") -> Callable[[Keys], CandidateOrder]:
    """Return a decorator that turns a function of keys into an order."""
    return lambda keys: CandidateOrder(rule=rule, name=name, keys=keys, unit=unit)


@dataclass(frozen=True, slots=True)
class Extensions:
    """Checks and factors after the published ones, an order other than by weight, and a binding.

    Raises ValueError for a rule if its name is not a capital and a number, or is Pilotage's, or occurs twice.
    """

    checks: tuple[Check, ...] = ()
    factors: tuple[Factor, ...] = ()
    order: CandidateOrder | None = None
    binding: Binding | None = None

    def __post_init__(self) -> None:
        rules = [part.rule for part in (*self.factors, *((self.order,) if self.order else ()))]
        _check_names([*dict.fromkeys(check.rule for check in self.checks), *rules])

    def weigh(self, tasks: TaskColumns, queues: QueueColumns) -> dict[str, Column]:
        """Return each factor of every pair, (T, Q), by rule.

        Raises ValueError for a factor that is not positive.
        """
        return {
            part.rule: np.broadcast_to(
                _numbers(part, part.weigh(tasks, queues), least=np.nextafter(0, 1)), (len(tasks), len(queues))
            )
            for part in self.factors
        }


def keys_of(order: CandidateOrder, ranking: Ranking) -> Column:
    """Return the keys of the candidates. Raises ValueError for a key that is not finite."""
    return np.broadcast_to(_numbers(order, order.keys(ranking)), ranking.candidates.shape)


def _numbers(part: Factor | CandidateOrder, values: Column, least: float = -np.inf) -> Column:
    numbers = np.asarray(values, dtype=float)
    if not (np.isfinite(numbers) & (numbers >= least)).all():
        kind = "finite" if least < 0 else "positive and finite"
        raise ValueError(
            f"{part.rule} {part.name} gives a number that is not {kind}; what is unknown needs one too"
        )
    return numbers


def _check_names(rules: Iterable[str]) -> None:
    names: set[str] = set()
    for rule in rules:
        if not _NAME.fullmatch(rule):
            raise ValueError(f"{rule!r} does not name a rule; give a capital and a number, such as X1")
        if rule in _TAKEN or rule in names:
            raise ValueError(f"the rule {rule} is there already; give a number of your own, such as X1")
        names.add(rule)
