"""Declared attributes of a federation's queues, as columns in the order of the queues."""

from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np

from pilotage.model.records.federation import Queue
from pilotage.model.values.fairshare import PolicyError, parse
from pilotage.policies.brokerage.engine.arrays import Column, Mask
from pilotage.policies.brokerage.engine.offers import MOST_ANSWERS


def attributes(queues: list[Queue]) -> dict[str, Any]:
    """Return the attributes that checks and weights read, as columns."""
    parents = {queue.parent for queue in queues}
    return {
        "names": _labels(queue.name for queue in queues),
        "site_names": _labels(queue.site for queue in queues),
        "test": _mask("test" in queue.name.lower() for queue in queues),
        "unified": _mask(queue.name in parents for queue in queues),
        "status": _labels(queue.status for queue in queues),
        "online": _mask(queue.is_online for queue in queues),
        "draining": _mask(queue.status == "draining" for queue in queues),
        "direct_access": _mask(queue.direct_access for queue in queues),
        "event_service": _labels(queue.event_service for queue in queues),
        "opportunistic": _mask(queue.pledged_cpu == -1 for queue in queues),
        "own_pilots": _mask(queue.computing_element is not None for queue in queues),
        "forwards": _mask(queue.forwards for queue in queues),
        **_limits(queues),
        **_kinds(queues),
    }


def _limits(queues: list[Queue]) -> dict[str, Column]:
    """Return the resources of queues, and the limits for a job."""
    cores = {queue.name: queue.cores for queue in queues}
    return {
        "cores": _numbers(queue.cores for queue in queues),
        "slot_cores": _numbers(max(1, cores.get(queue.parent, queue.cores)) for queue in queues),
        "core_power": number_column(queue.core_power for queue in queues),
        "min_memory": _numbers(queue.min_memory for queue in queues),
        "max_memory": _numbers(queue.max_memory for queue in queues),
        "gpus": _numbers(queue.gpus_of_slot for queue in queues),
        "max_workdir": _numbers(queue.max_workdir for queue in queues),
        "min_walltime": _numbers(queue.min_walltime for queue in queues),
        "max_walltime": _numbers(queue.max_walltime for queue in queues),
        # NaN compares false with everything, so an unknown limit refuses no job.
        "max_disk_io": _numbers(queue.max_disk_io or np.nan for queue in queues),
        "transferring_limit": number_column(queue.transferring_limit for queue in queues),
        **_slots(queues),
    }


def _slots(queues: list[Queue]) -> dict[str, Column]:
    """Return the slots of queues, declared ones and our pilots'. Each pseudo-queue counts with the slots of
    its unified queue (B2), or with the sum over all pseudo-queues if that declares none."""
    together: dict[str, list[Queue]] = defaultdict(list)
    for queue in queues:
        together[queue.parent or queue.name].append(queue)
    declared: dict[str, tuple[float, float]] = {}
    for name, parts in together.items():
        unified = [part for part in parts if part.name == name]
        slots = [part.num_slots for part in parts if part.num_slots is not None]
        own_slots = [part.own_slots for part in parts]
        declared[name] = (
            next(
                (part.num_slots for part in unified if part.num_slots is not None),
                sum(slots) if slots else -1,
            ),
            0 if slots else next((part.own_slots for part in unified if part.own_slots), sum(own_slots)),
        )
    columns = _numbers(chain.from_iterable(declared[queue.parent or queue.name] for queue in queues))
    return {"num_slots": columns[::2].copy(), "own_slots": columns[1::2].copy()}


def _kinds(queues: list[Queue]) -> dict[str, Any]:
    """Return attributes with few kinds among many queues: checks compare the kinds, then expand by code."""
    kinds = tuple(sorted({queue.connectivity for queue in queues}))
    vo_kinds = tuple(sorted({queue.vos for queue in queues}))
    vo_codes = {vos: code for code, vos in enumerate(vo_kinds)}
    return {
        "connectivity": _labels(queue.connectivity for queue in queues),
        "connectivity_kinds": kinds,
        "connectivity_code": np.array([kinds.index(queue.connectivity) for queue in queues], dtype=np.intp),
        "vos": _labels(", ".join(queue.vos) for queue in queues),
        "vo_kinds": vo_kinds,
        "vo_code": np.array([vo_codes[queue.vos] for queue in queues], dtype=np.intp),
    }


def _numbers(values: Iterable[float]) -> Column:
    return np.array(list(values), dtype=float)


def _mask(values: Iterable[bool]) -> Mask:
    return np.array(list(values), dtype=bool)


def _labels(values: Iterable[str]) -> Column:
    return np.array(list(values), dtype=object)


def fairshares(queues: list[Queue]) -> dict[str, Any]:
    """Return the queues' fair-share policies.

    Each kind is parsed once. Raises ValueError for an invalid one.
    """
    texts: dict[str, int] = {}
    kinds = []
    for queue in queues:
        if queue.fairshare_policy not in texts:
            texts[queue.fairshare_policy] = len(texts)
            try:
                kinds.append(parse(queue.fairshare_policy))
            except PolicyError as error:
                raise ValueError(f"queue {queue.name!r}: fairshare_policy: {error}") from error
    return {
        "fairshare": np.array([queue.fairshare_policy for queue in queues], dtype=object),
        "fairshare_kinds": tuple(kinds),
        "no_share": lru_cache(MOST_ANSWERS)(lambda work: tuple(policy.refuses(work) for policy in kinds)),
        "fairshare_code": np.array([texts[queue.fairshare_policy] for queue in queues], dtype=np.intp),
    }


def number_column(values: Iterable[float | None]) -> Column:
    """Return a column of numbers, NaN where unknown."""
    return np.array([np.nan if value is None else value for value in values], dtype=float)
