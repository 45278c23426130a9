"""Tokens of identity providers: who their bearers are, and every token that must not open anything."""

import json
import logging
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from fastapi import Request
from fastapi.routing import APIRoute
from starlette.testclient import TestClient

from pilotage import identity_providers
from pilotage.federation.faults import BadFile
from pilotage.identity_providers import ProviderAway
from pilotage.model.values.durations import KNOWN_FOR
from pilotage.model.values.identity import RIGHTS, Identity
from pilotage.server.api import PREFIX, create_app
from pilotage.server.api.app import ROUTERS
from pilotage.server.api.edge.access import KnownTokens
from pilotage.server.api.edge.rights import needed_rights
from pilotage.server.api.sign_in import issuer_keys
from pilotage.server.api.sign_in.issuer_files import Issuer, read_issuers
from pilotage.server.api.sign_in.issuer_keys import IssuerKeys, fetch_keys
from pilotage.server.api.sign_in.loader import issuers_of, refuse_unknown_sites
from pilotage.server.api.sign_in.signed_tokens import SignedTokens
from pilotage.server.web.sessions import token_of_session
from tests.identity_provider import (
    IdentityProvider,
    SigningKey,
    ec_key,
    encoded,
    rsa_key,
    serving,
    signed_by_public_key,
)
from tests.waiting import wait_for

from .conftest import ALICE, House, submit_to

RSA, OTHER_RSA, WEAK, EC = rsa_key("r1"), rsa_key("r2"), rsa_key("weak", 1024), ec_key("e1")
GROUPS = {"groups": ["/atlas/higgs"]}
RULE = {"when": {"groups": "/{vo}/{group}"}, "person": "{preferred_username}"}


class Door:
    """A house with a provider, whose seconds pass with the house's."""

    def __init__(self, house: House, provider: IdentityProvider, *others: IdentityProvider, **fields: Any):
        self.house, self.provider = house, provider
        self.issuers = [
            Issuer.model_validate(
                {
                    "name": f"idp{at or ''}",
                    "issuer": served.url,
                    "audience": ["pilotage"],
                    "rules": [RULE],
                    **fields,
                }
            )
            for at, served in enumerate((provider, *others))
        ]
        self.signed = SignedTokens(
            self.issuers,
            house.store,
            house.runtime.clock,
            lambda url: IssuerKeys(url, clock=lambda: house.now),
        )
        house.app.state.tokens = KnownTokens(house.store, house.runtime.clock, self.signed)

    def token(self, **claims: Any) -> str:
        return self.provider.token(self.house.now, **{"preferred_username": "ada", **GROUPS, **claims})

    def client(self, **claims: Any) -> TestClient:
        return self.house.client(self.token(**claims))

    def refusal(self, token: str) -> tuple[int, str]:
        answer = self.house.client(token).get("/tasks")
        assert token not in answer.text
        return answer.status_code, answer.json()["detail"]


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    with serving(IdentityProvider(keys=[RSA, EC])) as served:
        yield served


@pytest.fixture
def door(house: House, provider: IdentityProvider) -> Door:
    return Door(house, provider)


def owner(door: Door, client: TestClient) -> tuple[str, str, str]:
    """Who owns what a client submits."""
    query = 'SELECT owner, vo, "group" FROM tasks WHERE id = %(task)s'
    (row,) = door.house.store.database.look(query, {"task": submit_to(client)})
    return row[0], row[1], row[2]


@pytest.mark.parametrize("key", [RSA, EC], ids=["RS256", "ES256"])
def test_claims_become_a_person_by_the_rules(door: Door, key: SigningKey) -> None:
    assert owner(door, door.client(key=key)) == ("ada", "atlas", "higgs")
    answer = door.client(key=key).get("/tokens")
    assert (answer.status_code, "needs the role operator" in answer.text) == (403, True)


def test_a_caller_sees_who_they_are(house: House, provider: IdentityProvider) -> None:
    door = Door(house, provider, rights={"read": "compute.read"}, client="pilotage-command")
    end = int(house.now) + 600
    assert door.client(scope="compute.read", exp=end).get("/whoami").json() == {
        "name": "ada",
        "vo": "atlas",
        "group": "higgs",
        "vo_role": "",
        "role": "user",
        "sites": [],
        "rights": ["read"],
        "expires": end + 30.0,
    }
    house.app.state.offers = door.signed.offers
    (offer,) = house.client().get("/sign-in").json()["issuers"]
    assert offer["issuer"] == provider.url
    assert offer["client"] == "pilotage-command"


