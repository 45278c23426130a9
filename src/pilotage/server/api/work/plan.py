"""Decisions about tasks before they are submitted."""

from fastapi import APIRouter, Response
from pydantic import BaseModel

from pilotage.explain.plans import PlannedTask
from pilotage.flow.calls.work import preview
from pilotage.server.api.edge.access import Person
from pilotage.server.api.edge.answers import answer, documented
from pilotage.server.api.edge.dependencies import PREFIX, TheRuntime, Width
from pilotage.server.api.edge.measured_routes import MeasuredRoute
from pilotage.server.api.work.explanations import placed_where_nothing_starts
from pilotage.server.api.work.tasks import RefusedTask, Specs, refusals

router = APIRouter(prefix=f"{PREFIX}/plan", tags=["plan"], route_class=MeasuredRoute)


class PlanAnswer(BaseModel):
    """The fate of each task at a time (s since 1970 UTC), with a random seed."""

    time: float
    seed: int
    tasks: list[PlannedTask]
    refused: list[RefusedTask]


@router.post("/broker", responses=documented(PlanAnswer, 409, refuses_all=True))
def post_broker(body: Specs, caller: Person, runtime: TheRuntime, width: Width = 0) -> Response:
    """Decide whether these tasks would run, where, and if not why. Each is decided alone, without submitting
    it.

    422 if none could be accepted.
    """
    specs, misread = body.read()
    planned, refused = preview.run(runtime, specs, caller.identity)
    document = PlanAnswer.model_construct(
        time=planned.time,
        seed=planned.seed,
        tasks=[
            PlannedTask.of(
                *(task.index, task.name, task.jobs, task.choices, width),
                warnings=placed_where_nothing_starts(runtime, task.choices),
            )
            for task in planned.tasks
        ],
        refused=refusals(misread, refused),
    )
    return answer(document, 200 if document.tasks else 422)
