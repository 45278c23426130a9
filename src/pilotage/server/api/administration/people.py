"""Close people: end their tokens, tasks and pilots together."""

from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import Field

from pilotage.flow.calls.administration import people
from pilotage.flow.errors import NotNow
from pilotage.server.api.edge.access import OperatorNow, actor
from pilotage.server.api.edge.answers import answer, documented
from pilotage.server.api.edge.bodies import RequestBody
from pilotage.server.api.edge.dependencies import LINE, PREFIX, Text, TheRuntime
from pilotage.server.api.edge.measured_routes import MeasuredRoute

router = APIRouter(prefix=f"{PREFIX}/people", tags=["tokens"], route_class=MeasuredRoute)


class Leaving(RequestBody):
    """The person to close."""

    name: Annotated[Text, Field(min_length=1)]
    vo: Annotated[Text | None, Field(description="Their VO; null: the only one with that name.")] = None
    because: Annotated[
        str, Field(min_length=1, max_length=300, pattern=LINE, description="Why, for the history of tasks.")
    ]
    dry_run: Annotated[bool, Field(description="Only tell what would end.")] = False


@router.post("/close", responses=documented(people.ClosedPerson, 404, 409))
def post_close(body: Leaving, caller: OperatorNow, runtime: TheRuntime) -> Response:
    """Revoke a person's tokens, cancel their tasks, end their private pilots, and delete their secrets.

    Outputs and datasets stay. Requests of the person that are under way start no tasks.
    """
    person = people.of_name(runtime, body.name, body.vo)
    operator = (caller.identity.name, caller.identity.vo)
    if operator == (person.name, person.vo) and not body.dry_run:
        raise NotNow("this is you: let another operator close you")
    return answer(people.close(runtime, person, body.because, actor(caller), body.dry_run))