def test_the_keys_are_fetched_once_for_many_requests(door: Door, provider: IdentityProvider) -> None:
    client = door.client()
    for seconds in (0, KNOWN_FOR + 1, KNOWN_FOR + 1):
        door.house.now += seconds
        assert client.get("/tasks").status_code == 200
    assert len(provider.asked) == 2


def changed(token: str) -> str:
    """The token with other claims and the old signature."""
    head, body, signature = token.split(".")
    claims = json.loads(urlsafe_b64decode(body + "=="))
    return f"{head}.{encoded(json.dumps({**claims, 'preferred_username': 'olga'}).encode())}.{signature}"


def unsigned(token: str) -> str:
    head = encoded(json.dumps({"alg": "none", "typ": "JWT"}).encode())
    return f"{head}.{token.split('.')[1]}."


def by_public_key(token: str) -> str:
    body = token.split(".")[1]
    payload = urlsafe_b64decode(body + "==")
    return signed_by_public_key(RSA, {"alg": "HS256", "typ": "JWT", "kid": "r1"}, payload)


TAMPERED: dict[str, tuple[Callable[[str], str], str]] = {
    "other claims": (changed, "signature is wrong"),
    "alg none": (unsigned, "three parts"),
    "alg none with a signature": (lambda token: unsigned(token) + "AA", "signatures are RS256 or ES256"),
    "HS256 with the public key": (by_public_key, "signatures are RS256 or ES256"),
    "no signature": (lambda token: token.rpartition(".")[0] + ".", "three parts"),
    "four parts": (lambda token: token + ".AA", "three parts"),
    "another's signature": (lambda token: token[:-8] + "AAAAAAAA", "signature is wrong"),
    "no base64": (lambda token: "*" + token[1:], "cannot be read"),
    "only dots": (lambda _: "..", "three parts"),
}


@pytest.mark.parametrize("case", TAMPERED)
def test_a_token_that_was_changed_is_refused(door: Door, case: str) -> None:
    change, reason = TAMPERED[case]
    assert door.client().get("/tasks").status_code == 200
    status, detail = door.refusal(change(door.token()))
    assert (status, reason in detail) == (401, True), detail


CLAIMS: dict[str, tuple[dict[str, Any], int, str]] = {
    "wrong audience": ({"aud": "another"}, 401, "another audience"),
    "no audience": ({"aud": None}, 401, "has no aud"),
    "empty audience": ({"aud": []}, 401, "aud"),
    "audience of numbers": ({"aud": [1, "pilotage"]}, 401, "aud"),
    "wrong issuer": ({"iss": "https://idp.example.org"}, 401, "no token of this token's issuer"),
    "issuer with a slash": ({"iss": "%s/"}, 401, "no token of this token's issuer"),
    "no issuer": ({"iss": None}, 401, "no token of this token's issuer"),
    "no end": ({"exp": None}, 401, "has no exp"),
    "an end in words": ({"exp": "tomorrow"}, 401, "wrong exp"),
    "true as the end": ({"exp": True}, 401, "wrong exp"),
    "no subject": ({"sub": None}, 401, "has no sub"),
    "an empty subject": ({"sub": ""}, 401, "wrong sub"),
    "a number as subject": ({"sub": 7}, 401, "wrong sub"),
    "a subject with NUL": ({"sub": "a\0b"}, 401, "wrong sub"),
    "a long subject": ({"sub": "x" * 256}, 401, "wrong sub"),
    "no group": ({"groups": None}, 403, "no rule"),
    "a group of another shape": ({"groups": {"/atlas/higgs": True}}, 403, "no rule"),
    "groups as numbers": ({"groups": [1, 2]}, 403, "no rule"),
    "a group below the group": ({"groups": ["/atlas/higgs/x"]}, 403, "no rule"),
    "too many groups": ({"groups": [f"g{n}" for n in range(1001)]}, 403, "more than 1000"),
    "no name": ({"preferred_username": None}, 403, "claim preferred_username"),
    "a list as name": ({"preferred_username": ["ada"]}, 403, "claim preferred_username"),
    "a name with a colon": ({"preferred_username": "atlas:ada"}, 403, "has ~, =, :"),
    "a name with a blank": ({"preferred_username": "ada "}, 403, "blank"),
    "a name in other letters": ({"preferred_username": "аda"}, 403, "other characters"),
    "an invisible name": ({"preferred_username": "ada\u200b"}, 403, "invisible"),
    "a long name": ({"preferred_username": "a" * 201}, 403, "more than 200"),
    "a VO with a tilde": ({"groups": ["/at~las/higgs"]}, 403, "has ~"),
    "a group with an invisible character": ({"groups": ["/atlas/hi\u202eggs"]}, 403, "invisible"),
}


