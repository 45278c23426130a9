"""Who reads and changes the names of a scope."""

from fastapi import HTTPException

from pilotage.model.records.catalogues import open_to
from pilotage.model.values.identity import Credential
from pilotage.model.values.scopes import is_of_vo, scopes_of
from pilotage.server.api.edge.access import sees_all
from pilotage.store import Store, note_act


def check_scope(caller: Credential, scope: str) -> None:
    """Answer 403 for a scope that is not the caller's. Operators may use all."""
    mine = scopes_of(caller.identity)
    if caller.role != "operator" and scope not in mine:
        raise HTTPException(403, f"the scope {scope!r} is not yours; yours are {', '.join(mine)}")


def reads_scope(caller: Credential, scope: str) -> bool:
    """Return whether the caller reads the names of a scope: their own, or by their role."""
    if scope in scopes_of(caller.identity):
        return True
    is_managed = caller.role == "manager" and is_of_vo(scope, caller.identity.vo)
    reads = is_managed or sees_all(caller)
    note_act(reads_of_others=reads)
    return reads


def check_readable(caller: Credential, scope: str) -> None:
    """Answer 403 for a scope that the caller may not read."""
    if not reads_scope(caller, scope):
        check_scope(caller, scope)


def is_readable(caller: Credential, scope: str, store: Store) -> bool:
    """Return whether the caller reads a scope, or it is in another catalogue that is open to their VO."""
    return reads_scope(caller, scope) or bool(open_to(store.federation().catalogues, scope, caller.identity))
