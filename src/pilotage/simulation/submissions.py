"""The work of a scenario: random, from a log, or given. The same seed gives the same work."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pilotage.model.records.federation import Federation
from pilotage.model.records.spec import MOST_JOBS
from pilotage.model.records.work import InputFile, TaskSpec
from pilotage.model.values.identity import Identity
from pilotage.simulation.payloads import SimulatedTask
from pilotage.simulation.reading import Case
from pilotage.simulation.scenario import SHORT, Arrival, GeneratedWork, SwfWork
from pilotage.simulation.swf import LoggedJob, arrivals, used_jobs


def submissions(case: Case, seed: int) -> list[SimulatedTask]:
    """Return the tasks of a scenario in order of arrival, with the truth about their work."""
    scenario, dice = case.scenario, random.Random(f"work of {seed}")
    if scenario.generated is not None:
        tasks = _generated(scenario.generated, case.federation, dice)
    elif scenario.swf is not None:
        tasks = _logged(scenario.swf, case.log, case.federation)
    else:
        return sorted((_declared(arrival, dice) for arrival in scenario.tasks), key=lambda task: task.at)
    estimated = (_with_estimate(task, scenario.estimate_spread, dice) for task in tasks)
    return sorted(estimated, key=lambda task: task.at)


def _declared(arrival: Arrival, dice: random.Random) -> SimulatedTask:
    return SimulatedTask(
        at=arrival.at,
        owner=Identity(name=arrival.user, vo=arrival.vo),
        spec=arrival.task,
        work=_works(arrival.work, arrival.job_spread, arrival.task.planned_jobs, dice),
        output_size=int(arrival.output_size * 1e6),
    )


def _with_estimate(submission: SimulatedTask, spread: float, dice: random.Random) -> SimulatedTask:
    """Return the same task with an estimate of its work: the truth times a random factor."""
    typical = sorted(submission.work)[len(submission.work) // 2]
    spec = replace(submission.spec, cpu_time=typical * dice.lognormvariate(0, spread), cpu_efficiency=1.0)
    return replace(submission, spec=spec)


def _works(median: float, spread: float, count: int, dice: random.Random) -> tuple[float, ...]:
    return tuple(median * dice.lognormvariate(0, spread) for _ in range(count))


def _generated(work: GeneratedWork, federation: Federation, dice: random.Random) -> Iterator[SimulatedTask]:
    storages = [storage.name for storage in federation.storages]
    parts = [user.part for user in work.users]
    for number in range(work.tasks):
        user = dice.choices(work.users, parts)[0]
        scale = SHORT if dice.random() < work.short else 1.0
        count = min(MOST_JOBS, max(1, round(work.jobs * scale * dice.lognormvariate(0, work.jobs_spread))))
        # Draw only where values can differ, so that older scenarios keep their work.
        cores = work.cores if work.multicore and dice.random() < work.multicore else 1
        holders = tuple(dice.sample(storages, min(work.replicas, len(storages))))
        median = work.work * scale * dice.lognormvariate(0, work.work_spread)
        yield SimulatedTask(
            at=dice.uniform(0, work.arrivals),
            owner=Identity(name=user.name, vo=user.vo),
            spec=replace(
                _spec(number, count, holders, work, user.share or federation.shares[0].name), cores=cores
            ),
            work=_works(median, work.job_spread, count, dice),
            output_size=int(work.output_size * 1e6),
        )


def _spec(number: int, count: int, holders: Sequence[str], work: GeneratedWork, share: str) -> TaskSpec:
    size = int(work.file_size * 1e6)
    files = tuple(
        InputFile(name=f"data/{number}/{at}", size=size, replicas=tuple(holders)) for at in range(count)
    )
    return TaskSpec(
        name=f"task-{number}",
        share=share,
        command=("run",),
        inputs=files if size else (),
        outputs=("out",) if work.output_size else (),
        jobs=1 if size else count,
        nucleus=work.nucleus,
        scouts=work.scouts,
        io_intensity=work.io_intensity,
    )


def _logged(work: SwfWork, log: Sequence[LoggedJob], federation: Federation) -> Iterator[SimulatedTask]:
    share = federation.shares[0].name
    for job, at in zip(used_jobs(log, work), arrivals(log, work), strict=True):
        yield SimulatedTask(
            at=at,
            owner=Identity(name=f"user-{job.user}", vo=work.vo),
            spec=TaskSpec(name=f"job-{job.number}", share=share, command=("run",), cores=job.cores, scouts=0),
            work=(job.run_time * job.cores * work.core_power,),
        )