@pytest.mark.parametrize("case", CLAIMS)
def test_claims_that_give_no_access(door: Door, case: str) -> None:
    claims, status, reason = CLAIMS[case]
    claims = {name: value % door.provider.url if value == "%s/" else value for name, value in claims.items()}
    assert door.client().get("/tasks").status_code == 200
    refused = door.refusal(door.token(**claims))
    assert (refused[0], reason in refused[1]) == (status, True), refused


HEADERS: dict[str, tuple[dict[str, Any], str]] = {
    "a key's id that is a URL": ({"kid": "http://127.0.0.1:1/keys"}, "no key like that"),
    "a key's id that is a path": ({"kid": "../../etc/passwd"}, "no key like that"),
    "a number as the key's id": ({"kid": 1}, "no text as its id"),
    "another kind of token": ({"typ": "logout+jwt"}, "another kind"),
    "a critical extension": ({"crit": ["b64"], "b64": False}, "another kind"),
    "the other algorithm for the key": ({"alg": "ES256"}, "no key like that"),
    "RS512": ({"alg": "RS512"}, "signatures are"),
    "a list as the algorithm": ({"alg": ["RS256"]}, "signatures are"),
}


@pytest.mark.parametrize("case", HEADERS)
def test_headers_that_give_no_access(door: Door, provider: IdentityProvider, case: str) -> None:
    header, reason = HEADERS[case]
    assert door.client().get("/tasks").status_code == 200
    status, detail = door.refusal(door.token(header=header))
    assert (status, reason in detail) == (401, True), detail
    assert set(provider.asked) == {"/realm/.well-known/openid-configuration", "/realm/keys"}


def test_a_key_in_the_token_itself_is_not_used(door: Door) -> None:
    header = {"jwk": OTHER_RSA.public(), "jku": f"{door.provider.url}/mine", "kid": "r1"}
    assert door.refusal(door.token(key=OTHER_RSA, header=header)) == (401, "the token's signature is wrong")


def test_the_first_of_two_groups_claims_does_not_count_and_neither_does_the_second(door: Door) -> None:
    whole = json.dumps(door.provider.claims(door.house.now, preferred_username="ada", **GROUPS))
    for first in ('{"groups": ["/atlas/higgs"], ', '{"groups": [], '):
        payload = (first + whole[1:]).encode()
        assert door.refusal(door.token(payload=payload)) == (
            401,
            "the token cannot be read, or says something twice",
        )


def test_a_deep_token_is_refused(door: Door) -> None:
    status, _ = door.refusal(door.token(payload=b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}"))
    assert status == 401


def test_a_token_of_100_kilobytes_is_refused_unread(door: Door) -> None:
    token = door.token(padding="x" * 75_000)
    assert len(token) > 100_000
    answer = door.house.client(token).get("/tasks")
    assert (answer.status_code, door.provider.asked) == (401, [])


@pytest.mark.parametrize(
    ("claim", "beyond", "status"),
    [
        ("exp", 29, 200),
        ("exp", 31, 401),
        ("nbf", 29, 200),
        ("nbf", 31, 401),
        ("iat", 29, 200),
        ("iat", 31, 401),
    ],
)
def test_a_clock_may_be_off_by_the_leeway(door: Door, claim: str, beyond: int, status: int) -> None:
    when = door.house.now - beyond if claim == "exp" else door.house.now + beyond
    assert door.client(**{claim: int(when)}).get("/tasks").status_code == status


def test_an_accepted_token_is_refused_once_it_has_expired(door: Door) -> None:
    client = door.client(exp=int(door.house.now) - 28)
    assert client.get("/tasks").status_code == 200
    door.house.now += 2.5  # it was accepted less than five seconds ago
    answer = client.get("/tasks")
    assert (answer.status_code, "has expired" in answer.text) == (401, True)
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]


