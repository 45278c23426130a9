"""Simulate a federation under several policies, in virtual time."""

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pilotage.cli.errors import BadInput, CommandFailure
from pilotage.cli.terminal.output import Column, Json, console, echo, show, show_json
from pilotage.model.values.phrases import plural

if TYPE_CHECKING:
    from rich.progress import Progress

    from pilotage.simulation.policies import Policy
    from pilotage.simulation.replay import Replay
    from pilotage.simulation.trials import Estimate, Trial

app = typer.Typer()

SavedWorld = Annotated[
    Path | None,
    typer.Option(
        help="A saved world: where its waiting jobs would go under each policy. Nothing runs; a scenario "
        "besides lends its own policies."
    ),
]
Day = Annotated[
    str | None,
    typer.Option(
        metavar="DAY",
        help="The server's work of a day in place of a scenario: yesterday, today, or 2026-11-26 (UTC).",
    ),
]
Pictures = Annotated[Path | None, typer.Option(help="Write ratios.svg and runs.svg into this folder.")]


@app.command(
    epilog="Example: pilotage simulate scenario.yaml --policy pilotage --policy early --seeds 5\n\n"
    "Example: pilotage simulate --day yesterday --policy pilotage --policy early\n\n"
    "Example: pilotage simulate --replay world.yaml --policy pilotage --policy sooner\n\n"
    "The policy `reference` is the same federation without waits in batch systems and with free "
    "data; its faults stay."
)
def simulate(
    scenario: Annotated[
        Path | None, typer.Argument(help="The scenario: federation, behaviour of sites, work.")
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(help="A policy, may be given again; others are compared with the first."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Seeds, from 1 on.")] = 1,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, help="Processes that share the runs, at most one for each core; by default one for each."
        ),
    ] = None,
    replay: SavedWorld = None,
    day: Day = None,
    pictures: Pictures = None,
    json_output: Json = False,
) -> None:
    """Simulate work on a federation: the real steps in virtual time, without touching anything outside.

    The same scenario, policy and seed give the same run.
    """
    policies = list(dict.fromkeys(policy or ["pilotage"]))
    if day is not None and scenario is None and replay is None:
        _show(_of_day(day, policies, seeds, workers, pictures), json_output)
    elif day is None and scenario is not None and replay is None:
        _show(_run_trials(scenario, policies, seeds, workers, pictures), json_output)
    elif day is None and replay is not None and pictures is None and (seeds, workers) == (1, None):
        _replay(replay, scenario, policies, json_output)
    else:
        raise BadInput(
            "give a scenario, a day with --day, or a saved world with --replay; pictures, seeds and workers "
            "are not for saved worlds"
        )


def _of_day(
    day: str, policies: Sequence[str], seeds: int, workers: int | None, pictures: Path | None
) -> "list[Trial]":
    """Run the work that the server had on a day."""
    from tempfile import TemporaryDirectory

    from pilotage.cli.planning.recording import write_day

    with TemporaryDirectory(prefix="pilotage-day-") as folder:
        return _run_trials(write_day(day, Path(folder)), policies, seeds, workers, pictures)


def _run_trials(
    scenario: Path, policies: Sequence[str], seeds: int, workers: int | None, pictures: Path | None
) -> "list[Trial]":
    """Run a scenario in the requested number of processes, at most one per core, and draw the results."""
    if pictures is not None:
        _make(pictures)
    cores = len(os.sched_getaffinity(0))
    trials = _run(scenario, policies, seeds, min(workers or cores, cores))
    if pictures is not None:
        _draw(trials, pictures)
    return trials


def _run(scenario: Path, policies: Sequence[str], seeds: int, workers: int) -> "list[Trial]":
    from pilotage.simulation.parallel import trials
    from pilotage.simulation.policies import UnknownPolicy, policy_of
    from pilotage.simulation.reading import read
    from pilotage.simulation.swf import too_wide
    from pilotage.simulation.trials import TrialFailed

    case = read(scenario)
    try:
        for name in policies:
            policy_of(name, case.scenario.policies)
        if case.scenario.swf and (wide := too_wide(case.log, case.scenario.swf)):
            warning = f"{wide} of the {plural(len(case.log), 'job')} that ran are wider than most_cores"
            echo(
                f"{case.scenario.swf.path}: {warning} ({case.scenario.swf.most_cores}), and left out",
                err=True,
            )
        with _quiet(), _bar(len(policies) * seeds) as bar:
            return trials(case, policies, range(1, seeds + 1), workers, lambda: bar.advance(bar.task_ids[0]))
    except UnknownPolicy as error:
        raise BadInput(str(error)) from error
    except TrialFailed as error:
        raise CommandFailure(str(error)) from error


@contextmanager
def _bar(runs: int) -> "Iterator[Progress]":
    """Show on a terminal how many runs are done, and the time left."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TimeRemainingColumn

    out = console(stderr=True)
    columns = (SpinnerColumn(), BarColumn(bar_width=24), MofNCompleteColumn(), "runs", TimeRemainingColumn())
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as progress:
        progress.add_task("", total=runs)
        yield progress


def _make(folder: Path) -> None:
    """Make the folder for pictures before the runs, which may take hours."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"{folder} cannot be made: {error.strerror}") from error


