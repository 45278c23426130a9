"""A task with parameters: one job a row, whose texts and variables have the row's values."""

import json
from dataclasses import replace
from typing import Any

import pytest

from pilotage.adapters.computing.forwarding.forwarded_attempt import Handover
from pilotage.agent.payload.attempt import Attempt
from pilotage.agent.wire import JobOrder, MatchAnswer, Work
from pilotage.flow.calls.pilots.match import specification
from pilotage.flow.calls.work import retry
from pilotage.model.documents.serialization import from_json, to_json
from pilotage.model.documents.world import Output, Report
from pilotage.model.records.work import InputFile, InputPattern, MergeSpec, TaskSpec
from pilotage.model.values.parameter_bounds import MOST_ROWS
from pilotage.store.jobs.lists import JobPage

from .house import House, attempts

GRID = {"sample": ("a", "b"), "k": ("21", "31")}
ROWS = ({"sample": "a", "k": "21"}, {"sample": "b", "k": "31"})
SLASHED = tuple({"sample": f"a/{number}"} for number in range(15_999))
PAIRS = [("a", "21"), ("a", "31"), ("b", "21"), ("b", "31")]


def orders(answer: MatchAnswer) -> list[tuple[Work, JobOrder]]:
    return sorted(((work, one) for work in answer.works for one in work.jobs), key=lambda pair: pair[1].job)


def matched(house: House, **spec: Any) -> list[tuple[Work, JobOrder]]:
    """The jobs of a task as pilots get them, in order of their indexes."""
    house.task(**{"command": ("run", "{sample}"), **spec})
    house.take("broker")
    return orders(house.match(house.pilot(cores=1000)))


def refusals(house: House, **spec: Any) -> list[tuple[str, str]]:
    found = house.submit({"command": ("run",), **spec})
    assert not found.tasks
    return [fault for _, faults in found.refused for fault in faults]


def test_each_row_is_a_job_and_its_values_stand_in_all_texts(house: House) -> None:
    found = matched(
        house,
        parameters=GRID,
        command=("run", "--k={k}", "{sample}.{index}"),
        environment={"SAMPLE": "s-{sample}"},
        outputs=("{sample}-{k}.txt", "log-{index}/"),
        optional_outputs=("log-{index}/",),
    )
    assert len(found) == 4
    for index, ((work, order), (sample, k)) in enumerate(zip(found, PAIRS, strict=True)):
        assert work.command == ("run", f"--k={k}", f"{sample}.{index}")
        assert work.environment["SAMPLE"] == f"s-{sample}"
        assert work.outputs == (f"{sample}-{k}.txt", f"log-{index}/")
        assert work.optional_outputs == (f"log-{index}/",)
        assert order.environment["PILOTAGE_PARAMETER_sample"] == sample
        assert order.environment["PILOTAGE_PARAMETER_k"] == k
        assert order.environment["PILOTAGE_INDEX"] == str(index)
        assert order.environment["PILOTAGE_JOBS"] == "4"


def test_an_argument_is_the_value_as_it_is(house: House) -> None:
    odd = "a b;touch x $(id) `id` 'q' \"r\" * {k} }} \\ \n ü"
    ((work, _),) = matched(house, parameters=({"sample": odd, "k": "1"},), command=("run", "x={sample}"))
    assert work.command == ("run", f"x={odd}")


def test_doubled_braces_stay_single_ones(house: House) -> None:
    ((work, _),) = matched(
        house, parameters=ROWS[:1], command=("awk", "{{print $1}}", "${{HOME}}", '{{"a":{{"b":"{sample}"}}}}')
    )
    assert work.command == ("awk", "{print $1}", "${HOME}", '{"a":{"b":"a"}}')


def test_every_row_is_run_on_every_group_of_inputs(house: House) -> None:
    files = [InputFile(name=name, size=1, replicas=("north-disk",)) for name in ("f1", "f2", "f3")]
    task = house.task(parameters=ROWS, inputs=tuple(files), files_per_job=2, command=("run", "{sample}"))
    found = house.store.queries.jobs(task, None, 100)
    assert [job.parameters["sample"] for job in found] == ["a", "a", "b", "b"]
    assert [job.index for job in found] == [0, 1, 2, 3]
    details = [house.store.queries.job(job.id) for job in found]
    assert [one.parameters for one in details if one] == [dict(ROWS[n]) for n in (0, 0, 1, 1)]
    whole = house.task(parameters=ROWS, inputs=tuple(files), files_per_job=3, command=("run",))
    assert len(house.store.queries.jobs(whole, None, 100)) == 2


