"""What users of other programs request for their jobs, as fields of a task."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .errors import Refused

LARGEST = 1e15

WHOLE = frozenset(("cores", "gpus", "priority"))
"""Fields that have whole numbers."""


def requested_numbers(
    request: Mapping[str, Any], meanings: Mapping[str, tuple[str, float]]
) -> dict[str, float]:
    """Return fields for the numbers of a request, the largest where several mean the same field.

    ``meanings`` has the field of each name, and its factor. Raises ``Refused`` for what is no number.
    """
    fields: dict[str, float] = {}
    for name, (field, factor) in meanings.items():
        if request.get(name) is not None:
            value = _number(name, request[name]) * factor
            fields[field] = max(fields.get(field, 0), int(value) if field in WHOLE else value)
    return fields


def _number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise Refused(f"the resource {name} is {value!r}; give a number") from None
    if not 0 <= number < LARGEST:
        raise Refused(f"the resource {name} is {value!r}; give a number from 0 on")
    return number


def requested_texts(request: Mapping[str, Any], meanings: Mapping[str, str]) -> dict[str, str]:
    """Return fields for the texts of a request; ``meanings`` has the field of each name."""
    return {field: str(request[name]) for name, field in meanings.items() if request.get(name)}


def requested_queues(
    queue: Any, site: Any, queues_of: Callable[[Iterable[str]], list[str]]
) -> dict[str, list[str]]:
    """Return the field for the queues that users name, or the queues of sites; several names have commas.

    Raises ``Refused`` if no queue is meant by both.
    """
    queues, sites = _names(queue), _names(site)
    if sites:
        of_sites = queues_of(sites)
        if queues and not (queues := [name for name in queues if name in of_sites]):
            raise Refused(f"none of the queues {queue} is at {', '.join(sites)}")
        queues = queues or of_sites
    return {"queues": queues} if queues else {}


def _names(value: Any) -> list[str]:
    """Return the names in a text, which commas or blanks separate."""
    return str(value or "").replace(",", " ").split()
