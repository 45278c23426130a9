"""B30 to B38 on random worlds, next to the published formulas in plain Python, written from their text."""

import random
from collections.abc import Mapping
from typing import Any

import pytest

from pilotage.model.documents.world import JobCount, LinkCount, World
from pilotage.model.records.federation import Federation, Link, Queue
from pilotage.model.records.states import JobState
from pilotage.model.records.work import File, Replica
from pilotage.testing import NOW, federation, jobs, queue, queue_report, task, world
from pilotage.testing.choices import decide

HOUR = 3600.0
SITES = ("HOME", "EAST", "WEST")
STATES = ("defined", "assigned", "activated", "starting", "running")
STEPS = ((200, 2.0), (100, 1.9), (75, 1.8), (50, 1.6), (20, 1.5), (10, 1.3), (2, 1.2), (1, 1.1))


def _drawn(seed: int) -> World:
    """A task of some jobs, whose files lie here and there, before queues in any condition."""
    dice = random.Random(seed)
    queues, reports = [], []
    for number in range(dice.randint(3, 8)):
        own = dice.random() < 0.7
        attributes: dict[str, Any] = {} if own else {"computing_element": None}
        if dice.random() < 0.4:
            attributes["num_slots"] = dice.choice((0, 3, 40))
        pilots = dice.choice((1, 7, 300))
        name = f"Q{number}"
        queues.append(
            queue(name, dice.choice(SITES), max_pilots=pilots, slots=dice.choice((1, 4)), **attributes)
        )
        silence = dice.choice((None, 60.0, 3 * HOUR, 4 * HOUR)) if own else 60.0
        last = None if silence is None else NOW - silence
        reports.append(queue_report(name, last_pilot=last, batch_workers=dice.choice((0, 5, 90))))
    asked = task(nucleus="HOME")
    names = [f"in.{number}" for number in range(dice.randint(0, 30))]
    reading = [
        jobs(asked, first=number, inputs=tuple(dice.sample(names, min(len(names), dice.randint(1, 4)))))[0]
        for number in range(1, dice.randint(2, 60))
    ]
    used = {name for job in reading for name in job.inputs}
    return world(
        federation(queues, links=_links(dice, _present(queues))),
        asked,
        jobs=reading,
        files=(File(name=name, size=dice.randint(1, 10**9), checksum="") for name in sorted(used)),
        replicas=(
            Replica(file=name, storage=f"{site}-DISK")
            for name in sorted(used)
            for site in dice.sample(_present(queues), dice.randint(1, len(_present(queues))))
        ),
        job_counts=(
            JobCount(queue=one.name, share=share, state=JobState(state), jobs=dice.choice((0, 1, 6, 15)))
            for one in queues
            for share in ("default", "other")
            for state in STATES
        ),
        link_counts=(
            LinkCount(source=f"{site}-DISK", destination="HOME-DISK", files=dice.randint(0, 150), uploads=0)
            for site in _present(queues)
            if site != "HOME"
        ),
        queue_reports=reports,
    )


def _present(queues: list[Queue]) -> list[str]:
    return sorted({one.site for one in queues} | {"HOME"})


def _links(dice: random.Random, sites: list[str]) -> list[Link]:
    windows: dict[str, Any] = {
        name: dice.choice((None, 0.5, 15.0, 80.0, 250.0))
        for name in ("throughput_1h", "throughput_1d", "throughput_1w")
    }
    closeness = dice.choice((None, 0, 4, 11))
    return [
        Link(source=site, destination="HOME", closeness=closeness, **windows)
        for site in sites
        if site == "EAST"
    ]


def _running_slots(one: Queue, count: Mapping[str, float], last_pilot: float | None, workers: int) -> float:
    """B30."""
    found = [count["running"]]
    if count["running"] < 20 and workers > count["running"]:
        found.append(min(workers, 20))
    if one.num_slots is not None:
        found.append(one.num_slots if one.num_slots > 0 else count["starting"])
    elif one.computing_element is not None:
        declared = one.computing_element.max_pilots * one.computing_element.pilot_slots
        if last_pilot is None:
            found.append(min(declared, 20))
        elif NOW - last_pilot <= 3 * HOUR:
            found.append(declared)
    return max(found)


def _network(site: str, of: World) -> float:
    """B34, B35."""
    if site == "HOME":
        return 2.5
    queued = sum(row.files for row in of.link_counts if row.source == f"{site}-DISK")
    rates: list[float | None] = [None]
    closeness = 7.7
    for link in of.federation.links:
        if link.source == site:
            rates = [link.throughput_1h, link.throughput_1d, link.throughput_1w]
            closeness = 7.7 if link.closeness is None else link.closeness
    rate = next((one for one in rates if one is not None), None)
    weight = 1 + (11 - closeness) / 11 if rate is None else next((w for n, w in STEPS if rate > n), 1.0)
    return 0.5 * (max(0.0, 2 - queued / 150) + weight)