def test_outputs_say_whose_parameters_made_them(house: House) -> None:
    task = house.task(parameters=ROWS, command=("run",), outputs=("{sample}.txt",))
    house.take("broker")
    pilot = house.pilot()
    for (job, attempt), row in zip(attempts(house.match(pilot)), ROWS, strict=True):
        made = Output(name=f"{row['sample']}.txt", size=1, checksum="")
        house.tell(pilot, Report(job=job, attempt=attempt, state="done", outputs=(made,), error=""))
    assert {len(file.parameters) for file in house.store.queries.outputs(task)} == {0}
    found = house.store.queries.outputs(task, parameters=True)
    assert [(file.index, dict(file.parameters)) for file in found] == [(0, ROWS[0]), (1, ROWS[1])]


def test_a_retried_job_keeps_its_row(house: House) -> None:
    task = house.task(parameters=ROWS, command=("run", "{sample}"), max_attempts=1)
    house.take("broker")
    pilot = house.pilot()
    house.report(pilot, "done", attempts(house.match(pilot, 1)))
    house.report(pilot, "failed", attempts(house.match(pilot)))
    house.take("finish")
    retry.retry(house.runtime, task, "user:alice")
    house.take("broker")
    ((work, order),) = orders(house.match(house.pilot()))
    assert (work.command[1], order.attempt) == ("b", 2)


def test_a_forwarded_job_goes_without_the_rows_of_others(house: House) -> None:
    house.task(parameters=ROWS, command=("run", "{sample}"))
    house.take("broker")
    pilot = house.pilot()
    for (job, _), row in zip(attempts(house.match(pilot)), ROWS, strict=True):
        told = specification(house.runtime, job, pilot)
        assert told
        assert (told.spec["command"], told.spec["parameters"]) == (["run", row["sample"]], [])


def test_a_forwarded_job_names_only_what_is_not_usual(house: House) -> None:
    """An earlier Pilotage refuses fields that it does not know."""
    house.task(parameters=ROWS, command=("run", "{sample}"), ram=1000)
    house.take("broker")
    pilot = house.pilot()
    answer = house.match(pilot)
    (order, *_) = (one for _, one in orders(answer))
    told = specification(house.runtime, order.job, pilot)
    assert told
    attempt = Attempt(answer.works[0], order)
    document = Handover(attempt, replace(told, spec=json.loads(json.dumps(told.spec))), "").spec()
    usual = {"command", "environment", "name", "scouts", "max_attempts", "ram"}
    assert document.keys() - usual <= {"walltime", "cpu_time", "outputs"}
    assert document["command"] == ["run", "a"]


def test_a_stored_task_keeps_its_rows_and_their_order() -> None:
    for given in (ROWS, GRID, {"z": ("2", "1"), "a": ("1",)}):
        spec = TaskSpec(name="t", parameters=given)
        again = from_json(TaskSpec, to_json(spec))
        assert again == spec
        if isinstance(given, dict) and isinstance(again.parameters, dict):
            assert [*again.parameters] == [*given]


def test_rows_are_stored_once_and_the_largest_task_has_a_job_each(house: House) -> None:
    task = house.task(parameters={"n": tuple(map(str, range(2500)))}, command=("run", "{n}"))
    found = house.store.queries.jobs(task, None, 10_000)
    assert [job.parameters["n"] for job in found] == [str(n) for n in range(2500)]


