"""The house's adapters keep the contract, and the contract finds those that do not."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from pilotage.adapters.computing.contract import violations
from pilotage.adapters.computing.process import Process
from pilotage.ports.computing import Capacity, PilotOrder, PilotStatus, Submitted
from tests.agent.fake_pilot_server import TOKEN, FakeServer


@pytest.fixture
def orders() -> Iterator[list[PilotOrder]]:
    """Three pilots that wait for work."""
    with FakeServer(idle=600).serving() as server:
        yield [
            PilotOrder(pilot=n, name=f"here-pilot-{n}", token=TOKEN, server_url=server.url, walltime=3600)
            for n in range(1, 4)
        ]


def test_processes_keep_the_contract(tmp_path: Path, orders: list[PilotOrder]) -> None:
    assert violations(Process, {"directory": str(tmp_path)}, orders, losing=Process) == []


class Batch:
    """A batch system in memory, whose every fault is asked for by name."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.fault = options.get("fault", "")
        if set(options) - {"fault"} and self.fault != "any option":
            raise ValueError(f"unknown options {sorted(set(options) - {'fault'})}")
        self.states: dict[str, str] = {}

    def submit(self, orders: Sequence[PilotOrder]) -> Sequence[Submitted]:
        answers = []
        for number, order in enumerate(orders):
            reference = "same" if self.fault == "same reference" else f"batch-{number}"
            if self.fault == "token shown":
                reference += order.token
            self.states[reference] = "waiting"
            answers.append(Submitted(reference=reference, error="x" if self.fault == "both" else ""))
        return answers[:-1] if self.fault == "one less" else answers

    def poll(self, references: Collection[str]) -> Mapping[str, PilotStatus]:
        lost = "ended" if self.fault == "lost is ended" else "unknown"
        found = {
            reference: PilotStatus(state=self.states.get(reference, lost))  # type: ignore[arg-type]
            for reference in references
        }
        if self.fault == "only its own":
            return {reference: status for reference, status in found.items() if reference in self.states}
        return found

    def cancel(self, references: Collection[str]) -> None:
        if self.fault == "cancels all" and references:
            references = list(self.states)
        for reference in references:
            if reference in self.states and self.fault != "cancels nothing":
                self.states[reference] = "ended"

    def capacity(self) -> Capacity:
        return Capacity(waiting=-1 if self.fault == "negative" else None)


ORDERS = [PilotOrder(pilot=n, name=f"p{n}", token="secret", server_url="http://x") for n in (1, 2)]


def test_a_batch_system_in_memory_keeps_the_contract() -> None:
    assert violations(Batch, {}, ORDERS) == []


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("any option", "an unknown option is no ValueError"),
        ("same reference", "references are given twice"),
        ("token shown", "shows its token"),
        ("both", "not a reference or else an error"),
        ("one less", "2 orders have 1 answers"),
        ("lost is ended", "is ended and not unknown"),
        ("only its own", "the statuses are not those that were asked for"),
        ("cancels all", "cancelling references that it never gave ended"),
        ("cancels nothing", "cancelled pilots do not end: batch-0 waiting"),
        ("negative", "capacity: waiting is -1"),
    ],
)
def test_the_contract_finds_an_adapter_that_breaks_it(fault: str, said: str) -> None:
    found = violations(Batch, {"fault": fault}, ORDERS, patience=0)
    assert [text for text in found if said in text], found


class Named(Batch):
    """One that knows pilots by their names, whoever asks, and may lose or fail an answer."""

    known: ClassVar[dict[str, str]] = {}

    def submit(self, orders: Sequence[PilotOrder]) -> Sequence[Submitted]:
        for order in orders:
            if self.fault == "forgets names" or order.name not in self.known:
                self.known[order.name] = f"batch-{len(self.all)}"
                self.all[self.known[order.name]] = "waiting"
        if self.fault == "loses":
            raise TimeoutError
        error = "hook failed" if self.fault == "refuses" else ""
        return [Submitted(reference="" if error else self.known[one.name], error=error) for one in orders]

    all: ClassVar[dict[str, str]] = {}

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(options)
        self.states = self.all


@pytest.mark.parametrize(
    ("fault", "losing", "said"),
    [
        ("", "loses", ""),
        ("", "", ""),
        ("", "refuses", "a pilot that was taken is refused: hook failed"),
        ("forgets names", "loses", "pilots that are ordered again are others"),
    ],
)
def test_the_contract_has_pilots_found_by_their_names(fault: str, losing: str, said: str) -> None:
    Named.known.clear()
    Named.all.clear()
    found = violations(Named, {"fault": fault}, ORDERS, patience=0, losing=lambda _: Named({"fault": losing}))
    assert bool(found) == bool(said), found
    assert not said or any(said in text for text in found), found