def _draw(trials: "Sequence[Trial]", folder: Path) -> None:
    from pilotage.simulation.pictures import ratios, runs
    from pilotage.simulation.trials import compared

    try:
        (folder / "ratios.svg").write_text(ratios(compared(trials)))
        (folder / "runs.svg").write_text(runs(trials))
    except OSError as error:
        raise BadInput(f"{folder} cannot be written: {error.strerror}") from error


def _replay(path: Path, scenario: Path | None, names: Sequence[str], json_output: bool) -> None:
    from pilotage.federation.documents import read
    from pilotage.federation.faults import BadDocument
    from pilotage.model.documents.serialization import to_document
    from pilotage.model.documents.world import World
    from pilotage.simulation.replay import replay

    policies = _replayable(scenario, names)
    world = read(World, path)
    try:
        replays = {name: replay(world, policy) for name, policy in policies.items()}
    except (ValueError, BadDocument) as error:
        raise BadInput(str(error)) from error
    if json_output:
        show_json({name: to_document(result) for name, result in replays.items()})
        return
    _show_replays(replays)
    if later_policies := ", ".join(name for name, policy in policies.items() if policy.shows_afterwards):
        echo(f"{later_policies}: differs only in what follows a decision, which a scenario shows", err=True)


def _replayable(scenario: Path | None, names: Sequence[str]) -> "dict[str, Policy]":
    """Return the named policies, including a scenario's own, that can broker a saved world."""
    from pilotage.simulation.policies import KNOWN, UnknownPolicy, policy_of
    from pilotage.simulation.reading import read

    scenario_policies = read(scenario).scenario.policies if scenario is not None else {}
    policies = {
        name: policy for name, policy in {**KNOWN, **scenario_policies}.items() if policy.is_of_the_brokerage
    }
    if unknown := [name for name in names if name not in policies]:
        try:
            policy_of(unknown[0], scenario_policies)
        except UnknownPolicy as error:
            raise BadInput(str(error)) from error
        raise BadInput(
            f"no world is brokered under the policy {unknown[0]!r}; there are {', '.join(policies)}"
        )
    return {name: policies[name] for name in names}


def _show_replays(replays: "Mapping[str, Replay]") -> None:
    queues = sorted({queue for replay in replays.values() for queue in replay.queues})
    rows: list[tuple[object, ...]] = [
        (queue, *(replay.queues.get(queue, 0) for replay in replays.values())) for queue in queues
    ]
    rows.append(("no queue", *(replay.left for replay in replays.values())))
    rows.append(("elsewhere than now", *(replay.elsewhere for replay in replays.values())))
    rows.append(("GB to move", *(f"{replay.to_move:.4g}" for replay in replays.values())))
    show((Column("jobs at"), *(Column(name, number=True) for name in replays)), rows, "No job waits")


@contextmanager
def _quiet() -> Iterator[None]:
    """Log nothing: the faults of virtual sites are part of the simulation, and need no mending."""
    logger = logging.getLogger("pilotage")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def _show(trials: "Sequence[Trial]", json_output: bool) -> None:
    from pilotage.model.documents.serialization import to_document
    from pilotage.simulation.trials import NAMES, compared

    estimates = compared(trials)
    if json_output:
        compared_document = {
            policy: {name: to_document(estimate) for name, estimate in by_name.items()}
            for policy, by_name in estimates.items()
        }
        show_json({"runs": [to_document(trial) for trial in trials], "compared": compared_document})
        return
    policies = (Column(name, essential=not at, number=True) for at, name in enumerate(estimates))
    columns = (Column("metric"), *policies)
    show(columns, _rows(NAMES, estimates), "No run")
    for trial in trials:
        if trial.unended.states:
            echo(f"{trial.policy}, seed {trial.seed}: jobs left at the limit: {trial.unended}", err=True)
    lives = sum(trial.metrics.jobs for trial in trials)
    seconds = sum(trial.seconds for trial in trials)
    echo(f"{plural(len(trials), 'run')}, {plural(lives, 'job')} in {seconds:.0f} s", err=True)


def _rows(names: Iterable[str], estimates: "Mapping[str, Mapping[str, Estimate]]") -> Iterable[Sequence[Any]]:
    from pilotage.simulation.metrics import label

    for name in names:
        yield (label(name), *(_cell(by_name[name]) for by_name in estimates.values()))


def _cell(estimate: "Estimate") -> str:
    """Return a mean, and its ratio to the first policy: ``5200 ×0.81 (0.75–0.88)``; ``–`` without any
    value."""
    if estimate.mean is None:
        return "–"
    from pilotage.simulation.metrics import number

    text = number(estimate.mean)
    if estimate.ratio is not None:
        text += f" ×{_ratio(estimate.ratio)}"
    if estimate.low is not None and estimate.high is not None:
        text += f" ({_ratio(estimate.low)}–{_ratio(estimate.high)})"
    return text


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"
