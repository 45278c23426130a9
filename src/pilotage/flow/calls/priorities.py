"""The priorities of live transfers are changed by an operator (D9)."""

from collections.abc import Sequence
from itertools import groupby

from pilotage.flow.step import new_seed
from pilotage.model.decision import Decision, Touch
from pilotage.store import Store


def set_priorities(store: Store, priorities: Sequence[tuple[int, int]], actor: str, now: float) -> list[int]:
    """Give transfers, by id, a priority of 1..100; returns the ids of those that are live and have it now."""

    def by_priority(pair: tuple[int, int]) -> int:
        return pair[1]

    changes = tuple(
        Touch(kind="transfer", ids=tuple(id_ for id_, _ in pairs), changes={"priority": priority})
        for priority, pairs in groupby(sorted(priorities, key=by_priority), key=by_priority)
    )
    committed = store.commit(Decision(step="priorities", time=now, seed=new_seed(), changes=changes), actor)
    return sorted(id_ for ids in committed.accepted for id_ in ids)
