"""Trials: a scenario under several policies with several seeds, and the differences seed by seed."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from math import exp, log, sqrt
from statistics import fmean, stdev

from pilotage.model.values.phrases import plural
from pilotage.simulation.metrics import Metrics, metrics
from pilotage.simulation.outcomes import Unended, unended
from pilotage.simulation.payloads import SimulatedTask
from pilotage.simulation.policies import REFERENCE_RUN, changed, policy_of
from pilotage.simulation.reading import Case
from pilotage.simulation.scenario import LinkBehaviour, Scenario, SiteBehaviour
from pilotage.simulation.simulation import Simulation
from pilotage.simulation.submissions import submissions


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One run: policy, seed, metrics, unended jobs, and the seconds that it took on this machine."""

    policy: str
    seed: int
    metrics: Metrics
    unended: Unended
    seconds: float


class TrialFailed(Exception):
    """A run failed. The message names the policy and the seed."""


def trial(case: Case, name: str, seed: int) -> Trial:
    """Run a policy with a seed. Raises ``TrialFailed`` for any error."""
    try:
        return run(case, name, seed, submissions(case, seed))
    except Exception as error:
        raise TrialFailed(f"policy {name} with seed {seed}: {type(error).__name__}: {error}") from error


def run(case: Case, name: str, seed: int, work: Sequence[SimulatedTask]) -> Trial:
    """Simulate one policy with one seed until all work has ended, or until the scenario's limit."""
    began = time.perf_counter()
    policy = policy_of(name, case.scenario.policies)
    scenario = _ideal(case.scenario) if name == REFERENCE_RUN else case.scenario
    federation = changed(case.federation, policy)
    simulation = Simulation(federation, scenario, seed, policy)
    try:
        refused: list[str] = []

        def arrive(submission: SimulatedTask) -> None:
            for _, faults in simulation.submit(submission).refused:
                refused.append("; ".join(f"{place}: {message}" for place, message in faults))

        for submission in work:
            simulation.clock.after(submission.at, partial(arrive, submission))
        simulation.run(scenario.limit, until=lambda: simulation.has_ended(len(work) - len(refused)))
        if refused:
            raise ValueError(f"refused {plural(len(refused), 'task')}, the first because of {refused[0]}")
        results, rests = metrics(simulation, scenario), unended(simulation)
    finally:
        simulation.close()
    seconds = time.perf_counter() - began
    return Trial(policy=name, seed=seed, metrics=results, unended=rests, seconds=seconds)


def _ideal(scenario: Scenario) -> Scenario:
    """Return the scenario without batch waits, and with links that neither limit nor fail.

    The rest of the sites stays. Waits and links do not depend on binding. No policy can recover their cost.
    """

    def ideal(site: SiteBehaviour) -> SiteBehaviour:
        return replace(site, wait=0, wait_spread=0, busy=())

    return replace(
        scenario,
        default_site=ideal(scenario.default_site),
        sites={name: ideal(site) for name, site in scenario.sites.items()},
        links=LinkBehaviour(throughput=1e6, factor=1000),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean over the seeds that have a value.

    ``ratio`` is the geometric mean of the ratios to the first policy, seed by seed, with its 95 % interval.
    There is no mean without a value, no ratio if a value is 0, and no interval from one seed.
    """

    mean: float | None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None


NAMES = tuple(item.name for item in fields(Metrics))


def compared(trials: Sequence[Trial]) -> Mapping[str, Mapping[str, Estimate]]:
    """Return estimates by policy and metric. Compare all policies with the first one."""
    by_policy: dict[str, dict[int, Metrics]] = {}
    for trial in trials:
        by_policy.setdefault(trial.policy, {})[trial.seed] = trial.metrics
    first = next(iter(by_policy.values()), {})
    return {
        policy: {name: _estimate(name, runs, None if runs is first else first) for name in NAMES}
        for policy, runs in by_policy.items()
    }


def _estimate(name: str, runs: Mapping[int, Metrics], first: Mapping[int, Metrics] | None) -> Estimate:
    values = _values(name, runs)
    mean = fmean(values.values()) if values else None
    firsts = _values(name, first or {})
    pairs = [(value, firsts[seed]) for seed, value in values.items() if seed in firsts]
    if not pairs or any(value <= 0 for pair in pairs for value in pair):
        return Estimate(mean=mean)
    logs = [log(value / first_value) for value, first_value in pairs]
    middle = fmean(logs)
    if len(logs) < 2:
        return Estimate(mean=mean, ratio=exp(middle))
    width = _student(len(logs) - 1) * stdev(logs) / sqrt(len(logs))
    return Estimate(mean=mean, ratio=exp(middle), low=exp(middle - width), high=exp(middle + width))


def _values(name: str, runs: Mapping[int, Metrics]) -> dict[int, float]:
    """Return a metric by seed, for seeds that have it.

    Without a short job, for example, there is no wait of short jobs.
    """
    values = {seed: getattr(metrics, name) for seed, metrics in runs.items()}
    return {seed: value for seed, value in values.items() if value is not None}


_STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


def _student(freedom: int) -> float:
    """Return the 97.5 % point of Student's distribution.

    For more than 10 degrees of freedom, return the wider one of 10.
    """
    return _STUDENT[min(freedom, len(_STUDENT)) - 1]
