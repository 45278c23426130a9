"""A stage is skipped if an earlier task did exactly the same, and what that made is there."""

from dataclasses import replace
from typing import Any

import pytest

from pilotage.model.records.chains import EarlierTask, NewStage, ResumedWorkflow
from pilotage.model.records.inputs import InputFile, TaskOutputs
from pilotage.model.records.job_changes import OF_OTHER_JOBS, STAYING
from pilotage.model.records.states import TaskState
from pilotage.model.records.work import TaskSpec
from pilotage.policies.tasks.resuming import DECISIVE, FIRST_TIME, resume

READS = InputFile(name="reads.fq", scope="atlas", size=5, checksum="adler32:00000001")
BAM = InputFile(name="tasks/f/1/1/o.bam", scope="user.a", size=9, checksum="adler32:00000002")
ALIGN = TaskSpec(
    name="align", command=("bwa", "{k}"), parameters=({"k": "21"},), inputs=(READS,), outputs=("o.bam",)
)
CALL = TaskSpec(
    name="call", command=("call",), inputs=(TaskOutputs(task="align", match="*.bam"),), outputs=("c",)
)
CLEAN = TaskSpec(name="clean", command=("clean",), after=("call",))


def earlier(number: int, spec: TaskSpec, **values: Any) -> EarlierTask:
    made: dict[str, Any] = {"state": TaskState.FINISHED, **values}
    return EarlierTask(task=number, name=spec.name, spec=spec, **made)


ALIGNED = earlier(1, ALIGN, outputs=(BAM,))
CALLED = earlier(2, replace(CALL, inputs=(BAM,)))
CLEANED = earlier(3, CLEAN)


def reasons(
    align: TaskSpec = ALIGN,
    call: TaskSpec = CALL,
    tasks: tuple[EarlierTask, ...] = (ALIGNED, CALLED, CLEANED),
) -> list[str]:
    """Why each of three stages runs; the number of the task that stands for a skipped one."""
    stages = (
        NewStage(spec=CLEAN, fellows={"call": 2}),
        NewStage(spec=align),
        NewStage(spec=call, fellows={"align": 1}),
    )
    newest = sorted(tasks, key=lambda task: -task.task)
    names = {task.name for task in tasks}
    candidates = {name: tuple(task for task in newest if task.name == name) for name in names}
    reuses = dict(resume(ResumedWorkflow(stages=stages, candidates=candidates)))
    clean, first, second = (reuses[at] for at in range(3))
    assert [stage.name for stage in (first, second, clean)] == ["align", "call", "clean"]
    return [stage.reason or str(stage.task) for stage in (first, second, clean)]


def test_what_did_not_change_is_skipped() -> None:
    elsewhere = replace(ALIGN, ram=9000, priority=900, queues=("north",), labels={"a": "b"}, max_attempts=1)
    assert reasons() == reasons(align=elsewhere) == ["1", "2", "3"]


def test_each_field_that_says_what_a_job_does_is_compared() -> None:
    """A new field of that kind belongs to ``DECISIVE``, or here if it makes no other outputs."""
    elsewhere = {
        *("name", "nucleus", "transfer_priority", "transfer_sub_share", "brokerage", "binding", "workflow"),
        *("max_attempts", "retries", "labels", "notify", "scouts", "after", "on", "inputs"),
    }
    decisive = {name for _, names in DECISIVE for name in names}
    assert (STAYING | OF_OTHER_JOBS) - elsewhere <= decisive
    assert not decisive & elsewhere


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"command": ("bwa", "-t", "{k}")}, "its command changed"),
        ({"payload_files": {"a.py": "x\n"}}, "its command changed"),
        ({"environment": {"A": "1"}}, "its environment changed"),
        ({"container_name": "docker://bwa:2"}, "its environment changed"),
        ({"parameters": ({"k": "21"}, {"k": "31"})}, "its parameters changed"),
        ({"outputs": ("o.bam", "log")}, "its outputs are named otherwise"),
        ({"inputs": (replace(READS, checksum="adler32:0000000f"),)}, "input reads.fq changed"),
        ({"inputs": (replace(READS, size=6),)}, "input reads.fq changed"),
        ({"inputs": (READS, replace(READS, name="b.fq"))}, "input b.fq is new"),
        ({"inputs": ()}, "input reads.fq is no input now"),
    ],
)
def test_a_changed_stage_runs_and_all_after_it(changes: dict[str, Any], reason: str) -> None:
    assert reasons(align=replace(ALIGN, **changes)) == [
        reason,
        "stage align runs again",
        "stage call runs again",
    ]


def test_checksums_of_two_kinds_are_not_compared_and_a_missing_one_fits() -> None:
    for checksum in ("", "md5:" + "0" * 32):
        assert reasons(align=replace(ALIGN, inputs=(replace(READS, checksum=checksum),))) == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"state": TaskState.FAILED}, "task 1 failed"),
        ({"state": TaskState.CANCELLED}, "task 1 was cancelled"),
        ({"state": TaskState.RUNNING}, "task 1 is running"),
        ({"incomplete_jobs": 2}, "outputs of 2 jobs of task 1 are gone"),
        ({"lost_outputs": 1}, "1 output of task 1 gone or changed"),
        ({"is_partial": True}, "task 1 was ended with a part of its outputs"),
    ],
)
def test_a_stage_runs_again_if_the_earlier_one_is_not_whole(values: dict[str, Any], reason: str) -> None:
    tasks = (replace(ALIGNED, **values), CALLED, CLEANED)
    assert reasons(tasks=tasks) == [reason, "stage align runs again", "stage call runs again"]


def test_an_older_task_stands_for_a_stage_if_the_newest_does_not() -> None:
    failed = earlier(7, ALIGN, state=TaskState.FAILED)
    other = earlier(8, replace(ALIGN, command=("other",)))
    assert reasons(tasks=(ALIGNED, CALLED, CLEANED, failed, other)) == ["1", "2", "3"]
    lost = replace(ALIGNED, lost_outputs=1)
    assert reasons(tasks=(lost, CALLED, CLEANED, failed, other))[0] == "its command changed"


def test_a_stage_that_read_another_run_is_not_this_one() -> None:
    later = earlier(9, ALIGN, outputs=(replace(BAM, name="tasks/f/9/4/o.bam"),))
    assert reasons(tasks=(later, CALLED, CLEANED))[1] == "it reads other outputs of earlier tasks"


def test_a_stage_without_an_earlier_task_runs() -> None:
    assert reasons(tasks=(ALIGNED, CLEANED)) == ["1", FIRST_TIME, "stage call runs again"]


def test_outputs_of_tasks_outside_of_the_workflow_count_as_inputs() -> None:
    stage = NewStage(spec=CALL, earlier={"align": 1})
    candidates = {"call": (CALLED,)}

    def reason(other: EarlierTask) -> str:
        workflow = ResumedWorkflow(stages=(stage,), candidates=candidates, others={1: other})
        return dict(resume(workflow))[0].reason

    assert reason(ALIGNED) == ""
    assert (
        reason(replace(ALIGNED, outputs=(replace(BAM, size=8),))) == "it reads other outputs of earlier tasks"
    )
    assert reason(replace(ALIGNED, outputs=())) == "nothing of align matches '*.bam'"
    assert reason(replace(ALIGNED, state=TaskState.RUNNING)) == "task 1 before it has not ended"
