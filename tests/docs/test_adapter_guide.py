"""The adapters of the guide keep the contracts, as the guide says."""

import re
import sys
import zlib
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pilotage.adapters.computing import contract as computing
from pilotage.adapters.movers import contract as movers
from pilotage.adapters.movers.streaming import Streaming
from pilotage.model.records.federation import Storage
from pilotage.ports import adapters
from pilotage.ports.computing import PilotOrder

GUIDE = Path(__file__).parents[2] / "docs/how-to/adapter.md"


@dataclass
class Job:
    state: str = "PENDING"
    reason: str = "waits for a slot"
    exit_code: int | None = None


def farm() -> SimpleNamespace:
    """A batch system in memory, as the guide's client library."""
    jobs: dict[str, Job] = {}

    def submit(queue: str, name: str, command: list[str], stdin: str) -> int:
        assert stdin not in " ".join([name, *command])
        jobs[str(len(jobs) + 1)] = Job()
        return len(jobs)

    def cancel(numbers: list[int]) -> None:
        for number in numbers:
            if str(number) in jobs:
                jobs[str(number)] = Job("KILLED", "cancelled", -15)

    def known(numbers: list[int]) -> dict[str, Job]:
        return {str(number): jobs[str(number)] for number in numbers if str(number) in jobs}

    return SimpleNamespace(submit=submit, cancel=cancel, jobs=known, slots=lambda _: 4, Refused=OSError)


def shelf() -> SimpleNamespace:
    """A key-value service in memory, as the guide's client library."""
    values: dict[str, bytes] = {}

    def describe(key: str) -> tuple[int, str]:
        value = values.get(key, b"")
        return (len(value), f"adler32:{zlib.adler32(value):08x}") if key in values else (-1, "")

    return SimpleNamespace(
        get=values.get,
        put=values.__setitem__,
        keys=lambda prefix: [key for key in values if key.startswith(prefix)],
        copy=lambda source, target: values.__setitem__(target, values[source]),
        delete=lambda key: values.pop(key, None),
        describe=describe,
    )


@pytest.fixture
def guide(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the guide's code defines."""
    monkeypatch.setitem(sys.modules, "farm", farm())
    monkeypatch.setitem(sys.modules, "shelf", shelf())
    ours = ModuleType("ours")
    for block in re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)[:3]:
        exec(block, ours.__dict__)
    monkeypatch.setitem(sys.modules, "ours", ours)
    stranger = EntryPoint("shelf", "ours:Shelf", "pilotage.storages")
    monkeypatch.setattr(adapters, "entry_points", lambda group: [*entry_points(group=group), stranger])
    return ours


def rig(ours: Any) -> movers.Rig:
    client = ours.shelf
    north, south = (Storage(name=name, site=name, url=f"shelf://{name}") for name in ("north", "south"))
    return movers.Rig(
        source=north,
        destination=south,
        put=lambda storage, path, content: client.put(f"{storage.name}/{path}", content),
        read=lambda storage, path: client.get(f"{storage.name}/{path}"),
        names=lambda storage: sorted(
            key.removeprefix(f"{storage.name}/") for key in client.keys(f"{storage.name}/")
        ),
    )


def test_the_computing_element_keeps_its_contract(guide: Any) -> None:
    orders = [PilotOrder(pilot=n, name=f"p{n}", token="a secret", server_url="http://x") for n in (1, 2)]
    assert computing.violations(guide.Farm, {"queue": "long"}, orders) == []


def test_the_backend_keeps_the_contract_of_movers(guide: Any) -> None:
    assert movers.violations(Streaming, rig(guide)) == []


def test_the_mover_keeps_its_contract(guide: Any) -> None:
    assert movers.violations(guide.ShelfCopies, rig(guide)) == []
