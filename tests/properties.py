"""How many examples a property is tried on: those of the profile, or several times as many of a cheap one."""

from hypothesis import settings


def examples(times: float = 1) -> int:
    """The profile's number of examples, so many times over: 40 in `make test`, 10 in `make quick`."""
    return max(1, round(settings().max_examples * times))
