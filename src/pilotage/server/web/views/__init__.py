"""Views: each module reads what the API reads, and gives models for one kind of page."""

from collections.abc import Sequence

from starlette.routing import Route

from pilotage.server.web.views import (
    admin,
    audit,
    datasets,
    failures,
    job,
    now,
    pilots,
    queues,
    quotas,
    sessions,
    shares,
    simulate,
    sites,
    storages,
    stuck,
    task,
    tasks,
    transfers,
    use,
    workflows,
)

ROUTES: Sequence[Route] = (
    *now.ROUTES,
    *failures.ROUTES,
    *use.ROUTES,
    *tasks.ROUTES,
    *task.ROUTES,
    *workflows.ROUTES,
    *datasets.ROUTES,
    *job.ROUTES,
    *sites.ROUTES,
    *queues.ROUTES,
    *storages.ROUTES,
    *pilots.ROUTES,
    *transfers.ROUTES,
    *shares.ROUTES,
    *quotas.ROUTES,
    *sessions.ROUTES,
    *stuck.ROUTES,
    *simulate.ROUTES,
    *admin.ROUTES,
    *audit.ROUTES,
)
"""The routes of all views. A new view adds its own here, and its section to ``rendering.MENUS``."""
