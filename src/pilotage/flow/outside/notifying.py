"""Messages that this process sends to receivers of notifications; the next pass reads their results."""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from operator import attrgetter

from pilotage.flow.outside.answers import OutsideAnswers
from pilotage.flow.outside.workers import WorkersPort
from pilotage.model.records.notifications import Notification, NotificationSighting
from pilotage.model.records.states import TaskState
from pilotage.model.rules.plain_states import task_clause
from pilotage.model.values.error_lines import in_short
from pilotage.model.values.phrases import moment
from pilotage.ports.notifying import LONGEST, NotificationMessage, NotificationRefused, NotificationSender
from pilotage.store import Store

MOST_LINES = 20
"""Most news that a message's text for people names one by one."""


class Notifying(OutsideAnswers[NotificationSighting]):
    """Starts messages, and keeps their results until a pass has committed them. Nothing here blocks.

    Each person's messages have their own workers, so a receiver that hangs delays no other person's.
    """

    def __init__(
        self,
        store: Store,
        sender: NotificationSender,
        workers: WorkersPort,
        on_news: Callable[[], None],
        server_url: str,
    ) -> None:
        super().__init__(attrgetter("notification", "attempt"), on_news)
        self.sender = sender
        self._store = store
        self._workers = workers
        self._server_url = server_url

    def start(self, news: Sequence[Notification]) -> None:
        """Start sending one receiver's news."""
        first = news[0]

        def done(future: "Future[None]") -> None:
            error = future.exception()
            text = "" if error is None else str(error) or repr(error)
            refused = isinstance(error, NotificationRefused)
            self.add(
                [
                    NotificationSighting(
                        notification=notification.id,
                        attempt=notification.attempt,
                        error=text[:500],
                        refused=refused,
                    )
                    for notification in news
                ]
            )

        self.begin((notification.id, notification.attempt) for notification in news)
        place = f"notifications of {first.owner} in {first.vo}"
        self._workers.call(place, lambda: self._send(news), LONGEST).add_done_callback(done)

    def _send(self, news: Sequence[Notification]) -> None:
        first = news[0]
        is_signed = first.receiver.startswith("url:")
        secret = self._store.notification_settings.secret(first.vo, first.owner) if is_signed else ""
        self.sender.send(message_of(news, self._server_url, secret))


def message_of(news: Sequence[Notification], server_url: str, secret: str = "") -> NotificationMessage:
    """Return the message with a receiver's news."""
    first = news[0]
    facts = [json.loads(notification.facts) for notification in news]
    lines = [_line(notification, details) for notification, details in zip(news, facts, strict=True)]
    first_lines = lines[:MOST_LINES]
    if len(lines) > len(first_lines):
        first_lines.append(f"and {len(lines) - len(first_lines)} more")
    number = f"{first.id}-{news[-1].id}-{len(news)}"
    body = {
        "message": number,
        "server": server_url,
        "owner": first.owner,
        "vo": first.vo,
        "news": [
            {
                "id": notification.id,
                "topic": notification.topic,
                "time": notification.created,
                "task": notification.task,
                **details,
            }
            for notification, details in zip(news, facts, strict=True)
        ],
    }
    return NotificationMessage(
        number=number,
        receiver=first.receiver,
        subject=f"Pilotage: {lines[0] if len(lines) == 1 else f'{len(lines)} news'}"[:200],
        text="\n".join([*first_lines, "", f"Sent for {first.owner} by {server_url}."]),
        body=json.dumps(body).encode(),
        secret=secret,
    )


def _line(notification: Notification, facts: dict[str, object]) -> str:
    """Return one piece of news as a line for people."""
    if notification.topic == "test":
        return str(facts["text"])
    if notification.topic == "expiry":
        return f"{facts['text']} ends {moment(float(str(facts['ends'])))}: {facts['mend']}"
    name = f"task {notification.task} ({facts['name']})"
    error = f": {in_short(str(facts['error']))}" if facts["error"] else ""
    match notification.topic:
        case "end":
            return f"{name} {task_clause(TaskState(str(facts['state'])))}{error}"
        case "failure":
            return f"{name}: a first job failed for good{error}"
    return f"{name} is held: {facts['held']}"
