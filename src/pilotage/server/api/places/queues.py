"""Queues and global shares, with their current load."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import fields as dataclass_fields
from operator import attrgetter
from typing import Annotated

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel, Field

from pilotage.explain.layout import TextForm
from pilotage.flow.calls.pilots import queue_tests
from pilotage.flow.calls.pilots.queue_tests import no_queue
from pilotage.flow.calls.places import circuit_breakers
from pilotage.flow.runtime import Runtime
from pilotage.model.circuit_breakers.breaker import seen_by
from pilotage.model.documents.decision import DatedChoice
from pilotage.model.rules.places import site_of
from pilotage.model.values.identity import Owners
from pilotage.server.api.edge.access import (
    FOR_PEOPLE,
    Person,
    SiteAdmin,
    actor,
    owner_seen,
    refuse_other_site,
)
from pilotage.server.api.edge.answers import answer, documented, listed
from pilotage.server.api.edge.dependencies import PREFIX, After, Form, Limit, TheRuntime, TheStore
from pilotage.server.api.edge.measured_routes import MeasuredRoute
from pilotage.server.api.places.breakers import ShownBreaker, breaker_view
from pilotage.server.api.views import Queues, Shares, ShownQueue
from pilotage.server.api.work.explanations import QueueExplanation, explained_queue
from pilotage.store import QueueView, named_page

router = APIRouter(prefix=PREFIX, tags=["queues"], route_class=MeasuredRoute)


_FIELDS = [field.name for field in dataclass_fields(QueueView)]
_values = attrgetter(*_FIELDS)


@router.get("/queues", responses=documented(Queues, 409))
def get_queues(caller: Person, runtime: TheRuntime, after: After = "", limit: Limit = 10_000) -> Response:
    """Queues by name, with the number of jobs and pilots in each state, and circuit breakers."""
    name, status = attrgetter("name"), attrgetter("status")
    return listed("queues", named_page(shown_queues(runtime, owner_seen(caller)), name, after, limit, status))


def shown_queues(runtime: Runtime, owners: Owners) -> list[ShownQueue]:
    """Return every queue by name, with the breakers that concern some owners. Raises ``NoFederation``."""
    now = runtime.clock()
    tripped: dict[str, list[ShownBreaker]] = defaultdict(list)
    for breaker in seen_by(circuit_breakers.of_queues(runtime), owners):
        tripped[breaker.place[0]].append(breaker_view(breaker, now))
    return [
        ShownQueue(**dict(zip(_FIELDS, _values(queue), strict=True)), breakers=tripped[queue.name])
        for queue in runtime.store.queries.queues()
    ]


QueueName = Annotated[str, Path(max_length=200)]


@router.get("/queues/{queue}/explain", responses=documented(QueueExplanation, 404, 409))
def get_explanation(queue: QueueName, caller: Person, runtime: TheRuntime, text: Form) -> Response:
    """Explain one queue: its limits, its load, its measurements, and why nothing starts."""
    return explained(runtime, queue, (), text, owner_seen(caller))


class QueueTest(BaseModel):
    """A pilot that tests a queue."""

    pilot: Annotated[int, Field(description="Its number; its logs describe its node.")]


@router.post("/queues/{queue}/test", responses=documented(QueueTest, 404, 409))
def post_test(queue: QueueName, runtime: TheRuntime, credential: SiteAdmin) -> Response:
    """Send one pilot to a queue to report on its node. While one is under way, return that."""
    refuse_other_site(credential, site_of(runtime.store.declared_federation(), queue, "queue"))
    return answer({"pilot": queue_tests.send(runtime, queue, credential.identity, actor(credential))})


def explained(
    runtime: Runtime, queue: str, choices: Sequence[DatedChoice], text: TextForm, owners: Owners
) -> Response:
    """Return the explanation of a queue, as some owners see it; 404 if no queue has this name."""
    explanation = explained_queue(runtime, queue, choices, text, owners)
    if explanation is None:
        raise no_queue(queue)
    return answer(explanation)


@router.get("/shares", dependencies=[FOR_PEOPLE], responses=documented(Shares, 409))
def get_shares(store: TheStore) -> Response:
    """Every global share, with the number of its jobs and transfers in each state.

    The list comes whole: a federation declares at most 1000.
    """
    return answer({"shares": store.queries.shares()})