def test_a_rotated_key_is_fetched_and_the_old_one_refused(door: Door, provider: IdentityProvider) -> None:
    old = door.client()
    assert old.get("/tasks").status_code == 200
    provider.keys = [OTHER_RSA]
    fresh = door.client(key=OTHER_RSA)
    assert fresh.get("/tasks").status_code == 401  # the keys were fetched a moment ago
    door.house.now += issuer_keys.REFETCHED_AFTER
    assert fresh.get("/tasks").status_code == 200
    assert old.get("/tasks").status_code == 401


def test_invented_keys_make_one_fetch_in_ten_seconds(door: Door, provider: IdentityProvider) -> None:
    for number in range(20):
        assert door.refusal(door.token(header={"kid": f"k{number}"}))[0] == 401
    assert provider.asked.count("/realm/keys") == 1


def test_a_withdrawn_key_ends_within_an_hour(door: Door, provider: IdentityProvider) -> None:
    client = door.client(exp=int(door.house.now) + 90_000)
    assert client.get("/tasks").status_code == 200
    provider.keys = [EC]
    door.house.now += issuer_keys.RENEWED_AFTER + 1
    client.get("/tasks")  # begins to fetch, and does not wait for it
    wait_for(lambda: provider.asked.count("/realm/keys") == 2, "the keys are fetched again")

    def is_refused() -> bool:
        door.house.now += KNOWN_FOR + 1
        return bool(client.get("/tasks").status_code == 401)

    wait_for(is_refused, "the withdrawn key is refused")
    assert door.client(key=EC).get("/tasks").status_code == 200


def test_while_the_provider_is_away_its_people_go_on_and_new_ones_are_told(house: House) -> None:
    with ExitStack() as stack:
        provider = stack.enter_context(serving(IdentityProvider(keys=[RSA])))
        door = Door(house, provider)
        client = door.client()
        assert client.get("/tasks").status_code == 200
    house.now += KNOWN_FOR + issuer_keys.REFETCHED_AFTER
    assert client.get("/tasks").status_code == 200
    answer = door.client(key=OTHER_RSA).get("/tasks")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "10")
    assert "idp gives no keys" in answer.json()["detail"]
    assert house.as_("user", ALICE).get("/tasks").status_code == 200
    with serving(provider):
        provider.keys = [OTHER_RSA]
        house.now += issuer_keys.REFETCHED_AFTER
        assert door.client(key=OTHER_RSA).get("/tasks").status_code == 200


def test_a_provider_that_was_never_there_is_named(house: House) -> None:
    with serving(IdentityProvider(keys=[RSA])) as provider:
        door = Door(house, provider)
    status, detail = door.refusal(door.token())
    assert (status, "cannot be checked, because idp gives no keys" in detail) == (503, True)


DOCUMENT = "/realm/.well-known/openid-configuration"
BAD_ANSWERS: dict[str, tuple[str, tuple[int, dict[str, str], bytes], str]] = {
    "a redirect": (DOCUMENT, (302, {"Location": "http://169.254.169.254/"}, b""), "answered 302"),
    "a redirect of keys": ("/realm/keys", (307, {"Location": "http://127.0.0.1:1/"}, b""), "answered 307"),
    "no JSON": (DOCUMENT, (200, {}, b"<html>"), "is no JSON"),
    "a list": (DOCUMENT, (200, {}, b"[]"), "is no JSON object"),
    "another issuer": (DOCUMENT, (200, {}, b'{"issuer": "https://else"}'), "names another issuer"),
    "keys that are no list": ("/realm/keys", (200, {}, b'{"keys": {}}'), "are no list"),
    "too many keys": ("/realm/keys", (200, {}, json.dumps({"keys": [{}] * 201}).encode()), "are no list"),
    "a gigabyte": ("/realm/keys", (200, {}, b"x" * 10_000_000), "has more than 524288 bytes"),
}


