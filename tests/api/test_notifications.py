"""A person tries receivers out, and floods nobody with it."""

from starlette.testclient import TestClient

from pilotage.flow.calls.work.notifications import MOST_TESTS, TESTS_IN

from .conftest import BOB, House


def sent(client: TestClient, receivers: int) -> int:
    notify = [{"url": f"https://hooks.example.org/{one}"} for one in range(receivers)]
    return int(client.post("/notifications/test", json={"notify": notify}).status_code)


def test_tests_of_a_person_are_few_within_an_hour(house: House, alice: TestClient) -> None:
    for _ in range(MOST_TESTS // 5):
        assert sent(alice, 5) == 202
    assert sent(alice, 1) == 409
    assert len(house.store.notification_queries.newest(None, 0, 100)) == MOST_TESTS
    assert sent(house.as_("user", BOB), 1) == 202
    house.now += TESTS_IN + 1
    assert sent(alice, 1) == 202
