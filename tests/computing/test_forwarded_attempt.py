"""An attempt at another Pilotage that does not answer is asked for again, with pauses."""

import threading
from typing import Any, cast

import pytest

from pilotage.adapters.computing.forwarding.forwarded_attempt import ForwardedAttempt, Handover
from pilotage.adapters.computing.forwarding.peer import Peer
from pilotage.adapters.computing.web_service import AnswerLost
from pilotage.agent.machine import now
from pilotage.agent.payload.attempt import AttemptFailedError


class SilentPeer:
    """Takes a task, tells nobody, and is gone."""

    url = "http://other"

    def __init__(self) -> None:
        self.calls = 0
        self.called = threading.Event()

    def submit(self, *_: Any) -> int:
        self.calls += 1
        self.called.set()
        raise AnswerLost("no answer") if self.calls == 1 else ConnectionRefusedError("nobody listens")


class OneHandover:
    key = "here:1.1"

    class specification:  # noqa: N801 -- stands for a field
        grace = 0.0

    def spec(self) -> dict[str, Any]:
        return {}


@pytest.mark.slow
def test_an_attempt_that_is_stopped_before_it_is_answered_does_not_ask_without_a_pause() -> None:
    peer = SilentPeer()
    handover = cast(Handover, OneHandover())
    attempt = ForwardedAttempt(cast(Peer, peer), handover, now() + 2.0, lambda: None)
    threading.Timer(0.2, attempt.stop, ["cancelled"]).start()
    with pytest.raises(AttemptFailedError):
        attempt.run()
    assert peer.calls < 20