@pytest.mark.parametrize("case", BAD_ANSWERS)
def test_answers_of_a_provider_that_are_not_used(provider: IdentityProvider, case: str) -> None:
    path, answer, reason = BAD_ANSWERS[case]
    provider.answers[path] = answer
    with pytest.raises(ProviderAway, match=reason):
        fetch_keys(provider.url)


@pytest.mark.parametrize("url", ["http://keys.example.org/", "file:///etc/passwd", 7, None])
def test_keys_come_from_https_alone(provider: IdentityProvider, url: object) -> None:
    body = json.dumps({"issuer": provider.url, "jwks_uri": url}).encode()
    provider.answers[DOCUMENT] = (200, {}, body)
    with pytest.raises(ProviderAway, match="jwks_uri"):
        fetch_keys(provider.url)


def test_a_provider_that_drips_is_given_up(
    provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity_providers, "MOST_SECONDS", 0.2)
    provider.dripping = 0.05
    provider.answers["/realm/keys"] = (200, {}, b" " * 500_000)
    with pytest.raises(ProviderAway, match="took too long"):
        fetch_keys(provider.url)


@pytest.mark.parametrize(
    "key",
    [
        {**RSA.public(), "use": "enc"},
        {**RSA.public(), "alg": "RS512"},
        {**RSA.public(), "n": 5},
        {"kty": "oct", "kid": "r1", "k": "c2VjcmV0"},
    ],
    ids=["for encryption", "for RS512", "broken", "symmetric"],
)
def test_keys_that_verify_nothing(door: Door, provider: IdentityProvider, key: dict[str, Any]) -> None:
    provider.answers["/realm/keys"] = (200, {}, json.dumps({"keys": [key]}).encode())
    assert door.refusal(door.token())[0] == 401


def test_a_weak_key_verifies_nothing(door: Door, provider: IdentityProvider) -> None:
    provider.keys = [WEAK]
    assert door.refusal(door.token(key=WEAK)) == (401, "the token's signature is wrong")


def test_without_a_key_id_all_keys_of_the_kind_are_tried(door: Door, provider: IdentityProvider) -> None:
    provider.keys = [OTHER_RSA, RSA]
    head = {"alg": "RS256", "typ": "JWT"}
    body = json.dumps(provider.claims(door.house.now, preferred_username="ada", **GROUPS)).encode()
    text = f"{encoded(json.dumps(head).encode())}.{encoded(body)}"
    assert door.house.client(f"{text}.{encoded(RSA.sign(text.encode()))}").get("/tasks").status_code == 200


def test_a_server_without_issuers_knows_no_signed_token(house: House) -> None:
    answer = house.client(IdentityProvider(keys=[RSA]).token(house.now)).get("/tasks")
    assert (answer.status_code, "a valid bearer token is needed" in answer.text) == (401, True)


def test_a_token_of_metrics_may_have_dots(door: Door) -> None:
    signed = SignedTokens(door.issuers, door.house.store, door.house.runtime.clock)
    with TestClient(create_app(door.house.runtime, metrics_token="a.b.c", signed=signed)) as client:
        answers = [
            client.get("/metrics", headers={"Authorization": f"Bearer {text}"}) for text in ("a.b.c", "a.b.d")
        ]
    assert [answer.status_code for answer in answers] == [200, 401]


def test_two_issuers_with_one_subject_are_two_people(house: House, provider: IdentityProvider) -> None:
    with serving(IdentityProvider(keys=[RSA])) as other:
        door = Door(house, provider, other, rules=[{"when": {"groups": "/{vo}/{group}"}}])
        assert owner(door, door.client(sub="4711")) == ("4711@idp", "atlas", "higgs")
        second = house.client(other.token(house.now, sub="4711", groups=["/atlas/higgs"]))
        assert owner(door, second) == ("4711@idp1", "atlas", "higgs")
        assert len(second.get("/tasks").json()["tasks"]) == 1


