"""Discovery of adapters: classes that installed packages offer as entry points, found by group and name."""

from collections.abc import Callable, Collection, Mapping
from functools import cache
from importlib import metadata
from importlib.metadata import EntryPoint
from typing import Any


class AdapterError(LookupError):
    """No adapter of this name can be used: which, why, and what would help."""


@cache
def entry_points(group: str) -> tuple[EntryPoint, ...]:
    """All entry points of a group, read once: it means reading a file of every package on the machine."""
    return tuple(metadata.entry_points(group=group))


def installed(group: str) -> Mapping[str, EntryPoint]:
    """All adapters of an entry point group by name, also those that cannot be loaded."""
    return {entry.name: entry for entry in entry_points(group=group)}


def factory(group: str, name: str) -> Callable[..., Any]:
    """The class or function that the entry point ``name`` of a group stands for.

    Raises AdapterError where there is none, where packages offer several, or where it cannot be imported.
    """
    found = [entry for entry in entry_points(group=group) if entry.name == name]
    offers = sorted({entry.value for entry in found})
    if not offers:
        known = ", ".join(sorted(installed(group))) or "none"
        raise AdapterError(f"no adapter {name!r}: installed in {group} are {known}")
    if len(offers) > 1:
        raise AdapterError(
            f"adapter {name!r} is offered more than once: {', '.join(offers)}; uninstall all but one"
        )
    try:
        made = found[0].load()
    except Exception as error:  # a package may raise anything while it is imported
        raise AdapterError(
            f"adapter {name!r} ({offers[0]}) cannot be imported: {error!r}; mend or uninstall its package"
        ) from error
    if not callable(made):
        raise AdapterError(
            f"adapter {name!r} ({offers[0]}) is a {type(made).__name__}, not a class or function"
        )
    return made  # type: ignore[no-any-return]


def check_methods(adapter: object, what: str, names: Collection[str]) -> None:
    """Raise AdapterError where an adapter lacks a method of its port."""
    lacking = [name for name in names if not callable(getattr(adapter, name, None))]
    if lacking:
        raise AdapterError(f"{what}: {type(adapter).__qualname__} has no method {', '.join(lacking)}")
