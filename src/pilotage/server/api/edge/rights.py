"""Which right a request needs: tokens of providers may have some of ``RIGHTS`` only."""

from collections.abc import Collection

from fastapi import Request

from pilotage.model.values.identity import RIGHTS, Right
from pilotage.server.api.edge.dependencies import PREFIX, TES_PREFIX

CREATING = frozenset((f"{PREFIX}/tasks", f"{PREFIX}/workflows", f"{TES_PREFIX}/tasks"))
ASKING = ("/what-if", "/plan/broker", "/files/compare")
"""The ends of paths that read with a body."""

GIVING = (f"{PREFIX}/tokens", f"{PREFIX}/people", f"{PREFIX}/grants")
"""The beginnings of paths that give or end rights of people. A limited token could widen itself there."""


def needed_rights(method: str, path: str) -> tuple[Right, ...]:
    """Return the rights that a request needs, by its method and its route's path."""
    if method in ("GET", "HEAD") or path.endswith(ASKING):
        return ("read",)
    if path.startswith(GIVING):
        return RIGHTS
    if path in CREATING:
        return ("create",)
    return ("cancel",) if path.endswith(("/cancel", ":cancel")) else ("modify",)


def missing_right(request: Request, rights: Collection[Right]) -> Right | None:
    """Return a right that a request needs and its caller has not; None if there is none."""
    needed = needed_rights(request.method, request.scope["route"].path)
    return next((right for right in needed if right not in rights), None)
