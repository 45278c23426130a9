"""Questions to batch systems come in their time, whether there are answers or not."""

import logging

import pytest

from pilotage.flow.outside.inquiries import PERIOD, Inquiries
from pilotage.flow.outside.workers import Inline
from pilotage.model.records.federation import Queue
from pilotage.ports.computing import Capacity, ComputingElementPort

from .house import FakeElement

QUEUE = Queue(name="far", site="lab", storage="disk")


class Away(FakeElement):
    """A batch system that does not answer until it is back."""

    asked = 0
    is_back = False

    def capacity(self) -> Capacity:
        self.asked += 1
        if not self.is_back:
            raise OSError("no route to host")
        return Capacity(slots=8)


def test_a_server_that_does_not_answer_is_asked_no_more_often(caplog: pytest.LogCaptureFixture) -> None:
    away = Away()

    def adapter(_queue: Queue, _server: str, _credential: str) -> ComputingElementPort:
        return away

    inquiries = Inquiries(Inline(), adapter, lambda: None)
    with caplog.at_level(logging.WARNING):
        for second in range(0, 60, 5):
            inquiries.survey(QUEUE, "far", "", 1000.0 + second)
    assert (away.asked, len(caplog.records), inquiries.server_reports()) == (1, 1, ())
    (silent,) = inquiries.unanswered()
    assert (silent.queue, silent.answered, silent.error) == ("far", None, "OSError: no route to host")
    away.is_back = True
    inquiries.survey(QUEUE, "far", "", 1000.0 + PERIOD)
    assert [report.slots for report in inquiries.server_reports()] == [8]
    assert inquiries.unanswered() == ()
    inquiries.keep(())
    assert inquiries.server_reports() == ()
