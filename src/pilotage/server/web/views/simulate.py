"""Simulate: how other policies would do with the recorded work of the last hours, or with a scenario."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from markupsafe import Markup
from pydantic import BaseModel, Field
from starlette.routing import Route

from pilotage.federation import text
from pilotage.federation.documents import write
from pilotage.federation.faults import BadDocument
from pilotage.flow.calls.administration.people import last_simulation
from pilotage.model.rules.options import without_options
from pilotage.server.web.pages import Page, Redirect, Visit, action, command, view
from pilotage.server.web.sessions import token_of_session
from pilotage.server.web.simulation_runs import FEDERATION, SCENARIO, NoRoom, SimulationRuns
from pilotage.server.web.views.admin import worlds_by_day
from pilotage.store import StoredSimulation

EXAMPLE = f"""\
name: busy-morning
federation: {FEDERATION}            # the one in force
default_site: {{ wait: 600, wait_spread: 1, payload_fails: 0.01 }}
generated:
  tasks: 4                             # in an hour
  jobs: 10                             # of each task
  arrivals: 3600                       # s
  work: 5000                           # HS23 seconds of a job
"""
"""The scenario that the form begins with."""

POLICIES: Mapping[str, str] = {
    "pilotage": "as your federation is set",
    "early": "each job stays at its first queue, as PanDA published it",
    "sooner": "inputs also move if they arrive before jobs would start",
    "bound": "jobs stay at their first queue",
    "undeclared": "declared slots do not count",
    "random": "any queue that fits",
    "race": "the first pilot of three queues",
    "delayed": "a pilot beside the input, after five minutes any",
    "elastic": "pilots borrow jobs that they end sooner",
    "leaving": "elastic, and idle pilots end after 30 s",
    "late": "jobs belong to no queue",
    "unguarded": "no guard against black holes",
}
"""Policies that the form suggests, with what they do. A scenario may have others."""

Word = Annotated[str, Field(max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]


class SimulateForm(BaseModel):
    """The work to simulate, and two policies for it."""

    work: Literal["recorded", "day", "scenario"] = "scenario"
    day: Annotated[str, Field(pattern=r"^(yesterday|today|\d{4}-\d\d-\d\d)$")] = "yesterday"
    hours: Annotated[float, Field(ge=0.1, le=168, allow_inf_nan=False)] = 24
    scenario: Annotated[str, Field(max_length=50_000)] = EXAMPLE
    first: Word = "pilotage"
    second: Word = "early"
    seeds: Annotated[int, Field(ge=1, le=10)] = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateModel:
    """The form, and the person's last simulation. ``is_open``: its details are in sight."""

    form: SimulateForm
    is_open: bool
    policies: Mapping[str, str]
    days: Sequence[str]
    run: StoredSimulation | None
    pictures: Sequence[Markup]
    fault: str = ""


def simulate(visit: Visit) -> Page:
    """Show the form, filled in from the address, and the pictures of the last simulation."""
    visit.for_operators("simulate")
    return _page(visit, visit.query(SimulateForm))


def _page(visit: Visit, form: SimulateForm, fault: str = "") -> Page:
    run = last_simulation(visit.store, visit.caller.identity.key, visit.now)
    # Our own program draws these pictures, and escapes the words in them.
    pictures = [Markup(picture) for picture in run.result.pictures if picture] if run else []
    return Page(
        template="simulate.html",
        title="Simulate",
        section="Simulate",
        model=SimulateModel(
            form=form,
            is_open=bool(fault) or form.work != "scenario" or form.scenario != EXAMPLE,
            policies=POLICIES,
            days=_days(visit, form),
            run=run,
            pictures=pictures,
            fault=fault,
        ),
        json="/simulation" if run else "",
        command=command(
            *("simulate", *([] if form.work == "day" else [SCENARIO])),
            day=form.day if form.work == "day" else None,
            policy=[form.first, form.second],
            seeds=form.seeds,
        ),
        again=3 if run and run.ended is None else 0,
        status=422 if fault else 200,
    )


def _days(visit: Visit, form: SimulateForm) -> list[str]:
    """Return the days to choose from: the last two, days with kept worlds, and the requested one."""
    return list(dict.fromkeys(["yesterday", "today", *worlds_by_day(visit), form.day]))


def _runs(visit: Visit) -> SimulationRuns:
    state = visit.request.app.state
    if not hasattr(state, "simulations"):
        state.simulations = SimulationRuns(visit.store, visit.runtime.clock)
    runs: SimulationRuns = state.simulations
    return runs


def start(visit: Visit) -> Page | Redirect:
    """Start a simulation in a separate process."""
    visit.for_operators("simulate")
    form = visit.sent(SimulateForm)
    files = {FEDERATION: write(without_options(visit.store.declared_federation()))}
    policies = [form.first, form.second]
    policy_options = [word for policy in dict.fromkeys(policies) for word in ("--policy", policy)]
    work = ["--day", form.day] if form.work == "day" else [SCENARIO]
    commands = [
        ["simulate", *work, *policy_options, *f"--seeds {form.seeds} --workers 1 --pictures .".split()]
    ]
    environment = {}
    if form.work != "scenario":
        # The recording reads this server as its caller may, beside a proxy that speaks TLS.
        if form.work == "recorded":
            commands.insert(0, ["record", SCENARIO, "--hours", f"{form.hours:g}"])
        host, port = visit.request.scope["server"]
        environment = {
            "PILOTAGE_URL": f"http://{f'[{host}]' if ':' in host else host}:{port}",
            "PILOTAGE_TOKEN": token_of_session(visit.request),
        }
    elif fault := _foreign(form.scenario):
        return _page(visit, form, fault)
    else:
        files[SCENARIO] = form.scenario
    try:
        _runs(visit).start(visit.caller.identity.key, policies, commands, files, environment)
    except NoRoom as full:
        return _page(visit, form, str(full))
    return Redirect(address="/simulate")


def _foreign(scenario: str) -> str:
    """Return why a scenario would read other files of this machine; nothing if it does not."""
    try:
        document: Any = text.parse(scenario)
    except BadDocument as bad:
        return f"scenario: {bad.faults[0].text}, line {bad.faults[0].line or 1}"
    if not isinstance(document, dict) or document.get("federation") != FEDERATION:
        return f"the scenario must say federation: {FEDERATION}, which is the federation in force"
    if document.get("swf"):
        return "a log of work (swf) is a file of its own: simulate it with the command line"
    return ""


ROUTES: Sequence[Route] = (view("/simulate", simulate), action("/simulate", start))
