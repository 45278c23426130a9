"""Change the priorities of live transfers for an operator (D9)."""

from collections.abc import Sequence
from itertools import groupby

from pilotage.flow.runtime import Runtime
from pilotage.model.decision import Decision, Touch


def set_priorities(runtime: Runtime, priorities: Sequence[tuple[int, int]], actor: str) -> list[int]:
    """Give transfers, by id, a priority of 1..100; returns the ids of those that are live and have it now."""

    def by_priority(pair: tuple[int, int]) -> int:
        return pair[1]

    changes = tuple(
        Touch(kind="transfer", ids=tuple(id_ for id_, _ in pairs), changes={"priority": priority})
        for priority, pairs in groupby(sorted(priorities, key=by_priority), key=by_priority)
    )
    decision = Decision(step="priorities", time=runtime.clock(), seed=runtime.seeds(), changes=changes)
    committed = runtime.store.commit(decision, actor)
    runtime.wakeups.wake("stage")
    return sorted(id_ for ids in committed.accepted for id_ in ids)
