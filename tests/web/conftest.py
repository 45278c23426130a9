"""Pages on a real store, and people signed in: the house of tests/api, with the page beside its API."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

from pilotage.model.values.identity import Credential, Identity, Role
from pilotage.server.api import create_app
from pilotage.server.web import OneTimeCode, make_pages
from tests.api.conftest import _LOOPS, ALICE, House, _watched_steps, copied, loop, template

__all__ = ["TestClient", "_watched_steps", "loop", "template"]

OLGA = Identity(name="olga")
NOBODY = Identity(name="nobody")


class PageHouse:
    """A house whose API has the page beside it."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.store = house.store
        self.code = OneTimeCode(lambda: house.now)
        self.app = create_app(
            house.runtime, make_pages(house.runtime, ("http://pilotage.test:8470",), self.code)
        )

    def browser(self, address: str = "http://localhost:8470", client: str = "127.0.0.1") -> TestClient:
        """A browser that is not signed in."""
        made = TestClient(self.app, base_url=address, follow_redirects=False, client=(client, 50_000))
        made.portal = _LOOPS[0]
        return made

    def token(self, role: Role, identity: Identity, sites: Iterable[str] = ()) -> str:
        return self.store.tokens.create(Credential(role=role, identity=identity, sites=frozenset(sites)))

    def signed_in(self, role: Role, identity: Identity, sites: Iterable[str] = ()) -> TestClient:
        """A browser with a session."""
        browser = self.browser()
        answer = browser.post("/sign-in", data={"token": self.token(role, identity, sites), "next": "/tasks"})
        assert answer.status_code == 303, answer.text
        return browser


@pytest.fixture
def house(template: Path) -> Iterator[House]:
    yield from copied(template)


@pytest.fixture
def pages(house: House) -> PageHouse:
    return PageHouse(house)


@pytest.fixture
def alice(pages: PageHouse) -> TestClient:
    """Alice's browser."""
    return pages.signed_in("user", ALICE)


@pytest.fixture
def operator(pages: PageHouse) -> TestClient:
    """An operator's browser."""
    return pages.signed_in("operator", OLGA)


Submit = Callable[..., int]


@pytest.fixture
def submit(house: House) -> Submit:
    """Submits a task, Alice's unless another owner is named; returns its id."""

    def submitted(owner: Identity = ALICE, **fields: object) -> int:
        body = {"tasks": [{"name": "work", "command": ["true"], **fields}]}
        answer = house.as_("user", owner).post("/tasks", json=body)
        assert answer.status_code == 201, answer.text
        return int(answer.json()["tasks"][0]["id"])

    return submitted
