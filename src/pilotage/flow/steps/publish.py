"""Register outputs in their tasks' datasets, in this catalogue or external ones."""

from collections.abc import Iterator, Sequence

from pilotage.flow.outside.publishing import PublicationOrder
from pilotage.flow.runtime import Runtime
from pilotage.flow.step import Phase, Step, always
from pilotage.model.documents.decision import Committed, Decision, Move
from pilotage.model.documents.subjects import TASK
from pilotage.model.documents.world import World
from pilotage.model.records.publications import Publication, is_own, published_name, split_dataset
from pilotage.model.records.states import PublicationState
from pilotage.model.values.phrases import moment, plural
from pilotage.model.values.step_names import PUBLISH
from pilotage.policies.staging import publishing
from pilotage.ports.catalogue import OutputFile
from pilotage.store.files.publications import to_register


def _observed(runtime: Runtime, world: World, _: Decision, __: Committed) -> None:
    runtime.publishing.forget(world.published)


def _start(runtime: Runtime, world: World, decision: Decision, committed: Committed) -> None:
    """Call the catalogues for the publications that began, once per dataset."""
    publications = {publication.id: publication for publication in world.publications}
    for change, ids in zip(decision.changes, committed.accepted, strict=True):
        if isinstance(change, Move) and change.target is PublicationState.PUBLISHING and ids:
            runtime.publishing.start(_order(world, [publications[id_] for id_ in ids]))


def _order(world: World, begun: Sequence[Publication]) -> PublicationOrder:
    dataset = begun[0].dataset
    if is_own(dataset):
        return PublicationOrder(dataset=dataset, files={}, closing=begun, rule=None)
    catalogue = split_dataset(dataset)[0]
    declared = next(item for item in world.federation.catalogues if item.name == catalogue)
    paths = publishing.paths_of(world, declared)
    files = {file.name: file for file in world.files}
    return PublicationOrder(
        dataset=dataset,
        files={
            (publication.id, publication.attempt): OutputFile(
                name=published_name(dataset, publication.file),
                size=files[publication.file].size,
                checksum=files[publication.file].checksum,
                paths=paths[publication.file],
            )
            for publication in begun
            if publication.file
        },
        closing=[publication for publication in begun if not publication.file],
        rule=declared.outputs.rule if declared.outputs else None,
    )


def _idle(world: World) -> Iterator[str]:
    under_way = [
        publication for publication in world.publications if publication.state is PublicationState.PUBLISHING
    ]
    waiting = [
        publication for publication in world.publications if publication.state is PublicationState.WAITING
    ]
    later = [publication.wake_at for publication in waiting if publication.wake_at > world.time]
    if under_way:
        yield f"{plural(len(under_way), 'output')} being registered"
    if later:
        yield f"{len(later)} not tried again before {moment(min(later))}"
    if not under_way and not waiting:
        yield "no output is to be registered now"


STEP = Step(
    name=PUBLISH,
    place=13,
    summary="Register outputs in the datasets that their tasks name.",
    reads=("published", to_register, "replicas", "server", "servers_gone"),
    phases=always(
        Phase(actor=PUBLISH, decide=publishing.observed, act=_observed, records=True),
        Phase(actor=PUBLISH, decide=publishing.begin, act=_start),
    ),
    subjects=(TASK,),
    idle=_idle,
    in_hand=lambda runtime: runtime.publishing.in_hand,
    wakes_all_servers=True,
    wakes_on=frozenset(
        {
            ("publication", PublicationState.WAITING),
            ("publication", PublicationState.PUBLISHED),
            ("publication", PublicationState.FAILED),
        }
    ),
)
