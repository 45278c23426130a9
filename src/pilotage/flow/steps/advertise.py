"""Make native sites advertise: ask their batch systems, and record the answers (M1, M2)."""

from collections.abc import Iterator

from pilotage.flow.outside.elements import place_of, servers_of
from pilotage.flow.outside.inquiries import submitted_beside
from pilotage.flow.runtime import Runtime
from pilotage.flow.step import Phase, Step, always
from pilotage.model.documents.decision import Committed, Decision
from pilotage.model.documents.subjects import SITE
from pilotage.model.documents.world import World
from pilotage.model.values.phrases import plural
from pilotage.model.values.step_names import ADVERTISE
from pilotage.policies.pilots import advertising


def _ask(runtime: Runtime, world: World, _: Decision, __: Committed) -> None:
    """Ask the batch systems of native sites that are due: their answers become the next advertisements."""
    sites = dict(advertising.due_sites(world))
    every = world.federation.brokerage.advertise_period
    queues = [queue for queue in world.federation.queues if queue.computing_element and queue.site in sites]
    pilots = [pilot for queue in queues for pilot in runtime.store.queries.live_pilots(queue.name)]
    for queue in queues:
        for server in servers_of(queue.computing_element) if queue.computing_element else ():
            references = submitted_beside(pilots, queues, queue, server)
            place = place_of(queue, server)
            runtime.elements.inquiries.survey(queue, place, server, world.time, references, every)


def _idle(world: World) -> Iterator[str]:
    sites = advertising.due_sites(world)
    if not sites:
        count = plural(len(world.advertisements), "advertisement")
        yield f"no site's turn has come: {count}, one every {world.federation.brokerage.advertise_period:g} s"
    else:
        yield f"no batch system of {', '.join(site for site, _ in sites)} has answered since"


STEP = Step(
    name=ADVERTISE,
    place=11,
    summary="Let native sites advertise what they have and run.",
    reads=("advertisements", "server_reports"),
    phases=always(Phase(actor=ADVERTISE, decide=advertising.advertise, act=_ask)),
    subjects=(SITE,),
    idle=_idle,
    # A site that has just advertised is due again after a period.
    goes_on=lambda _runtime: False,
)
