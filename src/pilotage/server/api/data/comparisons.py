"""Compare files at storages with descriptions of them, before a task runs again."""

from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from pilotage.flow.calls.data import comparisons, inputs
from pilotage.flow.calls.data.comparisons import FileDifference
from pilotage.flow.calls.work.submit import foreign_outputs
from pilotage.model.records.work import InputFile, TaskSpec
from pilotage.server.api.edge.access import Person
from pilotage.server.api.edge.answers import answer, documented, field_refused
from pilotage.server.api.edge.bodies import RequestBody
from pilotage.server.api.edge.dependencies import PREFIX, TheRuntime
from pilotage.server.api.edge.measured_routes import MeasuredRoute

router = APIRouter(prefix=f"{PREFIX}/files", tags=["files"], route_class=MeasuredRoute)

MOST_FILES = 1000
"""Most files that one request compares."""


class DescribedFiles(RequestBody):
    """Descriptions of files, such as the inputs of a task that ran."""

    files: Annotated[list[InputFile], Field(min_length=1, max_length=MOST_FILES)]


class Compared(BaseModel):
    """The files that are not as described, and how they differ."""

    differences: Annotated[
        list[FileDifference], Field(description="Those that are changed, gone or unread; others are equal.")
    ]


@router.post("/compare", responses=documented(Compared))
def post_comparison(body: DescribedFiles, caller: Person, runtime: TheRuntime) -> Response:
    """Look at files at their storages, and answer those that are not as described: changed, gone or unread.

    Checksums of files up to 16 MiB are read. A request has 20 s; what is not looked at by then is unread.
    """
    owner, federation = caller.identity, runtime.store.federation()
    spec = inputs.scoped(TaskSpec(name="comparison", inputs=tuple(body.files)), owner)
    faults = [
        *inputs.out_of_scope(spec, federation, owner),
        *inputs.not_nameable(spec, federation, inputs.lookup_for(runtime, owner)),
        *foreign_outputs(runtime.store, spec, federation, owner),
    ]
    for field, message in faults:
        raise field_refused(field.replace("inputs", "files"), message)
    files = [item for item in spec.inputs if isinstance(item, InputFile)]
    return answer({"differences": [*comparisons.differences(runtime, files, owner)]})
