"""Leases of tasks: one whose submitter falls silent ends in time, wherever its payloads run."""

from pilotage.flow.errors import LeaseTooShort
from pilotage.flow.runtime import Runtime
from pilotage.model.decision import Decision, Touch

from .match import lease


def lease_end(runtime: Runtime, seconds: float) -> float:
    """The moment to cancel a task so that nothing of it runs any more in so many s from now.

    Pilots that are cut off run on until their own lease is over, and others hear of it at their next report.
    Raises :class:`LeaseTooShort` where that takes longer than there is.
    """
    federation = runtime.store.federation()
    unheard = 1.1 * lease(federation) + 2 * federation.loops.period
    if seconds <= unheard:
        raise LeaseTooShort(
            f"a lease of {seconds:g} s cannot be kept: pilots may run on for {unheard:g} s after a task is "
            "cancelled; ask for more, or lower timeouts.heartbeat here"
        )
    return runtime.clock() + seconds - unheard


def renew(runtime: Runtime, task: int, seconds: float, actor: str) -> None:
    """Renew a task's lease; one that has ended stays as it is. Raises :class:`LeaseTooShort`."""
    changes = {"lease_end": lease_end(runtime, seconds)}
    touch = Touch(kind="task", ids=(task,), changes=changes)
    decision = Decision(step="renew", time=runtime.clock(), seed=runtime.seeds(), changes=(touch,))
    runtime.store.commit(decision, actor)
