"""Leases of tasks: if a submitter falls silent, its task ends in time, wherever its payloads run."""

from collections.abc import Iterable

from pilotage.flow.errors import LeaseTooShort
from pilotage.flow.runtime import Runtime
from pilotage.model.documents.decision import Decision, Touch
from pilotage.model.records.spec import TaskSpec
from pilotage.model.rules.timeouts import lease_of


def lease_end(runtime: Runtime, seconds: float, specs: Iterable[TaskSpec]) -> float:
    """Return when to cancel tasks so that nothing of them runs after this many s from now.

    Disconnected pilots run on until the leases of their jobs end, which depends on the workflow. Others hear
    of it at their next report. Raises ``LeaseTooShort`` if that takes longer than the lease.
    """
    federation = runtime.store.federation()
    leases = [lease_of(federation.timeouts, spec.workflow) for spec in specs]
    unheard = 1.1 * max(leases, default=0.0) + 2 * federation.loops.period
    if seconds <= unheard:
        raise LeaseTooShort(
            f"a lease of {seconds:g} s cannot be kept: pilots may run on for {unheard:g} s after a task is "
            "cancelled; ask for more, or lower timeouts.heartbeat, or that of the workflow, here"
        )
    return runtime.clock() + seconds - unheard


def renew(runtime: Runtime, task: int, spec: TaskSpec, seconds: float, actor: str) -> None:
    """Renew a task's lease. A task that has ended stays as it is. Raises ``LeaseTooShort``."""
    changes = {"lease_end": lease_end(runtime, seconds, [spec])}
    touch = Touch(kind="task", ids=(task,), changes=changes)
    decision = Decision(step="renew", time=runtime.clock(), seed=runtime.seeds(), changes=(touch,))
    runtime.store.commit(decision, actor)
