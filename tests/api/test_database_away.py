"""While PostgreSQL is away, every route says so at once; when it is back, all goes on by itself."""

import re
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from sqlalchemy import make_url
from starlette.routing import Route

from pilotage.flow.loops.loops import Loops
from pilotage.flow.steps import step
from pilotage.model.values.identity import Identity
from pilotage.server.api import create_app
from pilotage.server.web import actions, federation_actions, live, make_pages, place_actions
from pilotage.server.web.sessions import form_token
from pilotage.server.web.views import ROUTES
from pilotage.store import Store
from pilotage.store.database.engine import RETRY_FOR
from tests import postgresql
from tests.waiting import wait_for

from .conftest import ALICE, House, federation, submit_to
from .test_access import BOUND, CLOSED, call, roles_of

PAGES = chain(ROUTES, actions.ROUTES, place_actions.ROUTES, federation_actions.ROUTES, live.ROUTES)
NUMBERS = {"task": "1", "job": "1", "pilot": "1", "transfer": "1", "workflow": "1"}

Call = Callable[[], Any]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[postgresql.PostgresServer]:
    server = postgresql.start(tmp_path / "postgresql")
    yield server
    server.cleanup()


@pytest.fixture
def house(database: postgresql.PostgresServer, tmp_path: Path) -> Iterator[House]:
    (tmp_path / "north").mkdir()
    url = make_url(database.get_uri()).set(drivername="postgresql+psycopg")
    with closing(Store.open(url.render_as_string(hide_password=False))) as store:
        store.save_federation(federation(tmp_path), "test")
        house = House(store, time.time())
        house.app = create_app(house.runtime, make_pages(house.runtime))
        yield house


def calls(house: House) -> dict[str, Call]:
    """A call of each route of the API, by a caller who may make it, and of each page, by an operator."""
    made: dict[str, Call] = {}
    pilot, _ = house.pilot()
    for route in CLOSED:
        role = sorted(roles_of(route))[0]
        client = house.as_(role, ALICE, pilot if role in BOUND else None)
        made[" ".join(route)] = partial(call, client, route)
    browser = house.client()
    browser.base_url, browser.follow_redirects = httpx.URL("http://localhost:8470"), False
    token = house.as_("operator", Identity(name="olga")).headers["Authorization"].removeprefix("Bearer ")
    assert browser.post("/sign-in", data={"token": token}).status_code == 303
    (session,) = browser.cookies.values()
    for page in PAGES:
        assert isinstance(page, Route)
        path = re.sub(r"{(\w+)(:\w+)?}", lambda found: NUMBERS.get(found[1], "north"), page.path)
        for method in (page.methods or set()) - {"HEAD"}:
            data = {"form_token": form_token(session)} if method == "POST" else None
            made[f"page {method} {page.path}"] = partial(browser.request, method, path, data=data)
    made["page POST /sign-in"] = partial(browser.post, "/sign-in", data={"token": "wrong"})
    made["metrics"] = partial(browser.get, "/metrics", headers={"Authorization": f"Bearer {token}"})
    return made


def freeze(server: postgresql.PostgresServer) -> Callable[[], None]:
    postmaster = psutil.Process(server.get_pid())
    processes = [postmaster, *postmaster.children()]
    for process in processes:
        process.send_signal(signal.SIGSTOP)

    def thaw() -> None:
        for process in processes:
            process.send_signal(signal.SIGCONT)

    return thaw


def stop(server: postgresql.PostgresServer) -> Callable[[], None]:
    postgresql.kill(server)
    return partial(server.ensure_postgres_running)


@pytest.mark.slow
@pytest.mark.postgresql
@pytest.mark.parametrize("take_away", [freeze, stop])
def test_every_route_says_that_the_database_is_away_and_goes_on_when_it_is_back(
    house: House,
    database: postgresql.PostgresServer,
    take_away: Callable[[postgresql.PostgresServer], Callable[[], None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loops = Loops(house.runtime, [step("split")])
    loops.start()
    alice = house.as_("user", ALICE)
    wanted = calls(house)
    bring_back = take_away(database)
    begun = time.monotonic()
    try:
        with ThreadPoolExecutor(len(wanted)) as threads:
            sent = {name: threads.submit(ask) for name, ask in wanted.items()}
        for name, answer in sent.items():
            _assert_says_why(name, answer.result())
        # Whoever is admitted all the same meets the store's own error.
        with monkeypatch.context() as patched:
            patched.setattr(Store, "away", lambda _: "")
            house.now += 3600  # no token is remembered
            for name, ask in wanted.items():
                _assert_says_why(name, ask())
        # Every call takes less than what a loop waits for one transaction.
        assert time.monotonic() - begun < RETRY_FOR
    finally:
        bring_back()
    wait_for(lambda: alice.get("/tasks").status_code == 200, "an answer again")
    task = submit_to(alice)
    wait_for(lambda: house.store.queries.jobs(task, None, 10, 0), "a pass of a loop")
    loops.stop()


def _assert_says_why(name: str, answer: Any) -> None:
    assert answer.status_code == 503, (name, answer.text)
    assert answer.headers["Retry-After"] == "5", name
    assert "the store cannot be used now" in answer.text, name
