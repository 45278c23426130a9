"""Whatever happens inside, clients get a document that gives nothing away."""

import asyncio
import logging
from collections.abc import Iterator

import pytest
from starlette.types import Message, Receive, Scope, Send

from pilotage.model.values.identity import GENERIC, Credential
from pilotage.request_budget import RequestBudget
from pilotage.server.api.edge.access import KnownTokens
from pilotage.server.api.edge.guard import EACH_AT_ONCE, Guard
from pilotage.server.api.edge.measured_routes import MeasuredRoute
from pilotage.server.api.edge.sender_shares import (
    LARGEST_BODY,
    LONGEST_WAIT,
    MOST_WAITING,
    SECONDS_AHEAD,
    SECONDS_SHARE,
    ComputingShares,
    NoTurn,
    sender_of,
)
from tests.waiting import PATIENCE

from .conftest import ALICE, OTHER_ALICE, House


def test_an_unexpected_fault_is_logged_under_the_number_that_the_client_gets(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the secret of the house")

    client = house.as_("user", ALICE)
    monkeypatch.setattr(house.store, "declared_federation", fail)
    with caplog.at_level(logging.ERROR):
        answer = client.get("/federation")
    assert answer.status_code == 500
    detail = answer.json()["detail"]
    assert "secret" not in answer.text
    number = detail.split()[2].rstrip(";")
    (record,) = [record for record in caplog.records if record.name == "pilotage.server.api.edge.faults"]
    assert number in record.getMessage()
    assert "the secret of the house" in (record.exc_text or caplog.text)


def test_a_body_that_is_too_large_is_refused_though_it_does_not_say_so(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where the last part was the one too much, there is nothing to wait for.
    monkeypatch.setattr("pilotage.server.api.edge.watched_client.DISCARD_TIMEOUT", 3600)

    def parts() -> Iterator[bytes]:
        for _ in range(LARGEST_BODY // 2**20 + 1):
            yield b" " * 2**20

    client = house.as_("user", ALICE)
    for body in (parts(), b" " * (LARGEST_BODY + 1)):
        answer = client.post("/tasks", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 413
        assert answer.json()["detail"].startswith("the request is larger than 16777216 bytes")


def test_a_request_whose_client_gives_up_while_it_waits_is_not_served_and_counts_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """During an outage of the database, clients ask again and again, and each call may hold a place long."""
    monkeypatch.setattr("pilotage.server.api.edge.guard.ROOM_TIMEOUT", 3600)
    served: list[str] = []

    def no_tokens() -> KnownTokens:
        raise AssertionError("nobody sends a token")

    async def run() -> None:
        over = asyncio.Event()

        async def application(scope: Scope, _: Receive, send: Send) -> None:
            served.append(scope["path"])
            await over.wait()
            await send({"type": "http.response.start", "status": 204, "headers": []})

        guard = Guard(application, "/api/v1", no_tokens)

        async def call(name: str, gives_up: bool = False) -> list[Message]:
            incoming: list[Message] = [{"type": "http.request", "body": b""}]
            incoming += [{"type": "http.disconnect"}] if gives_up else []
            answer: list[Message] = []

            async def receive() -> Message:
                if not incoming:
                    await asyncio.Future()
                return incoming.pop(0)

            async def send(message: Message) -> None:
                answer.append(message)

            path = f"/api/v1/{name}"
            scope = {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b""}
            await guard(scope, receive, send)
            return answer

        held = [asyncio.create_task(call("held")) for _ in range(EACH_AT_ONCE)]
        while len(served) < EACH_AT_ONCE:
            await asyncio.sleep(0)
        await asyncio.gather(*(call("abandoned", gives_up=True) for _ in range(MOST_WAITING)))
        last = asyncio.create_task(call("last"))
        await asyncio.sleep(0)
        over.set()
        assert (await last)[0]["status"] == 204
        await asyncio.gather(*held)

    asyncio.run(asyncio.wait_for(run(), PATIENCE))
    assert served == ["/api/v1/held"] * EACH_AT_ONCE + ["/api/v1/last"]


def test_what_is_not_there_is_not_found(house: House) -> None:
    assert house.client().get("/nothing").status_code == 404
    assert house.client().delete("/tasks").status_code == 405


def test_who_has_computed_much_waits_and_nobody_else() -> None:
    """Pilots of all sites shared one pace of bytes, and a small body that costs seconds had none."""
    person = Credential(role="user", identity=ALICE)
    wild, other = (
        Credential(role="pilot", identity=GENERIC, pilot=number, queue=queue)
        for number, queue in ((1, "wild-queue"), (2, "other-queue"))
    )

    async def run() -> None:
        shares = ComputingShares()

        async def ask(caller: Credential, seconds: float) -> None:
            budget = RequestBudget()
            turn = shares.turn(sender_of(caller), budget)
            await turn.wait()
            budget.spent = seconds
            turn.settle()
            turn.settle()

        for caller in (person, wild):
            await ask(caller, SECONDS_AHEAD + SECONDS_SHARE * (LONGEST_WAIT + 30))
            with pytest.raises(NoTurn):
                await ask(caller, 0)
        await ask(other, SECONDS_AHEAD)
        await ask(Credential(role="user", identity=OTHER_ALICE), 0)

    asyncio.run(asyncio.wait_for(run(), LONGEST_WAIT / 2))


def test_every_route_but_those_of_health_counts_what_it_computes(house: House) -> None:
    from pilotage.server.api.app import ROUTERS

    routes = [route for room in ROUTERS for route in room.router.routes]
    assert [route for route in routes if not isinstance(route, MeasuredRoute)] == []


def test_a_body_that_takes_seconds_counts_for_its_sender(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent: list[float] = []
    monkeypatch.setattr(
        "pilotage.server.api.edge.sender_shares._Account.take",
        lambda _, seconds: spent.append(round(seconds, 2)),
    )
    monkeypatch.setattr("pilotage.server.api.edge.sender_shares._Account._debt", 0.0, raising=False)
    clock = iter(range(0, 1000, 3))
    monkeypatch.setattr("pilotage.request_budget.time.thread_time", lambda: next(clock))
    client = house.as_("user", ALICE)
    assert client.get("/tasks").status_code == 200
    assert sum(spent) == 3
