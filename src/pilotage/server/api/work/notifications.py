"""Notifications: the sent ones, a person's own receivers, and the secret that signs webhooks."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from pilotage.adapters.notifiers.webhook import secret_text
from pilotage.flow.calls.work import notifications
from pilotage.model.records.notifications import MOST_RECEIVERS, Notify
from pilotage.model.rules.webhooks import of_receiver
from pilotage.server.api.edge.access import Person, is_owner, owner_seen
from pilotage.server.api.edge.answers import FieldFault, PageOfList, answer, documented, listed
from pilotage.server.api.edge.bodies import RequestBody
from pilotage.server.api.edge.dependencies import PREFIX, After, AnyId, Limit, TheRuntime
from pilotage.server.api.edge.measured_routes import MeasuredRoute
from pilotage.store import NotificationView, PersonNotify

router = APIRouter(prefix=f"{PREFIX}/notifications", tags=["notifications"], route_class=MeasuredRoute)


class RecentNotifications(PageOfList):
    """Notifications, newest first."""

    notifications: list[NotificationView]


class Receivers(RequestBody):
    """Receivers of notifications."""

    notify: list[Notify] = Field(default=[], max_length=MOST_RECEIVERS, description="The receivers.")


class WebhookSecret(BaseModel):
    """The secret itself, shown only now."""

    secret: str


class TestSent(BaseModel):
    """The numbers of a test's notifications."""

    ids: list[int]


@router.get("", responses=documented(RecentNotifications))
def get_notifications(
    caller: Person,
    runtime: TheRuntime,
    task: Annotated[AnyId, Query(description="only of this task; 0: of any")] = 0,
    limit: Limit = 100,
    after: After = "",
) -> Response:
    """The caller's newest notifications with their state; an operator sees everybody's.

    Only its owner sees the address of a webhook.
    """
    page = runtime.store.notification_queries.newest(owner_seen(caller), task, limit, after)
    rows = [
        notification
        if is_owner(caller, notification.owner, notification.vo)
        else replace(notification, receiver=of_receiver(notification.receiver))
        for notification in page
    ]
    return listed("notifications", page, rows)


@router.get("/settings", responses=documented(PersonNotify))
def get_settings(caller: Person, runtime: TheRuntime) -> Response:
    """The caller's own receivers, for tasks that name none, and whether there is a secret."""
    return answer(runtime.store.notification_settings.of(caller.identity))


@router.put("/settings", responses=documented(PersonNotify))
def put_settings(body: Receivers, caller: Person, runtime: TheRuntime) -> Response:
    """Replace the caller's own receivers. They count for tasks that are submitted from now on."""
    if faults := notifications.faults(runtime, body.notify):
        return _refused(faults)
    runtime.store.notification_settings.save(caller.identity, body.notify)
    return answer(runtime.store.notification_settings.of(caller.identity))


@router.post("/secret", status_code=201, responses=documented(WebhookSecret, status=201))
def post_secret(caller: Person, runtime: TheRuntime) -> Response:
    """Make the caller's secret, which signs their webhooks. It replaces an earlier one."""
    secret = runtime.store.notification_settings.make_secret(caller.identity)
    return answer({"secret": secret_text(secret)}, 201)


@router.post("/test", status_code=202, responses=documented(TestSent, 409, status=202))
def post_test(body: Receivers, caller: Person, runtime: TheRuntime) -> Response:
    """Send a test to these receivers, or to the caller's own ones if there are none.

    409: the caller sent many within an hour.
    """
    notify = body.notify or list(runtime.store.notification_settings.of(caller.identity).notify)
    if not notify:
        return _refused([("notify", "is empty, and you have no receivers of your own: name one")])
    if faults := notifications.faults(runtime, notify):
        return _refused(faults)
    return answer({"ids": notifications.send_test(runtime, notify, caller.identity)}, 202)


def _refused(faults: Sequence[tuple[str, str]]) -> Response:
    return answer({"detail": [FieldFault(field, text) for field, text in faults]}, 422)