def test_a_name_belongs_to_the_first_subject_that_has_it(house: House, provider: IdentityProvider) -> None:
    with serving(IdentityProvider(keys=[RSA])) as other:
        door = Door(house, provider, other)
        assert door.client(sub="1").get("/tasks").status_code == 200
        status, detail = door.refusal(door.token(sub="2"))
        assert (status, "the name ada of VO atlas belongs to somebody else" in detail) == (403, True)
        same = other.token(house.now, sub="1", preferred_username="ada", groups=["/atlas/higgs"])
        assert door.refusal(same)[0] == 403
        elsewhere = door.token(sub="2", groups=["/belle/higgs"])
        assert house.client(elsewhere).get("/tasks").status_code == 200


def test_a_name_with_own_tokens_or_work_goes_to_nobody(house: House, provider: IdentityProvider) -> None:
    door = Door(house, provider)
    assert house.as_("user", ALICE).get("/tasks").status_code == 200
    status, _ = door.refusal(door.token(preferred_username="alice"))
    assert status == 403
    submit_to(house.as_("user", Identity(name="ben", vo="atlas")))
    for token in house.store.tokens.people():
        house.store.tokens.revoke(token.id)
    assert door.refusal(door.token(preferred_username="ben"))[0] == 403
    assert door.client(preferred_username="carla").get("/tasks").status_code == 200


def test_a_rule_may_let_a_person_with_own_tokens_sign_in(house: House, provider: IdentityProvider) -> None:
    submit_to(house.as_("user", ALICE))
    door = Door(house, provider, rules=[{**RULE, "joins_local": True}])
    client = door.client(preferred_username="alice")
    assert len(client.get("/tasks").json()["tasks"]) == 1
    # The name is theirs from then on.
    assert door.refusal(door.token(preferred_username="alice", sub="8"))[0] == 403


@pytest.mark.parametrize("name", ["operator", "generic"])
def test_names_of_the_server_itself_are_refused(house: House, provider: IdentityProvider, name: str) -> None:
    door = Door(house, provider, rules=[{"when": {"groups": "/{group}"}, "person": "{preferred_username}"}])
    refused = door.refusal(door.token(groups=["/higgs"], preferred_username=name))
    assert refused == (403, f"{name} without a VO is a name of the server itself")


def test_a_closed_person_cannot_sign_in(door: Door, operator: TestClient) -> None:
    client = door.client()
    submit_to(client)
    closing = {"name": "ada", "vo": "atlas", "because": "left"}
    assert operator.post("/people/close", json=closing).status_code == 200
    door.house.now += KNOWN_FOR + 1
    answer = client.get("/tasks")
    assert (answer.status_code, "was closed" in answer.text) == (403, True)
    door.house.as_("user", Identity(name="ada", vo="atlas"))  # a new token lets them work again
    assert client.get("/tasks").status_code == 200


def test_only_a_rule_that_names_the_role_makes_an_operator(house: House, provider: IdentityProvider) -> None:
    admins = {"when": {"groups": "/admins", "email": "olga@cern.ch"}, "vo": "atlas", "role": "operator"}
    door = Door(house, provider, rules=[{**admins, "person": "{email}"}, RULE])
    olga = {"email": "olga@cern.ch", "email_verified": True, "groups": ["/admins"], "role": "operator"}
    assert door.client(**olga).get("/tokens").status_code == 200
    for claims in ({"email_verified": False}, {"email_verified": None}, {"groups": ["/atlas/admins"]}):
        assert door.client(sub="9", **{**olga, **claims}).get("/tokens").status_code == 403


def test_a_rule_makes_managers_site_admins_and_monitors(house: House, provider: IdentityProvider) -> None:
    rules = [
        {"when": {"groups": "/atlas/heads"}, "vo": "atlas", "role": "manager"},
        {"when": {"groups": "/north"}, "role": "site-admin", "sites": ["north"]},
        {"when": {"groups": "/shift"}, "role": "monitor"},
    ]
    door = Door(house, provider, rules=rules)
    whoami = {
        group: door.client(sub=group[1:2], groups=[group]).get("/whoami").json()
        for group in ("/atlas/heads", "/north", "/shift")
    }
    found = [
        (caller["role"], caller["vo"], caller["sites"], len(caller["rights"])) for caller in whoami.values()
    ]
    assert found == [("manager", "atlas", [], 4), ("site-admin", "", ["north"], 4), ("monitor", "", [], 1)]


