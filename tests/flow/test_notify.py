"""People are told that their tasks ended, failed at first, or are held: once, and in few messages."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from pilotage.flow.calls.work import remarks, steering
from pilotage.flow.calls.work.retry import retry
from pilotage.flow.outside.notifying import Notifying
from pilotage.flow.task_cancellation import cancel
from pilotage.model.records.notifications import NotificationLimits, Notify
from pilotage.model.values.identity import Identity
from pilotage.policies.tasks import notifying
from pilotage.ports.notifying import NotificationError, NotificationMessage, NotificationRefused
from pilotage.store import Store

from .house import ALICE, House
from .test_steering import run

HOOK = Notify(url="https://hooks.example.org/a")
BOB = Identity(name="bob", vo="ligo")


class Receiver:
    """A sender at the port that keeps what it got, and fails as it is told to."""

    def __init__(self) -> None:
        self.messages: list[NotificationMessage] = []
        self.errors: dict[str, NotificationError] = {}
        self.limits = NotificationLimits()

    def fault(self, receiver: str) -> str:
        return "is not allowed" if "forbidden" in receiver else ""

    def send(self, message: NotificationMessage) -> None:
        self.messages.append(message)
        if error := self.errors.get(message.receiver):
            raise error

    def news(self) -> list[tuple[int, str]]:
        """The task and the topic of all news so far."""
        found = [json.loads(message.body)["news"] for message in self.messages]
        return [(one["task"], one["topic"]) for news in found for one in news]


@pytest.fixture
def receiver(house: House) -> Receiver:
    there = Receiver()
    listen(house, there)
    return there


def listen(house: House, there: Receiver) -> None:
    tell = house.runtime.wakeups.tell
    house.runtime.notifying = Notifying(
        house.store, there, house.runtime.workers, lambda: tell("notified"), "http://server"
    )


def later(house: House, seconds: float = notifying.BUNDLED_FOR) -> None:
    house.take("notify")
    house.now += seconds
    house.take("notify")


def states(house: House) -> list[str]:
    return [str(one.state) for one in reversed(house.store.notification_queries.newest(None, 0, 1000))]


def test_ten_thousand_failing_jobs_send_one_message_before_the_end_and_one_at_it(
    house: House, receiver: Receiver
) -> None:
    task = house.task(jobs=5, max_attempts=1, notify=(HOOK,))
    house.take("broker")
    pilot = house.pilot()
    jobs = sorted((one.job, one.attempt) for work in house.match(pilot).works for one in work.jobs)
    for failing in jobs[:3]:
        house.report(pilot, "failed", [failing])
        later(house)
    assert receiver.news() == [(task, "failure")]
    house.report(pilot, "failed", jobs[3:])
    house.take("finish")
    later(house)
    later(house, 3600)
    assert receiver.news() == [(task, "failure"), (task, "end")]
    assert "failed: 5 of 5 jobs failed" in receiver.messages[1].subject
    (told,) = json.loads(receiver.messages[1].body)["news"]
    assert (told["state"], told["jobs"], told["name"]) == ("failed", {"failed": 5}, "t")
    assert states(house) == ["sent", "sent"]


def test_a_task_that_fails_at_once_tells_each_receiver_one_thing(house: House, receiver: Receiver) -> None:
    end, first = (Notify(email=f"{on}@example.org", on=(on,)) for on in ("end", "failure"))
    task = house.task(jobs=2, max_attempts=1, notify=(HOOK, end, first))
    run(house, task, bad=(0, 1))
    later(house)
    later(house, 1)
    told = {message.receiver.partition("@")[0]: message.subject for message in receiver.messages}
    assert set(told) == {"url:https://hooks.example.org/a", "email:end", "email:failure"}
    assert sorted(topic for _, topic in receiver.news()) == ["end", "end", "failure"]


def test_a_retried_task_tells_its_end_again(house: House, receiver: Receiver) -> None:
    task = house.task(jobs=2, max_attempts=1, notify=(HOOK,))
    run(house, task, bad=(0,))
    later(house)
    retry(house.runtime, task, "user:alice")
    run(house, task)
    later(house)
    assert receiver.news() == [(task, "end"), (task, "end")]
    assert "is done" in receiver.messages[1].subject


def test_each_hold_is_told_once(house: House, receiver: Receiver) -> None:
    task = house.task(jobs=2, notify=(Notify(url=HOOK.url, on=("held",)),))
    for _ in range(2):
        steering.hold(house.runtime, task, "operator:ops")
        later(house)
        later(house)
        steering.release(house.runtime, task, "operator:ops")
        later(house)
    assert receiver.news() == [(task, "held"), (task, "held")]
    assert receiver.messages[0].subject == f"Pilotage: task {task} (t) is held: operator:ops"
    cancel(house.runtime, task, "asked", "user:alice")
    later(house)
    assert len(receiver.news()) == 2


def test_what_comes_within_seconds_for_one_receiver_is_one_message(house: House, receiver: Receiver) -> None:
    tasks = [house.task(jobs=1, notify=(HOOK,)) for _ in range(7)]
    for task in tasks:
        cancel(house.runtime, task, "asked", "user:alice")
        house.take("notify")
    later(house)
    assert len(receiver.messages) == 1
    assert receiver.messages[0].subject == "Pilotage: 7 news"
    assert receiver.news() == [(task, "end") for task in tasks]


def test_a_receiver_that_fails_is_tried_again_later_and_later_and_given_up_after_a_day(
    house: House, receiver: Receiver
) -> None:
    receiver.errors[HOOK.receiver] = NotificationError("no route")
    first, second = (house.task(jobs=1, notify=(HOOK,)) for _ in range(2))
    cancel(house.runtime, first, "asked", "user:alice")
    later(house)
    assert (len(receiver.messages), states(house)) == (1, ["waiting"])
    cancel(house.runtime, second, "asked", "user:alice")
    later(house)
    assert len(receiver.messages) == 1, "news for a receiver that is given time wait with it"
    later(house, 30)
    assert receiver.news()[1:] == [(first, "end")]
    assert len({message.number for message in receiver.messages}) == 1, "it is the same message again"
    for _ in range(40):
        later(house, 3600)
    assert set(states(house)) == {"failed"}
    assert len(receiver.messages) < 40
    (one, _) = house.store.notification_queries.newest(ALICE, 0, 10)
    assert one.error == "no route"


def test_what_a_receiver_refuses_is_not_sent_again(house: House, receiver: Receiver) -> None:
    receiver.errors[HOOK.receiver] = NotificationRefused("status 410")
    cancel(house.runtime, house.task(jobs=1, notify=(HOOK,)), "asked", "user:alice")
    later(house)
    later(house, 86400)
    assert (len(receiver.messages), states(house)) == (1, ["failed"])


def test_what_was_sent_is_forgotten_after_a_time_and_what_waits_stays(
    house: House, receiver: Receiver
) -> None:
    for _ in range(2):
        cancel(house.runtime, house.task(jobs=1, notify=(HOOK,)), "asked", "user:alice")
        later(house)
        receiver.errors[HOOK.receiver] = NotificationError("no route")
    assert states(house) == ["sent", "waiting"]
    assert house.store.event_retention.forget_notifications(house.now - 10) == 0
    assert house.store.event_retention.forget_notifications(house.now + 1) == 1
    assert states(house) == ["waiting"]


def test_two_servers_make_and_send_each_notification_once(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = House(store, tmp_path), House(store, tmp_path)
    receivers = [Receiver(), Receiver()]
    for house, receiver in zip((here, there), receivers, strict=True):
        listen(house, receiver)
    task = here.task(jobs=1, notify=(HOOK,))
    cancel(here.runtime, task, "asked", "user:alice")
    for phase in range(2):
        commit, interrupted = store.commit, [False]

        def raced(decision: Any, actor: str, commit: Any = commit, done: list[bool] = interrupted) -> Any:
            if actor == "notify" and decision.changes and not done[0]:
                done[0] = True
                there.now = here.now
                there.take("notify")
            return commit(decision, actor)

        monkeypatch.setattr(store, "commit", raced)
        here.take("notify")
        monkeypatch.setattr(store, "commit", commit)
        assert interrupted[0], phase
        here.now += notifying.BUNDLED_FOR
    assert [len(receiver.messages) for receiver in receivers] == [0, 1]
    there.now = here.now
    there.take("notify")
    assert states(here) == ["sent"]


def test_a_notification_whose_server_ended_is_sent_by_another_with_the_same_number(
    house: House, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancel(house.runtime, house.task(jobs=1, notify=(HOOK,)), "asked", "user:alice")
    notifying_here = house.runtime.notifying
    monkeypatch.setattr(notifying_here, "start", lambda _: None)
    later(house)
    assert states(house) == ["sending"]
    monkeypatch.undo()
    later(house, notifying.LEASE + 1)
    later(house, 3600)
    assert (len(receiver.messages), states(house)) == (1, ["sent"])


def test_nobodys_crowd_delays_the_news_of_others(house: House, receiver: Receiver) -> None:
    hooks = [Notify(url=f"https://hooks.example.org/{n}") for n in range(4)]
    for hook in hooks * 60:
        cancel(house.runtime, house.task(jobs=1, notify=(hook,)), "asked", "user:alice")
    cancel(house.runtime, house.task(jobs=1, notify=(HOOK,), owner=BOB), "asked", "user:bob")
    house.take("notify")
    house.now += notifying.BUNDLED_FOR
    house.take("notify")
    assert "bob" in {json.loads(message.body)["owner"] for message in receiver.messages}
    while set(states(house)) != {"sent"}:
        later(house, 1)
    assert len(receiver.news()) == 241


def test_a_persons_news_wait_at_their_tasks_where_too_many_are_unsent(
    house: House, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifying, "MOST_UNSENT", 2)
    receiver.errors[HOOK.receiver] = NotificationError("no route")
    tasks = [house.task(jobs=1, notify=(HOOK,)) for _ in range(4)]
    for task in tasks:
        cancel(house.runtime, task, "asked", "user:alice")
    later(house)
    assert states(house) == ["waiting"] * 2
    receiver.errors.clear()
    later(house, 60)
    later(house, 60)
    later(house)
    assert states(house) == ["sent"] * 4
    assert set(receiver.news()) == {(task, "end") for task in tasks}


def news_of(house: House, *receivers: Notify, owner: Identity = ALICE) -> None:
    """A task that ends at once and has news for receivers."""
    task = house.task(jobs=1, notify=receivers, owner=owner)
    cancel(house.runtime, task, "asked", f"user:{owner.name}")


def test_news_beyond_the_limit_of_an_address_wait_say_so_and_come_together(
    house: House, receiver: Receiver
) -> None:
    receiver.limits = NotificationLimits(per_address=2)
    mail = [Notify(email=address) for address in ("ada@example.org", "Ada@example.org", "bob@example.org")]
    for one in mail[:2]:
        news_of(house, one)
        later(house)
    first = house.now - 2 * notifying.BUNDLED_FOR
    for _ in range(3):
        news_of(house, *mail)
        later(house)
    assert [one.receiver for one in receiver.messages[2:]] == ["email:bob@example.org"] * 2
    waiting = [one for one in house.store.notification_queries.newest(ALICE, 0, 20) if one.state == "waiting"]
    assert "the limit of 2 messages within an hour to one address" in {one.error for one in waiting}
    task = house.store.queries.task(3)
    assert task
    (found,) = remarks.notified(house.runtime, task)
    assert re.search(r"2 waiting, 1 sent; the next goes out in \d+ min: the limit of 2 mess", found.text)
    house.now = first + 3600 + notifying.BUNDLED_FOR
    later(house, 3600)
    later(house, 1)
    assert set(states(house)) == {"sent"}
    assert len(receiver.news()) == 2 + 9
    assert {one.error for one in house.store.notification_queries.newest(ALICE, 0, 20)} == {""}


def test_nobody_uses_up_the_limit_of_anothers_address(house: House, receiver: Receiver) -> None:
    receiver.limits = NotificationLimits(per_address=1)
    for owner in (ALICE, ALICE, BOB, BOB):
        news_of(house, HOOK, owner=owner)
        later(house)
    assert [json.loads(one.body)["owner"] for one in receiver.messages] == ["alice", "bob"]


def test_the_limit_of_a_person_counts_messages_to_all_receivers_and_a_repeated_one_once(
    house: House, receiver: Receiver
) -> None:
    receiver.limits = NotificationLimits(per_person=2)
    failing, *others = (Notify(url=f"https://hooks.example.org/{n}") for n in range(3))
    receiver.errors[failing.receiver] = NotificationError("no route")
    news_of(house, failing)
    later(house)
    later(house, 60)
    later(house, 60)
    assert len(receiver.messages) == 3, "the same message again counts once"
    for one in others:
        news_of(house, one)
        later(house)
    news_of(house, HOOK, owner=BOB)
    later(house)
    assert {one.receiver for one in receiver.messages[3:]} == {others[0].receiver, HOOK.receiver}
    (newest, *_) = house.store.notification_queries.newest(ALICE, 0, 10)
    assert "the limit of 2 messages within an hour to all your receivers" in newest.error
