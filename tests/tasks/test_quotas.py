"""Quotas bound the work that has not ended, of a user and of a VO."""

from pilotage.model.records.inputs import InputFile
from pilotage.model.records.quotas import QuotaConstants
from pilotage.model.records.spec import LiveWork, TaskSpec
from pilotage.model.values.identity import Identity
from pilotage.policies.tasks.quotas import Quota

ALICE = Identity(name="alice", vo="ligo")
FILES = tuple(InputFile(name=f"f{number}", size=1) for number in range(7))


def test_jobs_and_files_are_counted_as_they_will_be_split() -> None:
    live = (
        LiveWork()
        .with_task(TaskSpec(name="t", jobs=50))
        .with_task(TaskSpec(name="t", inputs=FILES, files_per_job=3))
    )
    assert live == LiveWork(tasks=2, jobs=53, files=7)


def test_what_passes_a_quota_is_refused_with_whose_and_how_much() -> None:
    constants = QuotaConstants(tasks_by_user=2, most_jobs_by_user=100, files_by_vo=10)
    quota = Quota(constants, ALICE, LiveWork(tasks=1, jobs=60), LiveWork(tasks=8, jobs=60, files=4))
    ((field, sentence),) = quota.take(TaskSpec(name="t", jobs=41))
    assert field == "jobs"
    assert sentence.startswith(
        "user alice would have 101 jobs that have not ended, above the quota of 100; wait"
    )
    ((field, sentence),) = quota.take(TaskSpec(name="t", inputs=FILES))
    assert (field, sentence.split(",")[0]) == (
        "inputs",
        "VO ligo would have 11 input files that have not ended",
    )
    assert quota.take(TaskSpec(name="t", jobs=40)) == [], "what was refused takes nothing"
    ((field, _),) = quota.take(TaskSpec(name="t", jobs=1))[:1]
    assert field == "name"
