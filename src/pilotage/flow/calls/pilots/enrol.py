"""Exchange the token in a pilot's order for its own credential, and renew that while it lives (P9)."""

import logging

from pilotage.agent.wire import Enrolled
from pilotage.flow.errors import AlreadyEnrolled, PilotGone
from pilotage.flow.runtime import Runtime
from pilotage.model.documents.decision import Decision, Touch
from pilotage.model.records.states import LIVE_PILOTS
from pilotage.model.values.step_names import MATCH
from pilotage.policies.pilots import credentials

log = logging.getLogger(__name__)


def enrol(runtime: Runtime, pilot: int, token: str, nonce: str, version: str = "") -> Enrolled:
    """Exchange an enrolment token once, and record the agent's version; empty: unknown.

    The same agent, by its nonce, gets the same answer again.
    Raises ``PilotGone``, and ``AlreadyEnrolled`` for every other agent.
    """
    record = runtime.store.queries.pilot(pilot)
    if record is None or record.state not in LIVE_PILOTS:
        raise PilotGone(pilot)
    credential = runtime.store.tokens.enrol(token, nonce, runtime.clock() + credentials.LIFETIME)
    if credential is None:
        log.warning(
            "pilot %d: a second agent came with its token, and was refused", pilot, extra={"pilot": pilot}
        )
        raise AlreadyEnrolled(
            f"pilot {pilot} has enrolled already, and its token is good for one agent: "
            "this one was started twice, or another program has used the token"
        )
    if version != record.agent_version:
        noted = Touch(kind="pilot", ids=(pilot,), changes={"agent_version": version})
        decision = Decision(step=MATCH, time=runtime.clock(), seed=0, changes=(noted,))
        runtime.store.commit(decision, f"pilot:{pilot}")
    return Enrolled(token=credential)


def is_due(runtime: Runtime, expires: float | None) -> bool:
    """Return whether a credential needs renewal."""
    return credentials.is_due(runtime.clock(), expires)


def renew(runtime: Runtime, pilot: int, expires: float | None) -> None:
    """Extend a calling pilot's credential once half its time is over."""
    if expires is None or not is_due(runtime, expires):
        return
    record = runtime.store.queries.pilot(pilot)
    until = credentials.renewed(runtime.clock(), record) if record else expires
    if until > expires:
        runtime.store.tokens.renew(pilot, until)
