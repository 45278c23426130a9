"""Sign-in of browsers with an identity provider, and every answer that must open nothing."""

from base64 import urlsafe_b64decode
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from pilotage.model.values.identity import Identity
from pilotage.server.api import create_app
from pilotage.server.api.sign_in.issuer_files import Issuer
from pilotage.server.api.sign_in.issuer_keys import IssuerKeys
from pilotage.server.api.sign_in.signed_tokens import SignedTokens
from pilotage.server.web import make_pages
from pilotage.server.web.sessions import SESSION_LIFE
from tests.api.conftest import _LOOPS, House
from tests.identity_provider import IdentityProvider, rsa_key, serving

from .conftest import TestClient

KEY = rsa_key("r1")
URL = "http://localhost:8470"
ADA = Identity(name="ada", vo="atlas", group="higgs")


class SignIn:
    """Pages with a provider, and a browser."""

    def __init__(self, house: House, provider: IdentityProvider, **fields: Any) -> None:
        self.house, self.provider = house, provider
        provider.person = {
            "preferred_username": "ada",
            "groups": ["/atlas/higgs"],
            "iat": int(house.now),
            "exp": int(house.now) + 300,
        }
        rule = {"when": {"groups": "/{vo}/{group}"}, "person": "{preferred_username}"}
        usual = {"name": "iam", "issuer": provider.url, "audience": ["pilotage"], "rules": [rule]}
        issuers = [Issuer.model_validate({**usual, "page_client": "pilotage-page", **fields})]
        signed = SignedTokens(
            issuers, house.store, house.runtime.clock, lambda url: IssuerKeys(url, clock=lambda: house.now)
        )
        self.app = create_app(house.runtime, make_pages(house.runtime, (URL,), None, issuers), signed=signed)
        self.browser = self.new_browser()

    def new_browser(self) -> TestClient:
        browser = TestClient(self.app, base_url=URL, follow_redirects=False)
        browser.portal = _LOOPS[0]
        return browser

    def callback(self, after: str = "/tasks") -> str:
        """The path that the provider sends the browser back to."""
        begun = self.browser.get("/sign-in/with/iam", params={"next": after})
        assert begun.status_code == 303
        back = httpx.get(begun.headers["location"], trust_env=False)
        return back.headers["location"].removeprefix(URL)

    def refusal(self, path: str, browser: TestClient | None = None) -> tuple[int, str]:
        browser = browser or self.browser
        answer = browser.get(path)
        assert browser.get("/tasks").status_code == 303, "no session was opened"
        fault = answer.text.partition('role="alert">')[2].partition("</p>")[0]
        return answer.status_code, fault


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    with serving(IdentityProvider(keys=[KEY])) as served:
        yield served


@pytest.fixture
def sign_in(house: House, provider: IdentityProvider) -> SignIn:
    return SignIn(house, provider)


def test_a_person_signs_in_with_a_provider_and_goes_on_where_they_were(sign_in: SignIn) -> None:
    browser = sign_in.browser
    assert '/sign-in/with/iam?next=/tasks%3Fname%3Da"' in browser.get("/sign-in?next=/tasks?name=a").text
    answer = browser.get(sign_in.callback("/tasks?name=a"))
    assert answer.status_code == 200
    assert 'content="0;url=/tasks?name=a"' in answer.text
    assert "samesite=strict" in answer.headers["set-cookie"].lower()
    assert "<bdi>ada</bdi> · <bdi>atlas</bdi>" in browser.get("/tasks").text
    (session,) = sign_in.house.store.sessions.of(ADA)
    assert (session.opened_by, session.browser) == ("iam", "testclient")


def test_a_session_outlasts_the_token_and_ends_after_half_a_day(sign_in: SignIn) -> None:
    sign_in.browser.get(sign_in.callback())
    sign_in.house.now += 3600
    assert sign_in.browser.get("/tasks").status_code == 200
    sign_in.house.now += SESSION_LIFE
    assert sign_in.browser.get("/tasks").status_code == 303


def test_closing_a_person_ends_their_session(sign_in: SignIn) -> None:
    sign_in.browser.get(sign_in.callback())
    sign_in.house.store.tokens.close(ADA)
    sign_in.house.now += 60  # a found token is believed for some seconds
    assert sign_in.browser.get("/tasks").status_code == 303


