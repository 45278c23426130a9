"""Who calls."""

from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from pilotage.model.values.identity import RIGHTS, Right, Role
from pilotage.server.api.edge.access import Person
from pilotage.server.api.edge.answers import answer, documented
from pilotage.server.api.edge.dependencies import PREFIX
from pilotage.server.api.edge.measured_routes import MeasuredRoute

router = APIRouter(prefix=PREFIX, tags=["tokens"], route_class=MeasuredRoute)


class TokenBearer(BaseModel):
    """The bearer of a token."""

    name: Annotated[str, Field(description="The name of the person.")]
    vo: Annotated[str, Field(description="Their VO.")]
    group: Annotated[str, Field(description="Their group in the VO.")]
    vo_role: Annotated[str, Field(description="Their role in the VO.")]
    role: Annotated[Role, Field(description="What they may do here.")]
    sites: Annotated[list[str], Field(description="The sites of a site admin.")]
    rights: Annotated[list[Right], Field(description="What their token allows of that.")]
    expires: Annotated[
        float | None, Field(description="When the token expires, in s since 1970 UTC; null: never.")
    ]


@router.get("/whoami", responses=documented(TokenBearer))
def get_whoami(caller: Person) -> Response:
    """Return who you are here, and what your token allows."""
    identity, rights = caller.identity, ("read",) if caller.role == "monitor" else RIGHTS
    shown = TokenBearer(
        name=identity.name,
        vo=identity.vo,
        group=identity.group,
        vo_role=identity.vo_role,
        role=caller.role,
        sites=sorted(caller.sites),
        rights=[right for right in rights if caller.rights is None or right in caller.rights],
        expires=caller.expires,
    )
    return answer(shown)
