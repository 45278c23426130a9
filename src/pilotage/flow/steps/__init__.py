"""The steps of a job's way. Every module here declares one as ``STEP``."""

from importlib import import_module
from pkgutil import iter_modules

from pilotage.flow.step import Step

STEPS: tuple[Step, ...] = tuple(
    sorted(
        (import_module(f"{__name__}.{module.name}").STEP for module in iter_modules(__path__)),
        key=lambda step: step.place,
    )
)
"""In the order of a job's way."""


def step(name: str) -> Step:
    """Return the step with this name. Raises KeyError."""
    return {candidate.name: candidate for candidate in STEPS}[name]
