"""A pilot's first call: the token of its order is exchanged once, for its own credential (P9)."""

from fastapi.testclient import TestClient

from pilotage.agent import VERSION
from pilotage.model.documents.decision import Move
from pilotage.model.records.states import PilotState
from pilotage.model.values.durations import KNOWN_FOR
from pilotage.model.values.identity import Credential
from pilotage.server.api.places.pilot_agent import Reports, answer_heartbeats

from .conftest import ALICE, House

NONCE, OTHER = "a" * 64, "b" * 64
DAY = 86_400.0


def ordered(house: House, pilot: int) -> TestClient:
    """A client with a token as a pilot's order carries it."""
    return house.as_("enrolment", ALICE, pilot)


def enrolled(house: House, client: TestClient, nonce: str = NONCE) -> str:
    answer = client.post("/pilot/enrol", json={"nonce": nonce})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["token"])


def test_p9_a_token_is_exchanged_for_the_credential_of_its_pilot_and_worth_nothing_then(
    house: House,
) -> None:
    pilot, _ = house.pilot()
    first = ordered(house, pilot)
    assert first.get("/pilot/agent.pyz").status_code == 200
    assert first.post("/pilot/report", json={}).status_code == 403
    token = enrolled(house, first)
    assert house.store.tokens.find(token) == Credential(
        role="pilot", identity=ALICE, pilot=pilot, queue="north-queue", expires=house.now + 5 * DAY
    )
    assert house.client(token).post("/pilot/report", json={}).status_code == 200
    house.now += KNOWN_FOR
    assert first.get("/pilot/agent.pyz").status_code == 403
    assert first.post("/pilot/report", json={}).status_code == 403


def test_p9_an_answer_that_was_lost_is_given_again_to_the_same_agent_and_to_nobody_else(house: House) -> None:
    pilot, _ = house.pilot()
    first = ordered(house, pilot)
    assert enrolled(house, first) == enrolled(house, first)
    thief = first.post("/pilot/enrol", json={"nonce": OTHER})
    assert thief.status_code == 403
    assert f"pilot {pilot} has enrolled already" in thief.json()["detail"]
    assert enrolled(house, first) == enrolled(house, first)


def test_the_first_call_tells_the_version_of_the_agent(house: House) -> None:
    told, untold = house.pilot()[0], house.pilot()[0]
    headers = {"User-Agent": f"pilotage-agent/{VERSION}"}
    assert ordered(house, told).post("/pilot/enrol", json={"nonce": NONCE}, headers=headers).is_success
    enrolled(house, ordered(house, untold))
    shown = house.as_("operator", ALICE)
    assert [shown.get(f"/pilots/{one}").json()["agent_version"] for one in (told, untold)] == [VERSION, ""]


def test_p9_a_pilot_that_was_sent_two_tokens_enrols_with_one_of_them(house: House) -> None:
    pilot, _ = house.pilot()
    first, second = ordered(house, pilot), ordered(house, pilot)
    token = enrolled(house, second)
    assert first.post("/pilot/enrol", json={"nonce": OTHER}).status_code == 403
    assert enrolled(house, second) == token
    other, _ = house.pilot()
    assert enrolled(house, ordered(house, other)) != token


def test_p9_neither_the_token_nor_the_nonce_alone_gives_the_credential(house: House) -> None:
    pilots = [house.pilot()[0] for _ in range(2)]
    same_nonce = {enrolled(house, ordered(house, pilot)) for pilot in pilots}
    assert len(same_nonce) == 2


def test_p9_a_pilot_that_calls_late_is_told_that_its_time_is_over(house: House) -> None:
    pilot, _ = house.pilot()
    late = ordered(house, pilot)
    cancelled = Move(
        kind="pilot",
        ids=(pilot,),
        source=PilotState.SUBMITTED,
        target=PilotState.CANCELLED,
        cause="waited too long at its site",
    )
    house.commit(cancelled)
    answer = late.post("/pilot/enrol", json={"nonce": NONCE})
    assert answer.status_code == 401
    assert "a pilot's ends with the pilot" in answer.json()["detail"]


def test_p9_a_credential_is_renewed_for_as_long_as_its_pilot_may_live(house: House) -> None:
    pilot, _ = house.pilot(walltime=12.5 * DAY)
    token = enrolled(house, ordered(house, pilot))
    client = house.client(token)
    begun = house.now
    for days in range(13):
        house.now = begun + days * DAY
        answer = client.post("/pilot/report", json={})
        assert answer.status_code == 200, f"on day {days}"
        house.now += KNOWN_FOR
    found = house.store.tokens.find(token)
    assert found is not None
    assert found.expires == begun + 12.5 * DAY + 3600
    house.now = begun + 13 * DAY
    assert client.post("/pilot/report", json={}).status_code == 401


def test_a_renewal_holds_up_no_heartbeats_of_others(house: House) -> None:
    """Heartbeats are answered together, and a renewal waits for whoever writes."""
    pilots = [house.pilot(walltime=9 * DAY)[0] for _ in range(2)]
    tokens = [enrolled(house, ordered(house, pilot)) for pilot in pilots]
    begun = Move(
        kind="pilot",
        ids=tuple(pilots),
        source=PilotState.SUBMITTED,
        target=PilotState.RUNNING,
        cause="test",
    )
    house.commit(begun)
    calls = [
        (
            Reports(),
            Credential(role="pilot", identity=ALICE, pilot=pilot, expires=house.now + days * DAY),
            pilot,
        )
        for pilot, days in zip(pilots, (1, 5), strict=True)
    ]
    renews, other = answer_heartbeats(house.runtime, calls)
    assert (renews, other is not None) == (None, True)
    house.now += 3 * DAY
    assert house.client(tokens[0]).post("/pilot/report", json={}).status_code == 200
    renewed = house.store.tokens.find(tokens[0])
    assert renewed is not None
    assert renewed.expires == house.now + 5 * DAY
