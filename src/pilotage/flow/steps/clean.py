"""Remove unwanted copies by age, use and quota."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pilotage.flow.outside.removals import remove_copies
from pilotage.flow.reads import ProcessFields
from pilotage.flow.runtime import Runtime
from pilotage.flow.step import Phase, Step, always
from pilotage.model.documents.decision import Committed, Decision, Forget
from pilotage.model.documents.subjects import FILE, SITE
from pilotage.model.documents.world import World
from pilotage.model.values.phrases import moment
from pilotage.model.values.step_names import CLEAN
from pilotage.policies.staging import unwanted
from pilotage.store import Pass
from pilotage.store.files.copies import copies

MOST_COPIES = 10_000
"""Most copies that one pass removes."""


def _unable(runtime: Runtime, world: World) -> Mapping[str, Any]:
    """Return the kinds of storages where this process cannot delete files."""
    return {"unable": runtime.deliveries.unable_to_delete(world.federation)}


def _bounds(runtime: Runtime, now: Pass) -> Pass:
    """Leave out copies at storages where this process cannot delete files."""
    return replace(now, unable=runtime.deliveries.unable_to_delete(runtime.store.federation()))


def _removed(runtime: Runtime, world: World, decision: Decision, _: Committed) -> None:
    """Have the bytes of forgotten copies deleted, unless a new job reads them."""
    gone = [
        replica for change in decision.changes if isinstance(change, Forget) for replica in change.replicas
    ]
    remove_copies(runtime, gone, world.time)


def _idle(world: World) -> Iterator[str]:
    if world.cleaned is not None:
        next_time = world.cleaned + world.federation.staging.cleaning_period
        if next_time > world.time:
            yield f"copies are not looked at before {moment(next_time)}"
            return
    yield "of the copies that may go none is too old, and no quota is passed"


STEP = Step(
    name=CLEAN,
    place=12,
    summary="Remove unneeded copies, by age, use and quota.",
    reads=(copies(MOST_COPIES), ProcessFields(("unable",), _unable)),
    bounds=_bounds,
    phases=always(Phase(actor=CLEAN, decide=unwanted.remove, act=_removed)),
    subjects=(FILE, SITE),
    idle=_idle,
)
