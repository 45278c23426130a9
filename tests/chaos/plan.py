"""The plan of a storm: which fault strikes when, for how long, and which work arrives: all from the seed."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

CALM = 3.0
"""Seconds without a fault at the beginning."""

GAP = (0.5, 6.0)
"""Least and most seconds between two strikes. A fault may still last when the next one strikes."""

ARRIVALS_EVERY = 2.0
"""Mean seconds between two submissions."""


@dataclass(frozen=True, slots=True)
class Strike:
    """One fault: its moment in s since the storm began, its kind, its length in s, a seed for its victim."""

    at: float
    kind: str
    seconds: float
    seed: int


@dataclass(frozen=True, slots=True)
class Arrival:
    """One submission: its moment in s since the storm began, its kind, and a seed for its details."""

    at: float
    kind: str
    seed: int


@dataclass(frozen=True, slots=True)
class Plan:
    """A storm of so many seconds."""

    seed: int
    seconds: float
    strikes: tuple[Strike, ...]
    arrivals: tuple[Arrival, ...]


def planned(seed: int, seconds: float, spans: Mapping[str, tuple[float, float]], work: Sequence[str]) -> Plan:
    """Return the plan of a seed. ``spans`` gives the least and most seconds of each kind of fault.

    Kinds come in shuffled rounds, so that each strikes equally often. No fault lasts longer than a third of
    the storm, so that a short storm has a calm end, too.
    """
    drawn = random.Random(f"strikes {seed}")
    strikes: list[Strike] = []
    at = CALM
    for kind in _rounds(drawn, sorted(spans)):
        at += drawn.uniform(*GAP)
        least, most = spans[kind]
        length = drawn.uniform(least, max(least, min(most, seconds / 3)))
        if at + length > seconds:
            if at > seconds:
                break
            continue
        strikes.append(Strike(at, kind, length, drawn.getrandbits(31)))
    return Plan(seed, seconds, tuple(strikes), tuple(_arrivals(seed, seconds, work)))


def _arrivals(seed: int, seconds: float, work: Sequence[str]) -> list[Arrival]:
    drawn = random.Random(f"work {seed}")
    found: list[Arrival] = []
    at = 0.0
    for kind in _rounds(drawn, sorted(work)):
        if at > seconds:
            break
        found.append(Arrival(at, kind, drawn.getrandbits(31)))
        at += drawn.uniform(0.5, 1.5) * ARRIVALS_EVERY
    return found


def _rounds(drawn: random.Random, kinds: Sequence[str]) -> Iterator[str]:
    while True:
        yield from drawn.sample(kinds, len(kinds))
