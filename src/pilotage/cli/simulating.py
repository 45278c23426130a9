"""Simulate a federation under several policies, in virtual time."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .errors import BadInput
from .output import Column, Json, console, echo, plural, show, show_json

if TYPE_CHECKING:
    from pilotage.simulation.trials import Estimate, Trial

app = typer.Typer()


@app.command(
    epilog="Example: pilotage simulate scenario.yaml --policy pilotage --policy early --seeds 3. The policy "
    "`reference` is the same federation without waits in batch systems, without faults, and with free data."
)
def simulate(
    scenario: Annotated[Path, typer.Argument(help="The scenario: federation, behaviour of sites, work.")],
    policy: Annotated[
        list[str] | None,
        typer.Option(help="A policy, may be given again; others are compared with the first."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Seeds, from 1 on.")] = 1,
    json_output: Json = False,
) -> None:
    """Simulate work over a federation: the real steps in virtual time, nothing of the outside is touched.

    The same scenario, policy and seed give the same run.
    """
    from pilotage.simulation.reading import read
    from pilotage.simulation.trials import UnknownPolicy, policy_of, trials

    case = read(scenario)
    policies = list(dict.fromkeys(policy or ["pilotage"]))
    found: list[Trial] = []
    try:
        for name in policies:
            policy_of(case.scenario, name)
    except UnknownPolicy as error:
        raise BadInput(str(error)) from error
    with _quiet(), console(stderr=True).status("simulating") as status:
        for trial in trials(case, policies, range(1, seeds + 1)):
            found.append(trial)
            status.update(f"simulating: {len(found)} of {plural(len(policies) * seeds, 'run')} done")
    _show(found, json_output)


@contextmanager
def _quiet() -> Iterator[None]:
    """Log nothing: faults of virtual sites are what is simulated, and nobody has to mend them."""
    logger = logging.getLogger("pilotage")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def _show(found: "Sequence[Trial]", json_output: bool) -> None:
    from pilotage.model.documents import to_document
    from pilotage.simulation.trials import NAMES, compared

    estimates = compared(found)
    if json_output:
        compared_document = {
            policy: {name: to_document(one) for name, one in by_name.items()}
            for policy, by_name in estimates.items()
        }
        show_json({"runs": [to_document(trial) for trial in found], "compared": compared_document})
        return
    policies = list(estimates)
    columns = (Column("metric"), *(Column(name, number=True) for name in policies))
    show(columns, _rows(NAMES, estimates), "No run")
    lives = sum(trial.metrics.jobs for trial in found)
    seconds = sum(trial.seconds for trial in found)
    echo(f"{plural(len(found), 'run')}, {plural(lives, 'job')} in {seconds:.0f} s", err=True)


def _rows(names: Iterable[str], estimates: "Mapping[str, Mapping[str, Estimate]]") -> Iterable[Sequence[Any]]:
    for name in names:
        yield (name.replace("_", " "), *(_cell(by_name[name]) for by_name in estimates.values()))


def _cell(estimate: "Estimate") -> str:
    """A mean, and its ratio to the first policy with the interval: ``5200 ×0.81 (0.75–0.88)``."""
    text = f"{estimate.mean:.4g}"
    if estimate.ratio is not None:
        text += f" ×{estimate.ratio:.2f}"
    if estimate.low is not None:
        text += f" ({estimate.low:.2f}–{estimate.high:.2f})"
    return text
