"""A pilot goes on to another server of the same store where its own does not answer."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from pilotage.agent import wire
from pilotage.agent.client import PilotClient, RefusedError, UnreachableError

from .fake_pilot_server import TOKEN, FakeServer


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer().serving() as fake:
        yield fake


@pytest.fixture
def frozen() -> Iterator[str]:
    """A server that is stopped: the kernel still takes its connections."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def gone(free_port: int) -> str:
    return f"http://127.0.0.1:{free_port}"


async def call(client: PilotClient) -> None:
    await client.enrol()
    await client.report(wire.Reports())


@pytest.mark.parametrize("first", ["frozen", "gone"])
def test_the_next_call_goes_to_the_next_server(
    server: FakeServer, first: str, request: pytest.FixtureRequest
) -> None:
    client = PilotClient(f"{request.getfixturevalue(first)},{server.url}", TOKEN, timeout=0.5)
    with pytest.raises(UnreachableError):
        asyncio.run(call(client))
    asyncio.run(call(client))
    asyncio.run(call(client))
    assert len(server.calls) == 3, "it enrols, and stays there"


def test_servers_are_asked_in_turn(server: FakeServer, frozen: str, gone: str) -> None:
    client = PilotClient(f"{gone},{frozen},{server.url}", TOKEN, timeout=0.5)
    for _ in range(2):
        with pytest.raises(UnreachableError):
            asyncio.run(call(client))
    asyncio.run(call(client))


def test_a_server_of_the_first_release_hears_what_it_knows(server: FakeServer) -> None:
    server.unknown = ("kind", "clock", "unfit")
    client = PilotClient(server.url, TOKEN)
    failed = wire.Report(job=1, attempt=1, state="failed", error="no space left", kind="disk")
    offer = wire.Offer(1, 100, 60, 1, found=wire.Node(cores=2, clock=1.7e9))

    async def calls() -> None:
        await client.enrol()
        await client.match(offer)
        await client.report(wire.Reports(reports=(failed,)))
        await client.end(wire.Reason("over", unfit=True))

    asyncio.run(calls())
    assert server.matches[0]["found"]["cores"] == 2
    assert server.last().error == "no space left"
    assert server.ended == ["over"]
    server.unknown = ("holding",)
    with pytest.raises(RefusedError):
        asyncio.run(client.report(wire.Reports(holding=((1, 1),))))


def test_each_call_says_which_answer_its_pilot_knows(server: FakeServer) -> None:
    client = PilotClient(server.url, TOKEN)
    for time in (0.0, 1.7e9 + 0.25, 1.6e9):
        server.time = time
        asyncio.run(call(client))
    asyncio.run(call(client))
    assert server.heard == ["0.0", "0.0", "0.0", "1700000000.25", "1700000000.25"]


def test_one_server_alone_is_asked_again(server: FakeServer, gone: str) -> None:
    client = PilotClient(gone, TOKEN, timeout=0.5)
    for _ in range(2):
        with pytest.raises(UnreachableError):
            asyncio.run(call(client))
