"""Slots of transfer shares, in proportion to priority (D3, D4)."""

from collections.abc import Mapping
from fractions import Fraction


def apportion(
    slots: int,
    wants: Mapping[str, int],
    priorities: Mapping[str, int],
    lots: Mapping[str, float] | None = None,
) -> dict[str, int]:
    """Return the slots of each share with wants, in proportion to priority (D3, D4).

    The sum is exactly min(slots, all wants). No share gets more than it wants. If there are enough slots,
    each gets at least one. Within these bounds, quotas are in exact proportion to priority and rounded by
    largest remainder. Ties go to the higher priority, then to the lowest of the ``lots``. Lots are drawn in
    each pass, so that equal shares take turns with the remainder. Without lots the name decides. With fewer
    slots than shares, the shares of highest priority get one each, ties by lot too. Wants and slots are
    counts, priorities positive numbers.
    """
    drawn = lots or {}
    active = (share for share in wants if wants[share] > 0)
    ranked = sorted(active, key=lambda s: (-priorities[s], drawn.get(s, 0.0), s))
    if slots <= len(ranked):
        return {share: int(place < slots) for place, share in enumerate(ranked)}
    if slots >= sum(wants[share] for share in ranked):
        return {share: wants[share] for share in ranked}
    level = _level(slots, {share: wants[share] for share in ranked}, priorities)
    quotas = {s: min(max(level * priorities[s], Fraction(1)), Fraction(wants[s])) for s in ranked}
    slots_of = {share: int(quota) for share, quota in quotas.items()}
    # Largest remainder first. Sorting is stable, so ties go by priority, then lot.
    by_remainder = sorted(ranked, key=lambda share: slots_of[share] - quotas[share])
    for share in by_remainder[: slots - sum(slots_of.values())]:
        slots_of[share] += 1
    return slots_of


def _level(slots: int, wants: Mapping[str, int], priorities: Mapping[str, int]) -> Fraction:
    """Return the slots per unit of priority such that quotas, limited to 1..wants, add up to the slots.

    The sum of quotas grows piecewise linearly with the level: a share contributes between a quota of one and
    its wants.
    """
    bends = sorted(
        [(Fraction(1, priorities[share]), priorities[share]) for share in wants]
        + [(Fraction(wants[share], priorities[share]), -priorities[share]) for share in wants]
    )
    total, slope, level = Fraction(len(wants)), 0, Fraction(0)
    for bend, change in bends:
        reached = total + slope * (bend - level)
        if reached >= slots:
            break
        total, slope, level = reached, slope + change, bend
    return level + (slots - total) / slope
