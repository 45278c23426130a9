"""Brokerages that know the carbon intensity of sites: one adds a check and a factor, the other an order."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilotage.policies.brokerage.production import (
    CandidateOrder,
    Check,
    Factor,
    Production,
    QueueColumns,
    Ranking,
    TaskColumns,
    Verdict,
    check,
    factor,
    order,
)

from .intensity import Intensity, number

Column = NDArray[np.float64]
UNIT = "g/kWh"


class Carbon(Production):
    """The rules, a limit to the carbon intensity of a queue's site (X1), and a weight for greener (X2)."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        own, others = _divided(options, "intensity", "limit")
        intensity, limit = Intensity.of(own.get("intensity", {})), number(own.get("limit"), "limit")
        super().__init__(others, checks=[_within(intensity, limit)], factors=[_greener(intensity, limit)])


class Greenest(Production):
    """The rules, and of the queues that pass them the one of the greenest site first (X3).

    There its jobs stay: a pilot of another site would take them because it ends them sooner (E1).
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        own, others = _divided(options, "intensity")
        super().__init__(others, order=_greenest(Intensity.of(own.get("intensity", {}))), binding="early")


def _within(intensity: Intensity, limit: float) -> Check:
    @check("X1", "carbon", "wait", unit=UNIT, lifted_by="a greener hour")
    def within(_: TaskColumns, queues: QueueColumns) -> Verdict:
        """The intensity at the queue's site is no more than the limit; where it is unknown it passes."""
        have = _of(queues, intensity)
        return Verdict((have > limit)[None, :], limit, have)

    return within


def _greener(intensity: Intensity, limit: float) -> Factor:
    @factor("X2", "greener")
    def greener(_: TaskColumns, queues: QueueColumns) -> Column:
        """From 1/2 at the limit to 1 for none; unknown weighs as the limit does."""
        return limit / (limit + _of(queues, intensity, unknown=limit))

    return greener


def _greenest(intensity: Intensity) -> CandidateOrder:
    @order("X3", "greenest first", unit=UNIT)
    def greenest(ranking: Ranking) -> Column:
        """The least intensity first, unknown last."""
        return _of(ranking.queues, intensity, unknown=intensity.most + 1)[ranking.candidates]

    return greenest


def _of(queues: QueueColumns, intensity: Intensity, unknown: float = np.nan) -> Column:
    """The intensity at the site of each queue, (Q,), at the world's hour."""
    now = intensity.at(queues.live.time)
    return np.array([now.get(site, unknown) for site in queues.site_names.tolist()])


def _divided(options: Mapping[str, Any], *own: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """This plugin's options, and those that are the production brokerage's."""
    return (
        {name: value for name, value in options.items() if name in own},
        {name: value for name, value in options.items() if name not in own},
    )
