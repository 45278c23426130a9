"""Behaviour of virtual sites and transfers, faults included."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """Times (in s) and faults (as probabilities) of virtual sites.

    Pilots wait in the batch queue for ``wait`` on average, payloads run for ``run`` on average, both drawn
    from exponential distributions. ``payload_fails`` is drawn for each attempt, ``never_calls`` for each
    pilot, ``answer_lost`` for each call of a pilot and each submission, which took effect all the same, and
    ``transfer_fails`` for each delivery. Sites listed in ``outages`` are dead from one time to another, in s
    since the beginning: what runs there vanishes.
    """

    wait: float = 600
    run: float = 1800
    payload_fails: float = 0
    never_calls: float = 0
    answer_lost: float = 0
    transfer_fails: float = 0
    outages: tuple[tuple[str, float, float], ...] = ()