def test_a_rule_with_an_unknown_site_stops_the_start(house: House, tmp_path: Path) -> None:
    path = tmp_path / "issuers.yaml"
    path.write_text(FILE.replace("vo: atlas", "role: site-admin\n    sites: [north, nowhere]"))
    with pytest.raises(BadFile, match=r"issuers.yaml:\d+: .*nowhere, which is no site here"):
        refuse_unknown_sites(path, issuers_of(path), house.store)
    path.write_text(path.read_text().replace(", nowhere", ", south"))
    refuse_unknown_sites(path, issuers_of(path), house.store)


def test_a_claim_may_be_nested(house: House, provider: IdentityProvider) -> None:
    rule = {"when": {"realm_access.roles": "pilotage"}, "vo": "cms", "person": "{preferred_username}"}
    door = Door(house, provider, rules=[rule])
    assert owner(door, door.client(realm_access={"roles": ["x", "pilotage"]})) == ("ada", "cms", "")
    assert door.refusal(door.token(realm_access="pilotage"))[0] == 403


WLCG = {
    "read": "compute.read",
    "create": "compute.create",
    "modify": "compute.modify",
    "cancel": "compute.cancel",
}


def test_scopes_of_the_wlcg_limit_what_a_token_may_do(house: House, provider: IdentityProvider) -> None:
    rule = {"when": {"wlcg.groups": "/{vo}"}, "person": "{sub}"}
    door = Door(house, provider, rules=[rule], rights=WLCG)
    claims = {"wlcg.groups": ["/cms"], "wlcg.ver": "1.0"}
    creator = door.client(scope="openid compute.create compute.read", **claims)
    task = submit_to(creator)
    assert creator.get(f"/tasks/{task}").status_code == 200
    answer = creator.post(f"/tasks/{task}/cancel")
    assert (answer.status_code, "needs the right to cancel" in answer.text) == (403, True)
    assert door.client(scope="compute.cancel", **claims).post(f"/tasks/{task}/cancel").status_code == 200
    for scope in ("", None, "compute.readx", "storage.read:/", ["compute.create"]):
        assert door.client(scope=scope, **claims).get("/tasks").status_code == 403
    reader = door.client(scope="compute.read", **claims)
    assert reader.post("/tasks", json={"tasks": [{"name": "w", "command": ["true"]}]}).status_code == 403
    assert reader.get("/tasks").status_code == 200


def test_an_operators_limited_token_makes_no_unlimited_one(house: House, provider: IdentityProvider) -> None:
    rule = {"when": {"sub": "4711"}, "role": "operator"}
    door = Door(house, provider, rules=[rule], rights=WLCG)
    limited = door.client(scope="compute.create compute.modify compute.read")
    assert limited.get("/tokens").status_code == 200
    body = {"role": "operator", "name": "olga"}
    assert limited.post("/tokens", json=body).status_code == 403
    whole = door.client(scope=" ".join(WLCG.values()))
    assert whole.post("/tokens", json=body).status_code == 201


def test_each_route_that_changes_something_needs_more_than_reading() -> None:
    needs = {
        (method, route.path.removeprefix(PREFIX)): needed_rights(method, route.path)
        for room in ROUTERS
        for route in room.router.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }
    assert {key for key, rights in needs.items() if key[0] != "GET" and rights == ("read",)} == {
        ("POST", "/tasks/{task}/what-if"),
        ("POST", "/jobs/{job}/what-if"),
        ("POST", "/plan/broker"),
        ("POST", "/files/compare"),
    }
    assert all(rights == ("read",) for key, rights in needs.items() if key[0] == "GET")
    assert needs["POST", "/tokens"] == needs["POST", "/people/close"] == needs["POST", "/grants"] == RIGHTS
    assert {path for (_, path), rights in needs.items() if rights == ("create",)} == {
        "/tasks",
        "/workflows",
        "/ga4gh/tes/v1/tasks",
    }
    assert {path for (_, path), rights in needs.items() if rights == ("cancel",)} == {
        "/tasks/{task}/cancel",
        "/jobs/{job}/cancel",
        "/ga4gh/tes/v1/tasks/{task}:cancel",
    }


