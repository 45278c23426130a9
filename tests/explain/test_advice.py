"""What explanations advise works: with the field set as they say, the check passes at that queue."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from pilotage.explain.advice import find_advice
from pilotage.explain.analysis import explain
from pilotage.explain.rendering import lines
from pilotage.model.documents.decision import Choice, Refusal
from pilotage.model.records.federation import BrokerageConstants, Federation
from pilotage.model.records.work import File, JobKind, Measured, MergeSpec, Task, TaskSpec
from pilotage.testing import federation, jobs, queue, task, world
from pilotage.testing.choices import only_choice
from tests.properties import examples


def megabytes(most: int) -> st.SearchStrategy[float]:
    return st.one_of(st.integers(0, most).map(float), st.floats(0, most, allow_subnormal=False))


specs = st.fixed_dictionaries(
    {
        "cores": st.sampled_from([0, 1, 1, 3, 4, 8]),
        "max_cores": st.sampled_from([0, 0, 2, 16]),
        "ram": megabytes(8000),
        "base_ram": st.sampled_from([0.0, 500.0, 333.3]),
        "ram_unit": st.sampled_from(["MB", "MBPerCore"]),
        "cpu_time": st.sampled_from([0.0, 0.013, 7.0, 1200.0]),
        "cpu_efficiency": st.sampled_from([0.9, 1.0, 0.37]),
        "base_time": st.sampled_from([0.0, 60.0, 5000.0]),
        "walltime": megabytes(200_000),
        "events_per_job": st.integers(1, 5000),
        "min_events": st.sampled_from([0, 0, 1]),
        "work_disk": megabytes(30_000),
        "out_disk": st.sampled_from([0.0, 0.05, 1.0, 70.0]),
    }
)
houses = st.builds(
    lambda compensation, **limits: replace(
        federation([queue(**limits)]), brokerage=BrokerageConstants(memory_compensation=compensation)
    ),
    st.sampled_from([0.9, 1.0, 0.77]),
    cores=st.sampled_from([0, 1, 2, 8]),
    max_memory=megabytes(16_000),
    min_memory=st.sampled_from([0, 100, 3000.5]),
    max_walltime=megabytes(150_000),
    min_walltime=st.sampled_from([0, 600, 7201]),
    max_workdir=megabytes(20_000),
    core_power=st.sampled_from([10.0, 12.7]),
    direct_access=st.booleans(),
)
measured = st.one_of(
    st.none(),
    st.builds(Measured, finished=st.just(5), memory=st.just(9000.0), out_disk=st.sampled_from([None, 3.0])),
    st.builds(Measured, finished=st.just(5), cpu_time=st.just(90.0), work_disk=st.just(9000.0)),
)


def choice_of(house: Federation, asked: Task, kind: JobKind, size: int) -> Choice:
    inputs = ("a",) if size else ()
    files = (File(name="a", size=size, checksum=""),) if size else ()
    return only_choice(world(house, asked, jobs=jobs(asked, kind=kind, inputs=inputs), files=files))


def with_field(spec: TaskSpec, field: str, value: Any) -> TaskSpec:
    if not field.startswith("merge."):
        return replace(spec, **{field: value})
    assert spec.merge is not None
    return replace(spec, merge=replace(spec.merge, **{field.removeprefix("merge."): value}))


def own_refusals(choice: Choice) -> dict[tuple[str, str], Refusal]:
    return {(item.rule, item.name): item for item in choice.refusals if item.asked}


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(4))
@given(
    house=houses,
    spec=specs,
    kind=st.sampled_from(["normal", "normal", "scout", "merge"]),
    merge=st.sampled_from([None, {}, {"ram": 7000.0}, {"walltime": 90_000.0}]),
    found=measured,
    size=st.sampled_from([0, 1, 3_000_000_001]),
)
def test_the_advised_change_makes_the_check_pass(
    house: Federation,
    spec: dict[str, Any],
    kind: JobKind,
    merge: dict[str, Any] | None,
    found: Measured | None,
    size: int,
) -> None:
    assume(kind != "merge" or merge is not None)
    of_merge = None if merge is None else MergeSpec(command=("m",), outputs=("all",), **merge)
    asked = replace(task(merge=of_merge, **spec), measured=found)
    refusals = own_refusals(choice_of(house, asked, kind, size))
    for key, refusal in refusals.items():
        advice = find_advice(refusal, 0)
        event(f"{key[1]}: {advice[0] if advice else None}")
        if advice:
            changed = replace(asked, spec=with_field(asked.spec, *advice))
            # Without scouts the same work is done by normal jobs.
            then: JobKind = "normal" if advice[0] == "scouts" else kind
            assert key not in own_refusals(choice_of(house, changed, then, size)), advice


def action(limits: dict[str, Any], **spec: Any) -> tuple[str, str]:
    """What is advised to a task at a queue, and what it is told of its need."""
    text = lines(explain(only_choice(world(federation([queue(**limits)]), task(**spec)))))
    return text[1].rpartition("you: ")[2], text[1]


def test_advice_on_memory_is_in_the_users_own_unit_and_shows_the_users_own_number() -> None:
    limits = {"max_memory": 4000, "cores": 8}
    advice, told = action(limits, cores=4, ram=2000)
    assert advice == "ask for ram: 1000"
    assert "8000 MB asked, 7200 counted, best 4000" in told
    assert action(limits, cores=4, ram=8000, ram_unit="MB")[0] == "ask for ram: 4000"
    assert action({"max_memory": 900}, ram=2000)[0] == "ask for ram: 900", "the site would end it beyond"


@pytest.mark.parametrize(
    ("limits", "spec", "advice"),
    [
        ({"cores": 2}, {"cores": 4}, "ask for cores: 2"),
        ({"cores": 8}, {"cores": 1}, "ask for cores: 8"),
        ({"max_walltime": 90_000}, {"walltime": 100_000}, "ask for walltime: 89999"),
        ({"max_walltime": 90_000}, {"cpu_time": 9000, "events_per_job": 200}, "ask for events_per_job: 89"),
        ({"max_walltime": 90_000}, {"cpu_time": 2_000_000}, "ask for cpu_time: 809999"),
        ({"max_workdir": 2000}, {"work_disk": 3000, "walltime": 1}, "ask for work_disk: 1499"),
        ({"max_workdir": 400}, {"work_disk": 3000, "walltime": 1}, "use less disk in each job"),
    ],
)
def test_advice_names_the_field_that_a_user_would_change(
    limits: dict[str, Any], spec: dict[str, Any], advice: str
) -> None:
    assert action(limits, **spec)[0] == advice


def test_of_memory_that_was_measured_no_field_is_advised() -> None:
    asked = replace(task(ram=500), measured=Measured(finished=5, memory=4000.0))
    choice = only_choice(world(federation([queue(max_memory=1000)]), asked))
    assert lines(explain(choice))[1].endswith("you: use less memory in each job")