@pytest.mark.parametrize(
    ("spec", "field", "words"),
    [
        ({"jobs": 2}, "jobs", "each row is a job"),
        ({"command": ()}, "parameters", "empty payload"),
        ({"command": ("run", "{sampel}")}, "command[1]", "did you mean {sample}?"),
        ({"inputs": (InputPattern(glob="{sample}.fa"),)}, "inputs[0]", "row 0 (sample=a, k=21)"),
        ({"command": ("awk", "{print $1}")}, "command[1]", "write {{ and }}"),
        ({"environment": {"A": "{x}"}}, "environment.A", "no parameter {x}"),
        ({"outputs": ("{smple}.txt",)}, "outputs[0]", "did you mean {sample}?"),
        ({"outputs": ("{sample}",), "parameters": ({"sample": "../x"},)}, "outputs[0]", "'../x'"),
        ({"outputs": ("{sample}/x",), "parameters": ({"sample": "inputs"},)}, "outputs[0]", "'inputs"),
        ({"outputs": ("a{sample}",), "parameters": ({"sample": "*"},)}, "outputs[0]", "'*'"),
        ({"command": ("sh", "-c", "echo {sample}")}, "command[2]", '"$PILOTAGE_PARAMETER_sample"'),
        ({"command": ("sh",), "stdin": "echo {sample}\n"}, "stdin", '"$PILOTAGE_PARAMETER_sample"'),
        (
            {"command": ("run", *["{sample}"] * 100), "parameters": ({"sample": "x" * 4000},)},
            "command",
            "above 262144",
        ),
        (
            {"outputs": ("t{sample}/x",), "parameters": ({"sample": "a"}, {"sample": "mp"})},
            "outputs[0]",
            "'mp'",
        ),
        ({"outputs": ("{sample}",), "parameters": ({"sample": "a"}, {"sample": ".."})}, "outputs[0]", "'..'"),
        (
            {"outputs": ("{sample}",), "parameters": ({"sample": "a"}, {"sample": "b" * 201})},
            "outputs[0]",
            "bbb",
        ),
        (
            {"outputs": tuple(f"{at}/{{sample}}" for at in range(20)), "parameters": SLASHED},
            "outputs",
            "320000 names",
        ),
        (
            {"command": ("run", "{sample}" * 300), "parameters": ({"sample": "x" * 4000},)},
            "command[1]",
            "bytes",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_words(
    house: House, spec: dict[str, Any], field: str, words: str
) -> None:
    (fault, *_) = refusals(house, **{"parameters": ROWS, **spec})
    assert (fault[0], words in fault[1]) == (field, True), fault


@pytest.mark.parametrize("grid", [True, False])
def test_the_rows_of_all_jobs_are_bounded_together(house: House, grid: bool) -> None:
    """A grid repeats values in rows, and inputs repeat rows in jobs."""
    files = tuple(InputFile(name=f"f{n}", size=1, replicas=("north-disk",)) for n in range(300))
    long = {f"p{at}": ("x" * 4000,) for at in range(20)}
    many = {**long, "k": tuple(map(str, range(MOST_ROWS)))}
    row = ({name: text for name, (text,) in long.items()},)
    spec = {"parameters": many} if grid else {"parameters": row, "inputs": files}
    ((field, words),) = refusals(house, **spec)
    assert (field, "bytes in the rows of all jobs together" in words) == ("parameters", True), words
    house.task(command=("run",), parameters={**long, "k": ("1", "2")})


def test_lists_have_parameters_on_request_alone(house: House) -> None:
    task = house.task(parameters=ROWS, command=("run", "{sample}"))

    def listed(**page: bool) -> list[dict[str, str]]:
        found = house.store.job_lists.page(task, JobPage(**page), house.now)  # type: ignore[arg-type]
        return [dict(job.parameters) for job in found]

    assert (listed(), listed(parameters=True)) == ([{}, {}], [*ROWS])


def test_rows_times_inputs_are_bounded(house: House) -> None:
    files = tuple(InputFile(name=f"f{n}", size=1, replicas=("north-disk",)) for n in range(3))
    ((field, words),) = refusals(
        house, parameters={"n": tuple(map(str, range(MOST_ROWS // 2)))}, inputs=files
    )
    assert (field, "50000 rows × 3 groups of inputs = 150000 jobs" in words) == ("parameters", True)


def test_the_braces_of_a_merge_stay_as_they_are(house: House) -> None:
    merge = MergeSpec(command=("awk", "{print $1}"), outputs=("all",))
    assert house.submit({"parameters": ROWS, "command": ("run",), "outputs": ("o",), "merge": merge}).tasks
    named = MergeSpec(command=("cat", "{sample}"), outputs=("all",))
    (fault,) = refusals(house, parameters=ROWS, outputs=("o",), merge=named)
    assert fault[0] == "merge.command[1]"
