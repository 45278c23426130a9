"""Quotas: what limits a person's work, and other limits of people, groups and VOs, which managers set."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.routing import Route

from pilotage.flow.calls.administration.quotas import UsedQuota
from pilotage.model.records.quotas import LIMITS, QuotaException
from pilotage.model.rules.verbs import LIMIT, UNLIMIT
from pilotage.model.values.identity import IdentityName
from pilotage.server.api.administration.quotas import Holder, WantedQuota, lift, put, quota_list
from pilotage.server.web.action_model import ActionField, ActionPreview, ActionSubject, PageAction, values
from pilotage.server.web.pages import Page, Visit, command, view

LABELS = {
    "tasks": "Unfinished tasks",
    "jobs": "Live jobs",
    "files": "Input files of unfinished tasks",
    "stored": "MB of the store for a person's tasks",
    "uploaded": "GB of uploaded files",
    "core_hours": "Core hours in a calendar month",
    "transferred": "GB of inputs and outputs in a calendar month",
    "target": "Target of a share, relative to its siblings",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotasModel:
    """What limits the caller's work, and the limits that they see."""

    of_caller: Sequence[UsedQuota]
    exceptions: Sequence[QuotaException]
    may_set: bool
    done: str


def quotas(visit: Visit) -> Page:
    """Show quotas."""
    shown = quota_list(visit.runtime, visit.caller)
    return Page(
        template="quotas.html",
        title="Quotas",
        section="Quotas",
        model=QuotasModel(
            of_caller=shown.of_caller,
            exceptions=shown.exceptions,
            may_set=_may_set(visit),
            done=visit.done,
        ),
        json="/quotas",
        command="pilotage quotas",
    )


def _may_set(visit: Visit) -> bool:
    return visit.caller.role in ("manager", "operator")


class QuotaForm(BaseModel):
    """The holder of limits, as commands name it; why, and the limits."""

    holder: Annotated[str, Field(max_length=206)] = ""
    vo: IdentityName | None = None
    because: Annotated[str, Field(max_length=500)] = ""
    tasks: str = ""
    jobs: str = ""
    files: str = ""
    stored: str = ""
    uploaded: str = ""
    core_hours: str = ""
    transferred: str = ""
    target: str = ""

    def subject(self) -> dict[str, object]:
        """Return the holder and the reason as the API takes them."""
        kind, mark, name = self.holder.partition(":")
        if not mark:
            return {"kind": "person", "name": self.holder, "vo": self.vo, "because": self.because}
        named = {"vo": name} if kind == "vo" else {"name": name, "vo": self.vo}
        return {"kind": kind, **named, "because": self.because}

    def limits(self) -> dict[str, float]:
        """Return the limits that are filled in. Raises a 422 for one that is no number."""
        texts = {name: text for name in LIMITS if (text := getattr(self, name))}
        try:
            return {name: float(text) if "." in text else int(text) for name, text in texts.items()}
        except ValueError as error:
            raise HTTPException(422, f"a limit is no number: {error}") from error


def _find(visit: Visit) -> ActionSubject:
    if not _may_set(visit):
        raise HTTPException(403, "only managers and operators set quotas")
    holder = values(visit, QuotaForm).holder
    name = f"the work of {holder}" if holder else "somebody's work"
    return ActionSubject(name=name, path="/quotas", section="Quotas", json="/quotas")


def _limiting(visit: Visit, _: ActionSubject, __: str) -> ActionPreview:
    form = values(visit, QuotaForm)
    asked = [
        ActionField(
            name="holder",
            label="Whose: a person, group:NAME, share:NAME or vo:NAME",
            value=form.holder,
            is_required=True,
        ),
        ActionField(name="vo", label="VO of the person or group, if it is not yours", value=form.vo or ""),
        *(ActionField(name=name, label=LABELS[name], value=getattr(form, name), most=15) for name in LIMITS),
        ActionField(name="because", label="Why", value=form.because, most=500, is_required=True),
    ]
    return ActionPreview(
        says=["These limits take the place of earlier ones, and hold at once. Empty: the general one holds."],
        asked=asked,
        command=_setting(form),
    )


def _setting(form: QuotaForm) -> str:
    """Return the command that sets what the form has."""
    because, (kind, _, name) = form.because or "REASON", form.holder.partition(":")
    if kind == "share":
        return command("shares", "set", name, form.target or "TARGET", because=because)
    limits = {limit: getattr(form, limit) for limit in LIMITS}
    return command("quotas", "set", form.holder or "PERSON", vo=form.vo, because=because, **limits)


def _limit(visit: Visit, _: ActionSubject) -> None:
    form = visit.sent(QuotaForm)
    put(visit.runtime, visit.caller, WantedQuota.model_validate({**form.subject(), **form.limits()}))


def _lifting(visit: Visit, _: ActionSubject, __: str) -> ActionPreview:
    form = values(visit, QuotaForm)
    return ActionPreview(
        says=["The general limits hold again."],
        asked=[ActionField(name="because", label="Why", value=form.because, most=500, is_required=True)],
        hidden={"holder": form.holder, **({"vo": form.vo} if form.vo else {})},
        command=command("quotas", "lift", form.holder, vo=form.vo, because=form.because or "REASON"),
    )


def _lift(visit: Visit, _: ActionSubject) -> None:
    lift(visit.runtime, visit.caller, Holder.model_validate(visit.sent(QuotaForm).subject()))


ROUTES: Sequence[Route] = (
    view("/quotas", quotas),
    *PageAction(verb=LIMIT, find=_find, show=_limiting, do=_limit).routes("/quotas/limit"),
    *PageAction(verb=UNLIMIT, find=_find, show=_lifting, do=_lift).routes("/quotas/unlimit"),
)
