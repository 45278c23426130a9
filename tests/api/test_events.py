"""Events over HTTP: who sees which, pages and streams, and readers that stop, are many, or come late."""

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from starlette.testclient import TestClient

from pilotage.client import AsyncClient, Client
from pilotage.flow import task_cancellation
from pilotage.model.values.identity import Credential, Identity, Role
from pilotage.server.api import PREFIX, create_app
from pilotage.server.api.edge.connections import LimitedProtocol
from pilotage.server.api.work import event_hub
from tests.waiting import PATIENCE, wait_for

from .conftest import ALICE, BOB, OTHER_ALICE, House, copied, submit_to

OLGA = Identity(name="olga")
Event = tuple[str, str, dict[str, Any]]


class Server:
    """The application on a loopback port, in a thread."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.app = create_app(house.runtime)
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port: int = self.listener.getsockname()[1]
        config = uvicorn.Config(self.app, http=LimitedProtocol, ws="none", log_config=None)
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, args=([self.listener],))
        self.thread.start()
        self.clients = contextlib.ExitStack()

    def close(self) -> None:
        """End it as a signal does."""
        self.app.state.events.close()
        self.server.should_exit = True
        self.thread.join(PATIENCE)

    def client(self, identity: Identity = ALICE, role: Role = "user") -> httpx.Client:
        """A client of a person."""
        token = self.house.store.tokens.create(Credential(role=role, identity=identity))
        url, headers = f"http://127.0.0.1:{self.port}{PREFIX}", {"Authorization": f"Bearer {token}"}
        made = httpx.Client(base_url=url, headers=headers, timeout=PATIENCE, trust_env=False)
        return self.clients.enter_context(made)


@contextlib.contextmanager
def stream(client: httpx.Client, last: str = "", **parameters: Any) -> Iterator[Iterator[Event]]:
    """An open stream: its events with id, name and data."""
    headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last} if last else {})
    with client.stream("GET", "/events", params=parameters, headers=headers) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        yield events_of(response.iter_lines())


def events_of(lines: Iterator[str]) -> Iterator[Event]:
    """Parse a stream."""
    fields: dict[str, str] = {}
    for line in lines:
        if not line and "data" in fields:
            yield fields.get("id", ""), fields["event"], json.loads(fields["data"])
        name, _, value = line.partition(": ")
        fields = fields | {name: value} if line else {}


@pytest.fixture(scope="module")
def server(template: Path) -> Iterator[Server]:
    for house in copied(template):
        running = Server(house)
        with running.clients:
            yield running
        running.close()


def new(house: House, identity: Identity = ALICE) -> int:
    """Submit a task."""
    return submit_to(house.as_("user", identity))


def end(house: House, task: int) -> None:
    """Cancel a task."""
    task_cancellation.cancel(house.runtime, task, "enough", "user:alice")


def test_a_page_tells_the_newest_event_and_what_came_after_one(house: House) -> None:
    alice = house.as_("user", ALICE)
    begin = alice.get("/events").json()
    assert begin["events"] == []
    task = new(house)
    end(house, task)
    told = alice.get("/events", params={"after": begin["next"]}).json()
    assert [(one["kind"], one["task"], one["source"], one["target"]) for one in told["events"]] == [
        ("task", task, None, "registered"),
        ("task", task, "registered", "cancelled"),
    ]
    assert told["next"] == told["newest"] == told["events"][-1]["id"]
    assert alice.get("/events", params={"after": told["next"]}).json()["events"] == []


def test_people_see_events_of_their_tasks_and_operators_all(house: House) -> None:
    mine, theirs = new(house), new(house, OTHER_ALICE)
    house.pilot()
    people: dict[str, tuple[Role, Identity]] = {
        "alice": ("user", ALICE),
        "bob": ("user", BOB),
        "other alice": ("user", OTHER_ALICE),
        "olga": ("operator", OLGA),
    }
    seen = {
        person: {(one["kind"], one["task"]) for one in _all(house.as_(*who))}
        for person, who in people.items()
    }
    for_all = ("federation", None)
    assert seen == {
        "alice": {("task", mine), for_all},
        "bob": {for_all},
        "other alice": {("task", theirs), for_all},
        "olga": {("task", mine), ("task", theirs), ("pilot", None), for_all},
    }
    refused = house.as_("user", ALICE).get("/events", params={"task": theirs})
    assert (refused.status_code, refused.json()["detail"]) == (
        404,
        f"there is no task {theirs}, or it is not yours",
    )


def _all(client: TestClient, **parameters: Any) -> list[dict[str, Any]]:
    answer = client.get("/events", params={"after": 0, **parameters})
    return list(answer.json()["events"])


def test_kinds_and_tasks_are_filters(house: House) -> None:
    first, second = new(house), new(house)
    house.split()
    olga = house.as_("operator", OLGA)
    assert {one["task"] for one in _all(olga, task=[second])} == {second}
    assert {one["task"] for one in _all(olga, task=[first, second], kind=["task"])} == {first, second}
    assert {one["kind"] for one in _all(olga, kind=["job"])} == {"job"}
    assert olga.get("/events", params={"kind": "queue"}).status_code == 422


def test_pages_follow_each_other_without_gap(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("pilotage.server.api.work.event_hub.PAGE", "pilotage.server.api.work.events.PAGE"):
        monkeypatch.setattr(module, 3)
    tasks = [new(house) for _ in range(10)]
    olga = house.as_("operator", OLGA)
    found, after, pages = [], 0, 0
    while (page := olga.get("/events", params={"after": after}).json())["events"]:
        found += [one["task"] for one in page["events"]]
        after, pages = page["next"], pages + 1
    assert (found, pages, page["next"]) == ([None, *tasks], 4, page["newest"])


def test_a_reader_that_comes_too_late_is_told_how_to_start_again(house: House) -> None:
    new(house)
    last = new(house)
    house.store.event_retention.forget(house.now + 1)
    alice = house.as_("user", ALICE)
    newest = alice.get("/events").json()["newest"]
    refused = alice.get("/events", params={"after": 0})
    assert refused.status_code == 410
    assert f"read the lists, then follow events with after={newest}" in refused.json()["detail"]
    assert [one["task"] for one in _all_after(alice, newest - 1)] == [last]
    beyond = alice.get("/events", params={"after": newest + 5})
    assert (beyond.status_code, "another store" in beyond.json()["detail"]) == (410, True)
    wrong = alice.get("/events", headers={"Last-Event-ID": "x"})
    assert (wrong.status_code, wrong.json()["detail"][0]["field"]) == (422, "Last-Event-ID")


def _all_after(client: TestClient, after: int) -> list[dict[str, Any]]:
    return list(client.get("/events", params={"after": after}).json()["events"])


def test_a_stream_has_what_came_before_it_and_what_comes_then(server: Server) -> None:
    house = server.house
    begin = server.client().get("/events").json()["next"]
    before = new(house)
    with stream(server.client(), after=begin) as told:
        assert next(told) == (str(begin), "start", {"next": begin})
        id_, name, event = next(told)
        assert (id_, name, event["task"], event["target"]) == (str(event["id"]), "task", before, "registered")
        end(house, before)
        id_, _, event = next(told)
        assert (event["task"], event["target"]) == (before, "cancelled")
    then = new(house)
    with stream(server.client(), last=id_, after=0) as told:
        assert [next(told)[0], next(told)[2]["task"]] == [id_, then]


def test_many_streams_see_the_same_events_in_the_same_order(server: Server) -> None:
    house = server.house
    begin = server.client().get("/events").json()["next"]
    with contextlib.ExitStack() as streams:
        opened = [streams.enter_context(stream(server.client(), after=begin)) for _ in range(8)]
        tasks = [new(house) for _ in range(20)]
        seen = [[next(told)[2].get("task") for _ in range(21)] for told in opened]
    assert seen == [[None, *tasks]] * 8


def test_a_stream_whose_reader_stops_is_ended_and_others_go_on(server: Server) -> None:
    house, hub = server.house, server.app.state.events
    with stream(server.client()) as good, stream(server.client(OLGA, "operator")) as stuck:
        next(good), next(stuck)
        wait_for(lambda: len(hub._streams) == 2, "both streams are live")
        (slow,) = (one for one in hub._streams if one.event_filter.owner is None)
        much = b": %s\n\n" % (b"x" * 400_000)

        def has_ended() -> bool:
            hub._loop.call_soon_threadsafe(slow.offer, much)
            return bool(slow.ending)

        # The system takes megabytes for a reader before the server has to keep any.
        wait_for(has_ended, "the server notices that nobody reads")
        assert slow._size == 0
        task = new(house)
        assert next(good)[2]["task"] == task
        assert next(stuck)[1:] == ("end", {"reason": event_hub.SLOW})
        assert next(stuck, None) is None


def test_streams_of_a_person_are_bounded(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_hub, "MOST_OF_PERSON", 2)
    hub, client = server.app.state.events, server.client(BOB)
    wait_for(lambda: not hub._open, "earlier streams have ended")
    with stream(server.client(BOB)), stream(client):
        refused = server.client(BOB).get("/events", headers={"Accept": "text/event-stream"})
        assert (refused.status_code, "close one" in refused.json()["detail"]) == (429, True)
        with stream(server.client(ALICE)) as told:
            next(told)
    wait_for(lambda: not hub._open, "their places are free again")


def test_a_quiet_stream_gives_signs_of_life_and_ends_with_its_token(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_hub, "HEARTBEAT", 0.05)
    store = server.house.store
    token = store.tokens.create(Credential(role="user", identity=Identity(name="carol")))
    client = server.client(BOB)
    client.headers["Authorization"] = f"Bearer {token}"
    with client.stream("GET", "/events", headers={"Accept": "text/event-stream"}) as response:
        lines = response.iter_lines()
        assert next(line for line in lines if line.startswith(":")) == ": heartbeat"
        assert next(lines).startswith("id: ")
        (mine,) = (one.id for one in store.tokens.people() if one.name == "carol")
        assert store.tokens.revoke(mine)
        server.house.now += 100
        assert "your token is no longer valid" in next(line for line in lines if line.startswith("data:"))


def test_a_stream_that_is_never_quiet_ends_with_its_token(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_hub, "HEARTBEAT", 0.0)
    stream = event_hub.Stream(event_hub.EventFilter(owner=None), 0)

    async def is_known() -> bool:
        return False

    async def read() -> list[bytes]:
        found = []
        stream.offer(b"1")
        async for chunk in event_hub.EventHub(house.runtime)._live(stream, is_known):
            found.append(chunk)
            if not stream.ending:
                stream.offer(b"more")
            assert len(found) < 5, "it goes on without a token"
        return found

    assert b"your token is no longer valid" in asyncio.run(read())[-1]


def test_the_end_of_the_server_ends_streams_at_once(house: House) -> None:
    server = Server(house)
    with server.clients, stream(server.client()) as told:
        next(told)
        server.close()
        assert not server.thread.is_alive()
        assert next(told)[1:] == ("end", {"reason": event_hub.STOPPING})


def test_the_client_follows_events_and_waits_for_tasks(server: Server) -> None:
    house, task = server.house, new(server.house)
    token = house.store.tokens.create(Credential(role="user", identity=ALICE))
    with Client(f"http://127.0.0.1:{server.port}", token) as client:
        begin = client.event_page().document["next"]
        assert list(client.events(begin, timeout=0.1)) == []
        looks: list[str] = []
        waiting = threading.Thread(target=lambda: looks.extend(one.state for one in client.wait([task])))
        waiting.start()
        wait_for(lambda: server.app.state.events._streams, "the client has opened a stream")
        end(house, task)
        waiting.join(PATIENCE)
        assert looks == ["cancelled"]
        told = next(client.events(begin, kinds=["task"], tasks=[task]))
        assert (told["task"], told["target"]) == (task, "cancelled")


def test_the_asynchronous_client_goes_on_after_a_stream_ends(server: Server) -> None:
    house = server.house
    token = house.store.tokens.create(Credential(role="user", identity=ALICE))

    async def follow(seen: list[int]) -> None:
        async with AsyncClient(f"http://127.0.0.1:{server.port}", token) as client:
            async for event in client.events(kinds=["task"]):
                seen.append(event["task"])
                if len(seen) == 2:
                    return

    seen: list[int] = []
    following = threading.Thread(target=lambda: asyncio.run(follow(seen)))
    following.start()
    hub = server.app.state.events
    (one,) = wait_for(lambda: set(hub._streams), "the client has opened a stream")
    first = new(house)
    wait_for(lambda: seen, "the first event has come")
    hub._loop.call_soon_threadsafe(one.end, event_hub.SLOW)
    second = new(house)
    following.join(PATIENCE)
    assert seen == [first, second]