def _data(site: str, of: World) -> float:
    """B33, over the files of all jobs."""
    held = {row.file for row in of.replicas if row.storage == f"{site}-DISK"}
    if not of.files:
        return 1.0
    total = sum(one.size for one in of.files)
    available = sum(one.size for one in of.files if one.name in held)
    missing = sum(one.name not in held for one in of.files)
    return (available + total) / (total * (missing / 100 + 1))


def _load(slots: float, count: Mapping[str, float], local: bool) -> float:
    """B31, B32."""
    assigned = 0.0 if local else count["assigned"]
    if count["activated"]:
        many = max(1.0, min(2.0, assigned / count["activated"]))
    else:
        many = 2.0 if assigned else 1.0
    waiting = count["activated"] + assigned + count["starting"] + count["defined"]
    return (slots + 1) / ((waiting + 10) * many)


def _waiting(count: Mapping[str, float], local: bool) -> float:
    """B36: jobs that wait there, by the second of its refusals; the first asks no more."""
    assigned = 0.0 if local else count["assigned"]
    return count["defined"] + count["activated"] + count["starting"] + assigned


def _is_local(inputs: tuple[str, ...], site: str, of: World) -> bool:
    held = {row.file for row in of.replicas if row.storage == f"{site}-DISK"}
    return held.issuperset(inputs)


def _of(house: Federation) -> dict[str, Queue]:
    return {one.name: one for one in house.queues}


@pytest.mark.parametrize("seed", range(60))
def test_b30_to_b38_weights_and_places_are_those_of_the_formulas(seed: int) -> None:
    state = _drawn(seed)
    queues, reports = _of(state.federation), {one.queue: one for one in state.queue_reports}
    counts = {name: dict.fromkeys(STATES, 0.0) for name in queues}
    for row in state.job_counts:
        if row.share == "default":
            counts[row.queue][str(row.state)] += row.jobs
    slots = {
        name: _running_slots(one, counts[name], reports[name].last_pilot, reports[name].batch_workers)
        for name, one in queues.items()
    }
    limits = {name: max(20.0, 2 * slots[name]) for name in queues}
    inputs = {job.id: job.inputs for job in state.jobs}
    decision = decide(state)
    assert decision.choices
    for choice in decision.choices:
        local = {name: _is_local(inputs[choice.jobs[0]], one.site, state) for name, one in queues.items()}
        crowded = {name for name in queues if _waiting(counts[name], local[name]) > limits[name]}
        assert {name for one in choice.refusals for name in one.queues} == crowded
        assert {one.rule for one in choice.refusals} <= {"B36"}
        found = dict(zip(choice.candidates.queues, choice.candidates.weights, strict=True))
        assert set(found) == set(queues) - crowded
        rest = {
            name: _network(one.site, state) * (_data(one.site, state) if inputs[choice.jobs[0]] else 1.0)
            for name, one in queues.items()
        }
        for name, weight in found.items():
            expected = _load(slots[name], counts[name], local[name]) * rest[name]
            assert weight == pytest.approx(expected), (seed, name)
        assert list(found.values()) == sorted(found.values(), reverse=True)
        _place(dict(choice.placed), len(choice.jobs) + choice.left, found, counts, slots, limits, local, rest)


def _place(
    placed: dict[str, int],
    jobs_: int,
    candidates: Mapping[str, float],
    counts: dict[str, dict[str, float]],
    slots: Mapping[str, float],
    limits: Mapping[str, float],
    local: Mapping[str, bool],
    rest: Mapping[str, float],
) -> None:
    """B38: each job takes the queue of the highest weight with room; of equal ones any."""
    left = dict(placed)
    for _ in range(jobs_):
        open_ = [name for name in candidates if _waiting(counts[name], local[name]) + 1 <= limits[name]]
        if not open_:
            break
        weights = {name: _load(slots[name], counts[name], local[name]) * rest[name] for name in open_}
        best = max(weights.values())
        equal = [name for name in open_ if weights[name] == pytest.approx(best, rel=1e-12)]
        taker = next((name for name in equal if left.get(name, 0) > 0), None)
        assert taker is not None, f"{equal} should take one more job; placed were {placed}"
        left[taker] -= 1
        counts[taker]["activated" if local[taker] else "assigned"] += 1
    assert not any(left.values()), f"{left} are placed beyond what the formulas give"
