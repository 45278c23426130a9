"""A table of carbon intensities, in g CO2e/kWh, by site and hour of the day (UTC)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pilotage.policies.brokerage import OptionError

HOURS = 24


@dataclass(frozen=True)
class Intensity:
    """By site, a value for each hour of the day (UTC)."""

    hours: Mapping[str, tuple[float, ...]]

    @classmethod
    def of(cls, document: Any) -> "Intensity":
        """From ``{site: number}`` or ``{site: [24 numbers]}``. Raises ``OptionError``."""
        if not isinstance(document, Mapping):
            raise OptionError(("intensity",), f"{document!r} is not a mapping; give site: number")
        return cls({site: _hours(site, values) for site, values in document.items()})

    def at(self, time: float) -> dict[str, float]:
        """By site, at a point in time (s since 1970 UTC)."""
        hour = int(time // 3600) % HOURS
        return {site: values[hour] for site, values in self.hours.items()}

    @property
    def most(self) -> float:
        """The largest of all; 0 where nothing is known."""
        return max((max(values) for values in self.hours.values()), default=0.0)


def _hours(site: str, values: Any) -> tuple[float, ...]:
    if not isinstance(values, list | tuple):
        return (number(values, "intensity", site),) * HOURS
    if len(values) != HOURS:
        remedy = f"give one number, or {HOURS}, one for each hour of the day (UTC)"
        raise OptionError(("intensity", site), f"has {len(values)} numbers; {remedy}")
    return tuple(number(value, "intensity", site, hour) for hour, value in enumerate(values))


def number(value: Any, *path: str | int) -> float:
    """A number above 0. Raises ``OptionError``."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise OptionError(path, f"{value!r} is not above 0; give g CO2e/kWh")
    return float(value)
