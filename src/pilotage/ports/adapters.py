"""Discover adapters: classes in installed packages, found by entry point group and name."""

from collections.abc import Callable, Collection, Mapping
from functools import cache
from importlib import metadata
from importlib.metadata import EntryPoint
from typing import Any


class AdapterError(LookupError):
    """No adapter of this name can be used; the message has the name, the reason and a remedy."""


@cache
def entry_points(group: str) -> tuple[EntryPoint, ...]:
    """Return all entry points of a group.

    They are read once, because that opens a file of every installed package.
    """
    return tuple(metadata.entry_points(group=group))


def installed(group: str) -> Mapping[str, EntryPoint]:
    """Return all adapters of an entry point group by name, even broken ones."""
    return {entry.name: entry for entry in entry_points(group=group)}


def factory(group: str, name: str) -> Callable[..., Any]:
    """Return the class or function behind the entry point ``name`` of a group.

    Raises AdapterError if there is none, if several packages offer it, or if it cannot be imported.
    """
    entries = [entry for entry in entry_points(group=group) if entry.name == name]
    offers = sorted({entry.value for entry in entries})
    if not offers:
        kinds = ", ".join(sorted(installed(group))) or "none"
        raise AdapterError(f"no adapter {name!r}: installed in {group} are {kinds}")
    if len(offers) > 1:
        raise AdapterError(
            f"adapter {name!r} is offered more than once: {', '.join(offers)}; uninstall all but one"
        )
    try:
        adapter = entries[0].load()
    except Exception as error:  # a package may raise anything while it is imported
        raise AdapterError(
            f"adapter {name!r} ({offers[0]}) cannot be imported: {error!r}; mend or uninstall its package"
        ) from error
    if not callable(adapter):
        raise AdapterError(
            f"adapter {name!r} ({offers[0]}) is a {type(adapter).__name__}, not a class or function"
        )
    return adapter  # type: ignore[no-any-return]


def check_methods(adapter: object, label: str, names: Collection[str]) -> None:
    """Raise AdapterError if an adapter lacks a method of its port."""
    lacking = [name for name in names if not callable(getattr(adapter, name, None))]
    if lacking:
        raise AdapterError(f"{label}: {type(adapter).__qualname__} has no method {', '.join(lacking)}")
