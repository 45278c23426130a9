"""Checks for any brokerage that no published text has: VOs of a queue (F1), circuit breakers (F2, F4), and
programs or GPUs that its nodes lack (B14)."""

from collections.abc import Sequence

import numpy as np

from pilotage.model.circuit_breakers.empty_pilots import CONTAINERS, GPUS
from pilotage.policies.brokerage.engine.arrays import Column, Mask
from pilotage.policies.brokerage.engine.check import NEVER, Check, Verdict, check
from pilotage.policies.brokerage.engine.offers import Asked, Aspect
from pilotage.policies.brokerage.engine.queue_columns import QueueColumns
from pilotage.policies.brokerage.engine.task_columns import TaskColumns

SHOWN = 3
"""Most queues in the advice of a refusal."""

_MENDED = {CONTAINERS: "install Apptainer", GPUS: "correct gpus of the queue"}
"""What an operator does."""

_AVOIDED = {CONTAINERS: "or the owner removes container_name", GPUS: "or the owner asks for fewer gpus"}
"""What the owner can do."""

_LOOKED_AT = "a pilot finds it there, or an operator lifts the circuit breaker"


@check("F1", "VO", "operator", reads=("vo",), lifted_by="the queue is opened to the VO")
def vo(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Accept queues that name the VO of the task's owner, or none."""
    if queues.vo_kinds == ((),):
        return NEVER
    refused = [
        [bool(open_to) and owner not in open_to for open_to in queues.vo_kinds] for owner in tasks.vo[:, 0]
    ]
    mask = np.array(refused, dtype=bool)[:, queues.vo_code]
    return Verdict(mask, tasks.vo, queues.vos)


@check("F1", "secrets stay here", "user", reads=("has_secrets",), lifted_by="leave the secrets out")
def secrets_stay(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Refuse queues that forward jobs to another Pilotage, for tasks with secrets: secrets stay here."""
    if not queues.forwards.any():
        return NEVER
    have = np.where(queues.forwards, "hands jobs to another Pilotage", "")
    return Verdict(tasks.has_secrets & queues.forwards, "secrets", have)


@check(
    "F2",
    "failing jobs",
    "wait",
    reads=("owner",),
    lifted_by="its circuit breaker is half-open; then one job probes it",
)
def black_hole(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Refuse queues where several jobs of the task failed fast in a row, or jobs of two tasks of the owner,
    or of two owners, unless the tasks are to blame."""
    breakers = queues.live.breakers
    if not breakers:
        return NEVER
    refused = np.zeros((len(tasks), len(queues)), dtype=bool)
    have = np.full(refused.shape, "", dtype=object)
    owners = [tasks.tables.owners[code] for code in tasks.owner[:, 0]]
    for breaker in breakers:
        place = queues.index[breaker.place[0]]
        closed = np.array([breaker.holds_for(*owner) for owner in owners], dtype=bool)
        refused[closed, place] = True
        have[closed, place] = breaker.text
    return Verdict(refused, "a queue where jobs do not fail fast", have)


@check(
    "F4",
    "failing storage",
    "wait",
    reads=("inputs", "outputs", "nucleus"),
    lifted_by="its circuit breaker is half-open; then one delivery probes it",
)
def failing_storage(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Refuse queues if the job needs a storage with failing deliveries: to read or receive its input, to
    store its output, to read it from there, or to receive it at the nucleus."""
    breakers = queues.live.storage_breakers
    if not breakers:
        return NEVER
    have = np.full((len(tasks), len(queues)), "", dtype=object)
    missing = np.broadcast_to(tasks.missing_files(queues) > 0, have.shape)
    away = np.broadcast_to(tasks.outputs & ~tasks.links.here[tasks.nucleus[:, 0]], have.shape)
    to_nucleus = np.broadcast_to(tasks.links.breaker[tasks.nucleus[:, 0]], have.shape)
    have[away] = to_nucleus[away]
    held_up = tasks.input_table.held_up[tasks.inputs[:, 0]].take(queues.storage, axis=1)
    for number, breaker in enumerate(breakers, 1):
        source, destination = breaker.place
        have[missing & (held_up == number)] = breaker.sentence
        if source and destination:
            continue
        at_storage = queues.storage == queues.storages[source or destination]
        # Pilots write outputs to the storage of their queue, even if it is at the nucleus.
        have[(away if source else missing | tasks.outputs) & at_storage] = breaker.sentence
    return Verdict(have != "", "storages that do not fail", have)


@check("B14", "container runtime", "operator", reads=("container",), lifted_by=_LOOKED_AT)
def container_runtime(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Refuse queues where all nodes that pilots found lack programs for containers."""
    has_container = np.array([bool(container.name) for container in tasks.tables.containers], dtype=bool)
    return _on_nodes(CONTAINERS, has_container[tasks.container], queues)


@check("B14", "GPUs of nodes", "operator", reads=("gpus",), lifted_by=_LOOKED_AT)
def gpus_of_nodes(tasks: TaskColumns, queues: QueueColumns) -> Verdict:
    """Refuse queues where all nodes that pilots found lack the requested GPUs."""
    return _on_nodes(GPUS, tasks.gpus > 0, queues)


def _on_nodes(need: str, has_need: Mask, queues: QueueColumns) -> Verdict:
    """Refuse queues with an open breaker of this need, for jobs with the need (``has_need``, (T, 1))."""
    breakers = {
        queues.index[breaker.place[0]]: breaker
        for breaker in queues.live.lacking_nodes
        if breaker.place[1] == need
    }
    if not breakers or not has_need.any():
        return NEVER
    have = np.full(len(queues), "", dtype=object)
    for place, breaker in breakers.items():
        have[place] = breaker.error
    reasons = [f"{queues.names[place]} has {breaker.error}" for place, breaker in sorted(breakers.items())]
    more = ", ..." if len(reasons) > SHOWN else ""
    name = queues.names[min(breakers)] if len(breakers) == 1 else "QUEUE, for each"
    lift = f"pilotage breakers lift {name}"
    mended = f"{', '.join(reasons[:SHOWN])}{more}: {_MENDED[need]}, then {lift}; {_AVOIDED[need]}"
    return Verdict(has_need & (have != ""), need, have, mended)


CHECKS: tuple[Check, ...] = (
    vo,
    secrets_stay,
    black_hole,
    failing_storage,
    container_runtime,
    gpus_of_nodes,
)


def offered(aspect: Aspect, requests: Sequence[Asked], codes: Column, queues: QueueColumns) -> Verdict:
    """Refuse queues that do not offer the request. ``codes`` (T, 1) are indexes into ``requests``.

    It is evaluated once per distinct description of queues and distinct request of tasks.
    """
    if not queues.offers.is_checked(aspect):
        return NEVER
    row_requests = [requests[code] for code in codes[:, 0].tolist()]
    need = np.array([str(request) for request in row_requests], dtype=object).reshape(-1, 1)
    return Verdict(queues.offers.without(aspect, row_requests), need, queues.offers.texts(aspect))
