"""The declared federation, and the world as decisions read it."""

from typing import Annotated

from fastapi import APIRouter, Body, Query, Response
from pydantic import BaseModel, Field

from pilotage.federation.faults import BadDocument, Fault
from pilotage.flow.calls.administration import acceptance, federation_changes
from pilotage.flow.calls.administration.federation_changes import NEWEST
from pilotage.model.documents.world import World
from pilotage.model.records.federation import Federation
from pilotage.model.rules.options import without_options
from pilotage.model.values.types import Whole
from pilotage.server.api.documents import Declared, read
from pilotage.server.api.edge.access import FOR_OPERATORS, Operator, OperatorNow, Person, actor
from pilotage.server.api.edge.answers import FileContent, PageOfList, answer, documented, faults_of, listed
from pilotage.server.api.edge.bodies import RequestBody
from pilotage.server.api.edge.dependencies import LINE, PREFIX, After, TheRuntime, TheStore
from pilotage.server.api.edge.measured_routes import MeasuredRoute
from pilotage.server.api.places import world_process
from pilotage.store import FederationRenamed

_FILE = Query(
    max_length=4000, pattern=LINE, description="Path of the file that declares it, by which `up` knows it."
)

router = APIRouter(prefix=PREFIX, tags=["federation"], route_class=MeasuredRoute)


class Saved(BaseModel):
    """The number of the version in force."""

    version: int
    changes: Annotated[list[str], Field(description="What is declared otherwise than before.")]
    effects: Annotated[list[str], Field(description="What follows for work and files that are there.")]
    losses: Annotated[list[str], Field(description="Those of them by which something is lost.")]


@router.get("/federation", responses=documented(Federation, 409))
def get_federation(caller: Person, store: TheStore) -> Response:
    """The federation in force, as declared. Only operators see options, which may hold credentials."""
    federation = store.declared_federation()
    return answer(federation if caller.role == "operator" else without_options(federation))


@router.put("/federation", responses=documented(Saved, 409))
def put_federation(
    body: Annotated[Declared, Body()],
    caller: OperatorNow,
    runtime: TheRuntime,
    dry_run: Annotated[
        bool, Query(description="Only tell what would change, and what would follow.")
    ] = False,
    force: Annotated[bool, Query(description="Also where work or files are lost by it.")] = False,
    file: Annotated[str, _FILE] = "",
    expected: Annotated[
        int | None,
        Query(ge=0, le=NEWEST, description="The version that the change is for; 409 if another is."),
    ] = None,
    note: Annotated[str, Query(max_length=500, pattern=LINE, description="Why, for the history.")] = "",
) -> Response:
    """Replace the federation without a restart. One with faults is refused as a whole.

    A change that would lose running jobs or known files is refused (409) unless forced. The answer names the
    obstacles and what would work instead. A dry run answers with the version in force.
    """
    federation = read(Federation, body, acceptance.faults)
    if isinstance(federation, BadDocument):
        return answer({"detail": faults_of(federation)}, 422)
    try:
        review = federation_changes.review(runtime.store, federation)
        if dry_run:
            version = runtime.store.version()
        else:
            version = federation_changes.save(
                *(runtime.store, federation, actor(caller), file), force=force, expected=expected, note=note
            )
            runtime.wakeups.wake_all()
    except FederationRenamed as error:
        return answer({"detail": faults_of(BadDocument([Fault(("name",), str(error))]))}, 422)
    return answer({"version": version, **_review_texts(review)})


class FederationVersions(PageOfList):
    """Versions of the federation, newest first."""

    versions: Annotated[list[federation_changes.DescribedVersion], Field(description="Newest first.")]


class Rollback(RequestBody):
    """The version to go back to."""

    version: Annotated[Whole, Field(ge=1, le=NEWEST, description="Its number in the history.")]
    dry_run: Annotated[bool, Field(description="Only tell what would change.")] = False
    force: Annotated[bool, Field(description="Also where work or files are lost by it.")] = False


@router.get("/federation/history", dependencies=[FOR_OPERATORS], responses=documented(FederationVersions))
def get_history(
    store: TheStore,
    after: After = "",
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> Response:
    """Who changed the federation, when, why, and its state before. Drains and closures count as changes."""
    return listed("versions", federation_changes.history(store, after, limit))


@router.post("/federation/rollback", responses=documented(Saved, 404, 409))
def post_rollback(body: Rollback, caller: OperatorNow, runtime: TheRuntime) -> Response:
    """Put an earlier version in force again, as a new one. If it equals the federation in force, nothing
    changes.

    Drains and closures stay as they are.
    """
    federation = federation_changes.of_version(runtime.store, body.version)
    review = federation_changes.review(runtime.store, federation)
    version = runtime.store.version()
    if not body.dry_run and federation != runtime.store.declared_federation():
        note = f"back to version {body.version}"
        version = federation_changes.save(
            *(runtime.store, federation, actor(caller)), force=body.force, expected=version, note=note
        )
        runtime.wakeups.wake_all()
    return answer({"version": version, **_review_texts(review)})


def _review_texts(review: federation_changes.Review) -> dict[str, list[str]]:
    return {
        "changes": [change.text for change in review.changes],
        "effects": [effect.text for effect in review.effects],
        "losses": [loss.text for loss in review.losses],
    }


@router.get("/world", responses=documented(World, 409))
def get_world(caller: Operator, runtime: TheRuntime) -> Response:
    """Everything that decisions read, as of now. Any of them can be repeated from it.

    For a monitor it has no options.
    """
    runtime.store.federation()  # 409 where there is none
    return FileContent(
        world_process.pieces(runtime, with_options=caller.role == "operator"), media_type="application/json"
    )