def test_what_is_sent_to_the_provider_holds_no_secret(sign_in: SignIn) -> None:
    begun = sign_in.browser.get("/sign-in/with/iam")
    (attempt,) = (value for name, value in begun.cookies.items() if name.endswith("_sign_in"))
    verifier = urlsafe_b64decode(attempt).decode().partition('"verifier": "')[2].partition('"')[0]
    assert len(verifier) > 40
    query = parse_qs(urlsplit(begun.headers["location"]).query)
    assert query["code_challenge_method"] == ["S256"]
    assert query["redirect_uri"] == [f"{URL}/sign-in/callback"]
    assert verifier not in begun.headers["location"]


def test_an_answer_counts_once_and_in_its_own_browser_alone(sign_in: SignIn) -> None:
    callback = sign_in.callback()
    status, fault = sign_in.refusal(callback, sign_in.new_browser())
    assert (status, "began no sign-in" in fault) == (403, True)
    cookies = dict(sign_in.browser.cookies)
    assert sign_in.browser.get(callback).status_code == 200
    thief = sign_in.new_browser()
    thief.cookies.update({name: value for name, value in cookies.items() if name.endswith("_sign_in")})
    assert sign_in.refusal(callback, thief) == (403, "iam did not sign you in: a wrong code")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("state=", "state=x"), "began no sign-in"),
        (("iss=http", "iss=https"), "another provider than iam answered"),
        (("code=code", "code=other"), "did not sign you in"),
        (("code=", "error=access_denied&no="), "did not sign you in: access_denied"),
    ],
)
def test_a_changed_answer_opens_nothing(sign_in: SignIn, change: tuple[str, str], words: str) -> None:
    status, fault = sign_in.refusal(sign_in.callback().replace(*change))
    assert (status, words in fault) == (403, True), fault


@pytest.mark.parametrize("cookie", ["", "!", "bm8=", "W10=", "eyJhIjogMX0=", "x" * 5000])
def test_a_cookie_that_cannot_be_read_opens_nothing(sign_in: SignIn, cookie: str) -> None:
    callback, browser = sign_in.callback(), sign_in.new_browser()
    browser.cookies.set("pilotage_8470_sign_in", cookie)
    assert sign_in.refusal(callback, browser)[0] == 403


def test_no_rule_no_session(sign_in: SignIn) -> None:
    sign_in.provider.person["groups"] = []
    status, fault = sign_in.refusal(sign_in.callback())
    assert (status, "no rule of the server gives access" in fault) == (403, True)


def test_a_token_for_another_audience_opens_nothing(sign_in: SignIn) -> None:
    sign_in.provider.person["aud"] = "other"
    assert sign_in.refusal(sign_in.callback()) == (401, "the token is for another audience")


def test_a_token_with_few_rights_opens_no_page(house: House, provider: IdentityProvider) -> None:
    sign_in = SignIn(house, provider, rights={"read": "compute.read"})
    provider.person["scope"] = "compute.read"
    status, fault = sign_in.refusal(sign_in.callback())
    assert (status, "all four rights" in fault) == (403, True)


def test_a_provider_that_is_away_is_named_and_sessions_go_on(house: House) -> None:
    with serving(IdentityProvider(keys=[KEY])) as provider:
        sign_in = SignIn(house, provider)
        sign_in.browser.get(sign_in.callback())
        late = sign_in.new_browser()
        callback = sign_in.callback()
    assert late.get("/sign-in/with/iam").status_code == 303, "the discovery document serves on"
    answer = sign_in.browser.get(callback)
    assert (answer.status_code, "the provider is away" in answer.text) == (503, True)
    assert sign_in.browser.get("/tasks").status_code == 200
    other = SignIn(house, provider)
    assert other.browser.get("/sign-in/with/iam").status_code == 503


def test_other_names_and_other_addresses_lead_nowhere(sign_in: SignIn) -> None:
    assert sign_in.browser.get("/sign-in/with/other").status_code == 404
    for address in ("https://evil.example", "//evil.example", "/" + "a" * 3000):
        assert "evil" not in sign_in.browser.get(sign_in.callback(address)).text
        sign_in.browser.cookies.clear()


def test_an_issuer_without_a_client_for_pages_is_not_offered(
    house: House, provider: IdentityProvider
) -> None:
    sign_in = SignIn(house, provider, page_client="")
    assert "/sign-in/with" not in sign_in.browser.get("/sign-in").text
