"""Calls that arrive while earlier ones are worked on are worked on together, each with its own answer."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from pilotage.server.api.edge.together import Together
from tests.waiting import PATIENCE


def test_what_arrives_meanwhile_is_done_at_once() -> None:
    batches: list[list[int]] = []
    go_on = threading.Semaphore(0)

    def work(calls: Sequence[int]) -> list[int]:
        batches.append(list(calls))
        assert go_on.acquire(timeout=PATIENCE)
        return [call * 10 for call in calls]

    async def calls() -> list[int]:
        together = Together(work)
        first = asyncio.create_task(together(1))
        while not batches:
            await asyncio.sleep(0.001)
        others = [asyncio.create_task(together(number)) for number in (2, 3, 4)]
        await asyncio.sleep(0)
        # A client that goes does not take the others' answers with it.
        others[1].cancel()
        go_on.release(2)
        answers = await asyncio.gather(first, *others, return_exceptions=True)
        assert isinstance(answers.pop(2), asyncio.CancelledError)
        return [answer for answer in answers if isinstance(answer, int)]

    assert asyncio.run(calls()) == [10, 20, 40]
    assert batches == [[1], [2, 3, 4]]


def test_a_fault_reaches_each_caller_and_the_next_calls_go_on() -> None:
    faults = [OSError("away")]

    def work(calls: Sequence[int]) -> Sequence[int]:
        if faults:
            raise faults.pop()
        return calls

    async def calls() -> int:
        together = Together(work)
        outcomes = await asyncio.gather(together(1), together(2), return_exceptions=True)
        assert [str(outcome) for outcome in outcomes] == ["away", "away"]
        return await together(3)

    assert asyncio.run(calls()) == 3


@pytest.mark.parametrize("count", [1, 50])
def test_each_caller_gets_the_answer_to_its_call(count: int) -> None:
    async def calls() -> list[int]:
        together = Together[int, int](lambda numbers: [number + 1 for number in numbers])
        return await asyncio.gather(*(together(number) for number in range(count)))

    assert asyncio.run(calls()) == list(range(1, count + 1))
