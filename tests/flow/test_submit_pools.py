"""Submit pools: bounded pools of workers, changed while they run, with logs of their names (P5, P11)."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pilotage.flow.outside.submit_pools import SubmitPools
from pilotage.flow.outside.workers import PlaceBusy, Workers
from pilotage.model.records.constants import SubmitPool
from pilotage.ports.computing import pool_log, submission_log, submitting
from tests.waiting import PATIENCE


class Gate:
    """Calls that wait until they are let go, and how many of them run."""

    def __init__(self) -> None:
        self._let_go = threading.Event()
        self._changed = threading.Condition()
        self.running = 0

    def call(self) -> str:
        with self._changed:
            self.running += 1
            self._changed.notify_all()
        assert self._let_go.wait(PATIENCE)
        with self._changed:
            self.running -= 1
        return threading.current_thread().name

    def wait_for(self, running: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.running == running, PATIENCE), f"{self.running} run"

    def open(self) -> None:
        self._let_go.set()


@contextmanager
def pools(**declared: SubmitPool) -> Iterator[SubmitPools]:
    workers = Workers()
    made = SubmitPools(workers)
    made.configure(declared)
    try:
        yield made
    finally:
        made.close()
        workers.close()


def submissions(made: SubmitPools) -> dict[str, int]:
    return {report.pool: report.submissions for report in made.reports()}


def test_p5_a_pool_has_so_many_workers_and_takes_so_many_submissions() -> None:
    gate = Gate()
    with pools(a=SubmitPool(max_threads_in_pool=2, total_threads_in_pool=5)) as made:
        taken = [made.submit("a", f"place {n}", gate.call) for n in range(5)]
        gate.wait_for(running=2)
        assert submissions(made) == {"a": 5}
        with pytest.raises(PlaceBusy, match="submit pool a takes no more"):
            made.submit("a", "place 9", gate.call).result()
        gate.open()
        assert len([future.result(PATIENCE) for future in taken]) == 5


def test_p11_a_pool_is_changed_while_it_runs() -> None:
    gate = Gate()
    with pools(a=SubmitPool(max_threads_in_pool=1, total_threads_in_pool=9)) as made:
        taken = [made.submit("a", f"place {n}", gate.call) for n in range(4)]
        gate.wait_for(running=1)
        made.configure({"a": SubmitPool(max_threads_in_pool=3, total_threads_in_pool=4)})
        gate.wait_for(running=3)
        with pytest.raises(PlaceBusy):
            made.submit("a", "place 9", gate.call).result()
        made.configure({"b": SubmitPool()})
        assert submissions(made) == {"b": 0}
        gate.open()
        assert len([future.result(PATIENCE) for future in taken]) == 4, (
            "what waited in a pool that is gone goes on"
        )


def test_p5_a_pool_keeps_its_least_workers_and_one_that_fails_takes_the_next() -> None:
    def fails() -> None:
        raise OSError("the batch system is away")

    with pools(kept=SubmitPool(min_threads_in_pool=3)) as made:
        names = [thread.name for thread in threading.enumerate()]
        assert names.count("submit-kept") == 3
        with pytest.raises(OSError, match="away"):
            made.submit("kept", "place", fails).result(PATIENCE)
        assert made.submit("kept", "place", lambda: 5).result(PATIENCE) == 5


def test_p11_the_log_of_a_pool_is_named_after_it() -> None:
    assert pool_log("gpu").name == "pilotage.submit_pools.gpu"
    assert logging.getLogger("pilotage.submit_pools").getChild("gpu") is pool_log("gpu")


def test_p11_what_an_adapter_says_while_it_submits_is_in_the_log_of_the_pool_of_its_thread() -> None:
    own, inside = logging.getLogger("adapter"), threading.Event()

    def submission() -> logging.Logger:
        with submitting("gpu"):
            inside.set()
            return submission_log(own)

    with pools(gpu=SubmitPool()) as made:
        submitted = made.submit("gpu", "place", submission)
        assert inside.wait(PATIENCE)
        assert submission_log(own) is own, "another thread submits nothing"
        assert submitted.result(PATIENCE) is pool_log("gpu")
