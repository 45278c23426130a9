"""Worlds that note which of their fields a policy reads, and refuse the fields that were not declared."""

import sys
from collections.abc import Collection
from dataclasses import fields
from typing import Any

from pilotage.model.documents.world import World

FIELDS = frozenset(one.name for one in fields(World))
CARRIERS = frozenset(
    {"dataclasses", "pilotage.model.documents.subjects", "pilotage.model.documents.projected_world"}
)
"""Modules that hand a world on, changed: they read its fields for no decision."""


class UndeclaredRead(BaseException):
    """A policy read a field of the world that its step does not declare: there it is always empty.

    No Exception: steps set aside what an Exception tells of, and go on.
    """


def watched(world: World, reader: str, declared: Collection[str], seen: set[str]) -> World:
    """The same world for a ``reader``. What is read of it is added to ``seen``.

    Raises :class:`UndeclaredRead` where a field is read that is not ``declared``.
    """

    def read(self: World, name: str) -> Any:
        if name in FIELDS and sys._getframe(1).f_globals["__name__"] not in CARRIERS:
            seen.add(name)
            if name not in declared:
                raise UndeclaredRead(f"{reader} reads world.{name}, and does not declare it in its reads")
        return object.__getattribute__(self, name)

    kind = type("WatchedWorld", (World,), {"__slots__": (), "__getattribute__": read})
    made: World = kind(**{name: getattr(world, name) for name in FIELDS})
    return made