def test_a_signed_token_is_no_session() -> None:
    request = Request({"type": "http", "headers": [(b"cookie", f"pilotage_page={'a.b.c'}".encode())]})
    assert "." not in token_of_session(request)


def test_refusals_are_logged_without_the_token(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    token = door.token(aud="another")
    with caplog.at_level(logging.INFO):
        door.refusal(token)
    lines = [record.getMessage() for record in caplog.records]
    assert "a token of idp was refused: the token is for another audience" in lines
    assert not any(part in line for part in token.split(".") for line in lines)


FILE = """
issuers:
- name: idp
  issuer: https://idp.example.org
  audience: [pilotage]
  rules:
  - when: {groups: /atlas}
    vo: atlas
"""
FAULTS = {
    "an unknown role": (
        "vo: atlas",
        "role: admin",
        "Input should be 'user', 'manager', 'site-admin', 'monitor' or 'operator'",
    ),
    "a manager without a VO": ("vo: atlas", "role: manager", "vo: is empty"),
    "a site admin without sites": ("vo: atlas", "role: site-admin", "sites: is empty"),
    "a user with sites": ("vo: atlas", "sites: [north]", "sites: is for the role site-admin alone"),
    "an unknown field": ("vo: atlas", "vos: atlas", "is no field here"),
    "no condition": ("{groups: /atlas}", "{}", "at least 1 item"),
    "a condition of numbers": ("{groups: /atlas}", "{groups: 7}", "valid string"),
    "an unknown capture": ("{groups: /atlas}", "'{groups: \"/{role}\"}'", "valid dictionary"),
    "captures of a role": ("{groups: /atlas}", '{groups: "/{role}"}', "captures {role}"),
    "a VO twice": ("{groups: /atlas}", '{groups: "/{vo}"}', "vo: is given twice"),
    "half a brace": ("{groups: /atlas}", '{groups: "/{group"}', "brace without its partner"),
    **{
        f"a {role} by a pattern": ("vo: atlas", f"role: {role}", None)
        for role in ("manager", "site-admin", "monitor", "operator")
    },
    "a person for all": ("vo: atlas", "person: ada", "names no claim in braces"),
    "an unfit VO": ("vo: atlas", "vo: 'a:b'", "has ~, =, :"),
    "http": ("https://idp", "http://idp", "is http"),
    "no URL": ("https://idp.example.org", "idp.example.org", "does not begin with"),
    "HS256": ("audience:", "algorithms: [HS256]\n  audience:", "'RS256' or 'ES256'"),
    "none": ("audience:", "algorithms: [none]\n  audience:", "'RS256' or 'ES256'"),
    "a long leeway": ("audience:", "leeway: 601\n  audience:", "less than or equal to 600"),
    "no audience": ("[pilotage]", "[]", "at least 1 item"),
    "an unknown right": ("audience:", "rights: {write: x}\n  audience:", "'read', 'create'"),
    "a claim twice": ("{groups: /atlas}", "{groups: /atlas, groups: /cms}", "twice"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_of_the_settings_has_its_line(tmp_path: Path, case: str) -> None:
    old, new, reason = FAULTS[case]
    path = tmp_path / "issuers.yaml"
    path.write_text(FILE)
    assert read_issuers(path)[0].rules[0].vo == "atlas"
    changed_file = FILE.replace(old, new)
    if reason is None:
        changed_file, reason = changed_file.replace("/atlas", '"/{vo}"'), "has no {...} in `when`"
    path.write_text(changed_file)
    with pytest.raises(BadFile) as bad:
        read_issuers(path)
    assert len(bad.value.faults) == 1
    assert reason in str(bad.value)
    assert f"{path}:" in str(bad.value)


def test_two_issuers_of_one_name_or_url_are_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "issuers.yaml"
    path.write_text(FILE + FILE.partition("issuers:\n")[2])
    with pytest.raises(BadFile, match="'idp' is given twice") as bad:
        read_issuers(path)
    assert len(bad.value.faults) == 2
