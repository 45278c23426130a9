"""A person tries receivers out, and floods nobody with it."""

from starlette.testclient import TestClient

from pilotage.flow.calls.notifications import MOST_TESTS, TESTS_IN

from .conftest import BOB, House


def sent(client: TestClient, receivers: int) -> int:
    notify = [{"url": f"https://hooks.example.org/{one}"} for one in range(receivers)]
    return int(client.post("/notifications/test", json={"notify": notify}).status_code)


def test_a_world_shows_no_webhook(house: House, alice: TestClient, operator: TestClient) -> None:
    secret = "https://hooks.example.org/services/T0/B0/secret"
    notify = [{"url": secret}, {"email": "alice@example.org"}]
    assert alice.post("/notifications/test", json={"notify": notify}).status_code == 202
    task = {"name": "t", "command": ["true"], "notify": notify}
    assert alice.post("/tasks", json={"tasks": [task]}).status_code == 201
    answer = operator.get("/world")
    assert secret not in answer.text
    world = answer.json()
    receivers = {notification["receiver"] for notification in world["notifications"]}
    (webhook,) = (receiver for receiver in receivers if receiver.startswith("url:https://hooks.example.org/"))
    assert world["tasks"][0]["spec"]["notify"][0]["url"] == webhook.removeprefix("url:")


def test_tests_of_a_person_are_few_within_an_hour(house: House, alice: TestClient) -> None:
    for _ in range(MOST_TESTS // 5):
        assert sent(alice, 5) == 202
    assert sent(alice, 1) == 409
    assert len(house.store.notification_queries.newest(None, 0, 100)) == MOST_TESTS
    assert sent(house.as_("user", BOB), 1) == 202
    house.now += TESTS_IN + 1
    assert sent(alice, 1) == 202
