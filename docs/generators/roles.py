"""The page of what each role may call, from the checks of the routes."""

from collections.abc import Iterator

from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from generators.markdown import table
from pilotage.client.errors import PREFIX
from pilotage.model.values.identity import PERSON_ROLES, Role
from pilotage.server.api.app import ROUTERS
from pilotage.server.api.edge.access import RoleCheck

_OF_RECORDS = ("{task}", "{job}", "{workflow}")
_REACH = {"user": "own", "manager": "VO's", "site-admin": "own", "monitor": "all", "operator": "all"}
_COLUMNS: tuple[Role, ...] = (*PERSON_ROLES, "site", "pilot", "enrolment")
_HEAD = """# Routes and roles

What each [role](../how-to/roles.md) may call.

- **own**: records of the person. They also read what [others let them read](../how-to/sharing.md).
- **VO's**: records of all people of the VO.
- **sites'**: what is at the sites of the token.
- **yes**: for everything, but lists and sums have the records that the role reads.

"""


def roles() -> str:
    """Every route with a check, and the roles that it admits."""
    rows = [row for room in ROUTERS for route in room.router.routes for row in _rows(route)]
    return _HEAD + table(("request", *_COLUMNS), rows)


def _rows(route: object) -> Iterator[tuple[str, ...]]:
    assert isinstance(route, APIRoute)
    (check,) = _checks(route.dependant)
    for method in sorted(route.methods or ()):
        roles = check.roles_at(method, route.path)
        words = (_word(role, check, route.path) if role in roles else "" for role in _COLUMNS)
        yield f"`{method} {route.path.removeprefix(PREFIX)}`", *words


def _checks(dependant: Dependant) -> set[RoleCheck]:
    call = dependant.call
    inner = {check for part in dependant.dependencies for check in _checks(part)}
    return inner | {call} if isinstance(call, RoleCheck) else inner


def _word(role: Role, check: RoleCheck, path: str) -> str:
    if any(name in path for name in _OF_RECORDS) and role in _REACH:
        return _REACH[role]
    limited = {"site-admin": "sites'", "manager": "VO's"} if "user" not in check.roles else {}
    return limited.get(role, "yes")
