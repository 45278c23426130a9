"""Options of computing elements: a frozen dataclass per kind, checked when the federation is read."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from pilotage.ports.computing import PilotOrder

T = TypeVar("T")

OneLine = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]*$", max_length=1000)]
Word = Annotated[str, Field(pattern=r"^[^\s\x00-\x1f\x7f-][^\s\x00-\x1f\x7f]*$", max_length=500)]
"""Text without blanks that no command mistakes for an option."""
MaybeWord = Word | Literal[""]

LocalPath = Annotated[OneLine, AfterValidator(lambda path: str(Path(path).expanduser()) if path else "")]
"""A path on the server's machine. ``~`` is the home directory; empty means none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotOptions:
    """Options of every kind of element where pilots can leave results in a spool."""

    environment: Mapping[str, str | int | float] = field(default_factory=dict)
    """Environment variables of pilots."""
    results_room: Annotated[float, Field(ge=0, le=1e9)] = 10_000
    """MB that results may take in the spool, of all pilots together, while the server is away."""
    results_days: Annotated[float, Field(gt=0, le=365)] = 14
    """Days for which they may wait there."""

    def __post_init__(self) -> None:
        for name, value in self.environment.items():
            if not re.fullmatch(r"[A-Za-z_]\w*", name) or "\0" in str(value):
                raise ValueError(f"environment: {name!r} is no variable")


def parse(kind: str, options: type[T], values: Mapping[str, Any]) -> T:
    """Return the checked options of a kind. Raises ValueError that names every unknown or wrong option."""
    names = sorted(field.name for field in fields(options))  # type: ignore[arg-type]
    if unknown := sorted(set(values) - set(names)):
        raise ValueError(f"{kind}: unknown options {unknown}; known are {names}")
    try:
        checked: T = TypeAdapter(options).validate_python(dict(values))
    except ValidationError as error:
        faults = [
            f"{'.'.join(map(str, fault['loc'])) or 'options'}: {fault['msg']}" for fault in error.errors()
        ]
        raise ValueError(f"{kind}: {'; '.join(faults)}") from None
    return checked


def batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield the items in groups of up to ``size``."""
    return (items[at : at + size] for at in range(0, len(items), size))


def similar(orders: Sequence[PilotOrder], size: int) -> Iterator[Sequence[PilotOrder]]:
    """Yield groups of up to ``size`` orders that differ only in the pilot."""
    groups: dict[tuple[object, ...], list[PilotOrder]] = defaultdict(list)
    for order in orders:
        groups[order.server_url, order.cores, order.memory, order.walltime, order.slots].append(order)
    for group in groups.values():
        yield from batches(group, size)
