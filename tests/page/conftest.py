"""One server with real work behind it, and one browser, for all tests of a worker."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn
from playwright.sync_api import Browser, BrowserContext, Page, StorageState, expect, sync_playwright

from pilotage.flow.outside.kept_worlds import KeptWorlds
from pilotage.flow.step import take
from pilotage.flow.steps import step
from pilotage.model.values.identity import Credential, Identity, Role
from pilotage.server.api import create_app
from pilotage.server.api.sign_in.issuer_files import Issuer
from pilotage.server.api.sign_in.signed_tokens import SignedTokens
from pilotage.server.api.work.event_hub import EventHub
from pilotage.server.process import listen
from pilotage.server.web import make_pages
from tests.api.conftest import ALICE, BOB, House, _watched_steps, copied, loop, template
from tests.conftest import locked_port
from tests.identity_provider import IdentityProvider, rsa_key, serving
from tests.waiting import wait_for

from .views import Person
from .work import Work, prepare

__all__ = ["_watched_steps", "loop", "template"]

CHROMIUM = Path("/usr/bin/chromium")
PEOPLE: dict[Person, tuple[Role, Identity]] = {
    "alice": ("user", ALICE),
    "bob": ("user", BOB),
    "olga": ("operator", Identity(name="olga")),
}


class Served:
    """A server on loopback that can be stopped and started again, its store, and the work in it."""

    def __init__(self, house: House, port: int, browser: Browser, provider: IdentityProvider) -> None:
        self.house = house
        self.work: Work = prepare(house)
        self.url = f"http://127.0.0.1:{port}"
        self._port, self._browser = port, browser
        self._sessions: dict[Person, StorageState] = {}
        rule = {"when": {"groups": "/{vo}/{group}"}, "person": "{preferred_username}"}
        issuer = {"name": "iam", "issuer": provider.url, "audience": ["pilotage"], "rules": [rule]}
        issuers = [Issuer.model_validate({**issuer, "page_client": "pilotage-page"})]
        signed = SignedTokens(issuers, house.store, house.runtime.clock)
        pages = make_pages(house.runtime, (self.url,), None, issuers)
        self.app = create_app(house.runtime, pages, signed=signed)

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        self.app.state.events = EventHub(self.house.runtime)
        config = uvicorn.Config(self.app, log_level="warning", access_log=False, ws="none", lifespan="off")
        self._server = uvicorn.Server(config)
        listener = listen("127.0.0.1", self._port)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listener]}, daemon=True)
        self._thread.start()
        wait_for(lambda: self._server.started, "the server starts")

    def stop(self) -> None:
        """Stop the server: its port refuses connections from then on."""
        self.app.state.events.close()
        self._server.should_exit = True
        self._thread.join()

    def broker(self) -> None:
        """Let the brokerage decide about all jobs that are there."""
        self.house.split()
        take(step("broker"), self.house.runtime, self.house.runtime.begin(1000))

    def address(self, path: str) -> str:
        """Return the URL of a path with the numbers of the work in it."""
        names = {name: getattr(self.work, name) for name in Work.__slots__}
        return self.url + path.format_map(names)

    def token(self, person: Person) -> str:
        """Make a token of a person."""
        role, identity = PEOPLE[person]
        return self.house.store.tokens.create(Credential(role=role, identity=identity))

    def session(self, person: Person) -> StorageState:
        """Sign a person in, once: few sign-ins a minute are allowed."""
        if person not in self._sessions:
            context = self._browser.new_context(base_url=self.url)
            answer = context.request.post("/sign-in", form={"token": self.token(person), "next": "/tasks"})
            assert answer.ok, answer.text()
            self._sessions[person] = context.storage_state()
            context.close()
        return self._sessions[person]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A real browser: Debian's Chromium."""
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is missing; make test-page installs it")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="session")
def served(template: Path, browser: Browser) -> Iterator[Served]:
    """A server on loopback with work of Alice and Bob."""
    with (
        contextmanager(copied)(template) as house,
        locked_port() as port,
        serving(IdentityProvider(keys=[rsa_key("r1")])) as provider,
    ):
        house.runtime.kept_worlds = KeptWorlds(template.parent / "worlds", days=2)
        made = Served(house, port, browser, provider)
        provider.person = {
            "preferred_username": "ada",
            "groups": ["/atlas/higgs"],
            "iat": int(house.now),
            "exp": int(house.now) + 600,
        }
        made.start()
        yield made
        made.stop()


PATIENCE = 60_000.0
"""Milliseconds after which a test takes what has not happened for what never will."""

expect.set_options(timeout=PATIENCE)

Visit = Callable[..., Page]


@pytest.fixture
def visit(served: Served, browser: Browser) -> Iterator[Visit]:
    """Opens a signed-in person's page in a context of its own; options are the context's.

    No page may break a script, or try what its content policy forbids.
    """
    contexts: list[BrowserContext] = []
    faults: list[str] = []

    def visited(person: Person | None, path: str, status: int = 200, **options: object) -> Page:
        session = served.session(person) if person else None
        context = browser.new_context(base_url=served.url, storage_state=session, **options)  # type: ignore[arg-type]
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda told: faults.append(told.text) if "Content Security" in told.text else None)
        answer = page.goto(served.address(path))
        assert answer
        assert answer.status == status, page.inner_text("body")
        return page

    yield visited
    for context in contexts:
        context.close()
    assert faults == []
