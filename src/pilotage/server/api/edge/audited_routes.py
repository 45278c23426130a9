"""Which record each changing route leaves: the verb, the record, and the fields of the request that it shows.

Fields are named one by one, so that no secret gets into a record.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pilotage.model.records.quotas import LIMITS
from pilotage.model.rules.verbs import OF_TASKS, OF_WORK
from pilotage.server.api.edge.dependencies import TES_PREFIX


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLine:
    """The record of a route. ``record`` and ``verb`` may have fields of the request in braces.

    ``asked`` are the fields that the record shows. Without the field that it ``needs``, if any, the
    request is a question, as with ``dry_run``.
    """

    verb: str
    record: str = ""
    asked: tuple[str, ...] = ()
    needs: str = ""
    has_query: bool = False
    """Whether the fields are in the query, not in the body."""


_WORK = ("memory", "ram", "walltime", "cores", "priority", "anyway", "outputs")
_GRANT = ("person", "group", "vo", "manages", "until")
_READER = ("reader", "vo", "until")
_PLACE = ("mode", "until")

_OF_WORK: Mapping[str, AuditLine] = {
    f"POST /{kind}s/{{{kind}}}/{verb.name}": AuditLine(
        verb=verb.name, record=f"{kind} {{{kind}}}", asked=_WORK
    )
    for kind in ("task", "job")
    for verb in OF_WORK
    if kind == "task" or verb not in OF_TASKS
}

_OF_API: Mapping[str, AuditLine] = {
    "POST /tasks": AuditLine(verb="submit"),
    "POST /workflows": AuditLine(verb="submit", asked=("name",)),
    **_OF_WORK,
    "POST /tasks/{task}/publish": AuditLine(verb="publish", record="task {task}"),
    "POST /tasks/{task}/delete": AuditLine(verb="delete", record="task {task}", asked=("outputs",)),
    "POST /workflows/{workflow}/delete": AuditLine(
        verb="delete", record="workflow {workflow}", asked=("outputs",)
    ),
    "POST /grants": AuditLine(verb="grant", record="{kind} {record}", asked=_GRANT),
    "POST /grants/revoke": AuditLine(verb="revoke", record="{kind} {record}", asked=_GRANT),
    "POST /queues/{queue}/test": AuditLine(verb="test", record="queue {queue}"),
    "DELETE /sites/{site}/ad": AuditLine(verb="forget advertisement", record="site {site}"),
    "POST /transfers/priorities": AuditLine(verb="set priorities"),
    "POST /storages/{storage}/move": AuditLine(
        verb="move", record="storage {storage}", asked=("to", "same_place", "again")
    ),
    "POST /breakers/lift": AuditLine(verb="lift", record="{name}", asked=("kind",)),
    "POST /files": AuditLine(verb="register files"),
    "PUT /files/content": AuditLine(
        verb="upload", record="file {file}", asked=("storage", "replace"), has_query=True
    ),
    "POST /files/scan": AuditLine(
        verb="register files", record="storage {storage}", asked=("match", "scope")
    ),
    "POST /files/forget": AuditLine(verb="forget", record="file {file}", asked=("storage",)),
    "POST /datasets": AuditLine(
        verb="make version", record="dataset {dataset}", asked=("scope", "edit", "match")
    ),
    "POST /datasets/forget": AuditLine(verb="forget", record="dataset {dataset}"),
    "PUT /federation": AuditLine(
        verb="load", record="federation", asked=("file", "expected", "force"), has_query=True
    ),
    "POST /federation/rollback": AuditLine(verb="rollback", record="federation", asked=("version", "force")),
    "PUT /restrictions/{kind}/{name}": AuditLine(verb="{mode}", record="{kind} {name}", asked=_PLACE),
    "DELETE /restrictions/{kind}/{name}": AuditLine(verb="open", record="{kind} {name}"),
    "POST /tokens": AuditLine(
        verb="make token",
        record="person {name}",
        asked=("role", "vo", "group", "vo_role", "sites", "expires_in", "purpose"),
    ),
    "POST /tokens/{token}/rotate": AuditLine(verb="rotate token", record="token {token}", asked=("overlap",)),
    "DELETE /tokens/{token}": AuditLine(verb="revoke token", record="token {token}"),
    "POST /secrets": AuditLine(verb="set secret", record="secret {name}"),
    "DELETE /secrets/{name}": AuditLine(verb="remove secret", record="secret {name}"),
    "PUT /notifications/settings": AuditLine(verb="set receivers"),
    "POST /notifications/secret": AuditLine(verb="make webhook secret"),
    "POST /notifications/test": AuditLine(verb="test receivers"),
    "PUT /quotas": AuditLine(verb="set quota", record="{kind} {name}", asked=("vo", *LIMITS)),
    "POST /quotas/lift": AuditLine(verb="lift quota", record="{kind} {name}", asked=("vo",)),
    "POST /people/close": AuditLine(verb="close person", record="person {name}", asked=("vo",)),
    f"POST {TES_PREFIX}/tasks": AuditLine(verb="submit", asked=("name",)),
    f"POST {TES_PREFIX}/tasks/{{task}}:cancel": AuditLine(verb="cancel", record="task {task}"),
}

_SELECTED = {"task": ("retry", "hold", "release", "cancel", "delete"), "job": ("retry", "cancel")}

_OF_PAGE: Mapping[str, AuditLine] = {
    **{
        f"POST /{kind}s/{{name}}/{verb}": AuditLine(verb=verb, record=f"{kind} {{name}}", asked=("until",))
        for kind in ("site", "queue", "storage")
        for verb in ("drain", "close", "open")
    },
    **{
        f"POST /{kind}s/selected/{verb}": AuditLine(verb=verb, record=f"{kind}s {{chosen}}")
        for kind, verbs in _SELECTED.items()
        for verb in verbs
    },
    **{
        f"POST /{kind}s/{{{kind}}}/{verb}": AuditLine(verb=verb, record=f"{kind} {{{kind}}}", asked=_READER)
        for kind in ("task", "workflow")
        for verb in ("grant", "revoke")
    },
    "POST /dataset/grant": AuditLine(verb="grant", record="dataset {dataset}", asked=_READER),
    "POST /dataset/revoke": AuditLine(verb="revoke", record="dataset {dataset}", asked=_READER),
    "POST /admin/federation/load": AuditLine(verb="load", record="federation", needs="load"),
    "POST /admin/federation/rollback": AuditLine(verb="rollback", record="federation", asked=("version",)),
    "POST /quotas/limit": AuditLine(verb="set quota", record="{holder}", asked=("vo", *LIMITS)),
    "POST /quotas/unlimit": AuditLine(verb="lift quota", record="{holder}", asked=("vo",)),
    "POST /sessions/{session}/end": AuditLine(verb="end session", record="session {session}"),
    "POST /sign-in": AuditLine(verb="sign in"),
    "POST /sign-out": AuditLine(verb="sign out"),
}

AUDITED: Mapping[str, AuditLine] = {**_OF_API, **_OF_PAGE}
"""The lines by method and path of the route."""

UNCHANGING: Mapping[str, str] = {
    "POST /tasks/{task}/what-if": "it changes nothing",
    "POST /jobs/{job}/what-if": "it changes nothing",
    "POST /plan/broker": "it changes nothing",
    "POST /files/compare": "it changes nothing",
    "POST /simulate": "it changes nothing that others see",
    "POST /tasks/{task}/renew": "a program that follows its task renews its lease each minute",
    "PUT /sites/{site}/ad": "a site advertises itself each few minutes",
}
"""Routes for people, sites and their programs that leave no record, and why."""
