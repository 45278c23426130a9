"""Every view of the page, for the tests of looks and for the pictures. A new view adds a line here."""

from dataclasses import dataclass
from typing import Literal

Person = Literal["alice", "bob", "olga"]
"""Who looks: Alice and Bob are users, Olga is an operator."""


@dataclass(frozen=True, slots=True)
class SeenView:
    """A view: the name of its picture, its address with names of the work (work.py), and who looks."""

    name: str
    address: str
    person: Person = "alice"
    status: int = 200


VIEWS = (
    SeenView("now", "/"),
    SeenView("now-operator", "/", "olga"),
    SeenView("tasks", "/tasks"),
    SeenView("tasks-filtered", "/tasks?state=running&label=campaign%3Dspring&sort=name"),
    SeenView("tasks-operator", "/tasks", "olga"),
    SeenView("tasks-none", "/tasks?name=nothing-is-called-so"),
    SeenView("task-why", "/tasks/{waiting}"),
    SeenView("task-what-if", "/tasks/{waiting}?memory=2000"),
    SeenView("task-script", "/tasks/{script}/jobs"),
    SeenView("task-jobs", "/tasks/{mixed}/jobs"),
    SeenView("task-data", "/tasks/{mixed}/data"),
    SeenView("task-log", "/tasks/{mixed}/log"),
    SeenView("task-use", "/tasks/{mixed}/use"),
    SeenView("job-life", "/jobs/{failed}"),
    SeenView("job-log", "/jobs/{failed}/log"),
    SeenView("job-files", "/jobs/{failed}/files"),
    SeenView("retry", "/tasks/{mixed}/retry"),
    SeenView("retry-job", "/jobs/{failed}/retry"),
    SeenView("set", "/tasks/{waiting}/set?memory=2000"),
    SeenView("set-job", "/jobs/{failed}/set?memory=2000"),
    SeenView("hold", "/tasks/{waiting}/hold"),
    SeenView("release", "/tasks/{waiting}/release"),
    SeenView("finish", "/tasks/{mixed}/finish"),
    SeenView("cancel", "/tasks/{waiting}/cancel"),
    SeenView("cancel-job", "/jobs/{running}/cancel"),
    SeenView("lift", "/breakers/lift?name=south-queue", "olga"),
    SeenView("sites", "/sites", "olga"),
    SeenView("site", "/sites/north"),
    SeenView("queues", "/queues"),
    SeenView("queue", "/queues/south-queue", "olga"),
    SeenView("drain", "/queues/north-queue/drain", "olga"),
    SeenView("storages", "/storages"),
    SeenView("storage", "/storages/north-disk", "olga"),
    SeenView("pilots", "/pilots", "olga"),
    SeenView("pilot", "/pilots/1", "olga"),
    SeenView("transfers", "/transfers", "olga"),
    SeenView("shares", "/shares"),
    SeenView("shares-month", "/shares?days=30"),
    SeenView("failures", "/failures"),
    SeenView("failures-operator", "/failures?days=30", "olga"),
    SeenView("use", "/use"),
    SeenView("use-task", "/use?by=task&days=30"),
    SeenView("stuck", "/stuck", "olga"),
    SeenView("workflows", "/workflows"),
    SeenView("workflow", "/workflows/{workflow}"),
    SeenView("datasets", "/datasets"),
    SeenView("dataset", "/dataset?dataset=user.alice~atlas:calibrations"),
    SeenView("dataset-grant", "/dataset/grant?dataset=user.alice~atlas:calibrations"),
    SeenView("retry-ticked", "/tasks/selected/retry?task={mixed}&task={waiting}"),
    SeenView("site-bad", "/sites/south", "olga"),
    SeenView("task-workflow", "/tasks/{waiting}/workflow"),
    SeenView("simulate", "/simulate", "olga"),
    SeenView("admin", "/admin", "olga"),
    SeenView("admin-federation", "/admin/federation", "olga"),
    SeenView("admin-load", "/admin/federation/load", "olga"),
    SeenView("admin-history", "/admin/history", "olga"),
    SeenView("sessions", "/sessions", "olga"),
    SeenView("quotas", "/quotas", "olga"),
    SeenView("limits", "/quotas/limit", "olga"),
    SeenView("admin-tokens", "/admin/tokens", "olga"),
    SeenView("audit", "/audit", "olga"),
    SeenView("admin-servers", "/admin/servers", "olga"),
    SeenView("admin-days", "/admin/days?day=2027-01-15", "olga"),
    SeenView("simulate-day", "/simulate?work=day&day=2027-01-15", "olga"),
    SeenView("refusal", "/tasks/999999", status=404),
)
