"""Outputs go into datasets of catalogues that others keep: once, whole, and whatever happens meanwhile."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import adler32

import pytest

from pilotage.explain.remarks import lines
from pilotage.flow.calls.work import remarks
from pilotage.flow.calls.work.retry import publish_again
from pilotage.flow.outside.workers import Inline
from pilotage.flow.runtime import Runtime
from pilotage.flow.step import take
from pilotage.flow.steps import STEPS, step
from pilotage.model.documents.world import Output, Report
from pilotage.model.records.catalogues import ExternalCatalogue, MappedStorage, OutputTerms, ReplicationRule
from pilotage.model.records.spec_parts import MergeSpec
from pilotage.model.records.states import JobState, PublicationState
from pilotage.model.records.work import InputDataset, InputFile
from pilotage.model.values.identity import Identity
from pilotage.policies.staging.publishing import LEASE
from pilotage.store import Store
from tests.catalogues.fake import FakeCatalogue, Gathered
from tests.reading import world_of
from tests.waiting import wait_for

from .house import ALICE, House, attempts, federation
from .test_servers_gone import Named

TAKEN = (
    "rucio~user.alice:x is the dataset of task 1; its catalogue keeps no versions, so each task needs a name "
    "of its own, like rucio~user.alice:x.2; or leave the catalogue out: x is in your own scope, and gets a "
    "new version from each task"
)
RULE = ReplicationRule(rse_expression="tier=1", copies=2, lifetime=86_400)


def declared(name: str) -> ExternalCatalogue:
    return ExternalCatalogue(
        name=name,
        vos=("ligo",),
        storages=(MappedStorage(rse="NORTH", storage="north-disk"),),
        outputs=OutputTerms(scopes=("user.{name}",), rule=RULE),
    )


class Publisher(House):
    """A house with two catalogues that take outputs, ``rucio`` and ``other``."""

    def __init__(self, store: Store, place: Path) -> None:
        super().__init__(store, place)
        self.rucio, self.other = (FakeCatalogue(("north-disk",), ("user.alice",)) for _ in range(2))
        self.catalogues |= {"rucio": self.rucio, "other": self.other}
        self.declare(declared("rucio"), declared("other"))

    def declare(self, *catalogues: ExternalCatalogue) -> None:
        self.runtime.save_federation(replace(federation(self.place), catalogues=catalogues), "test")

    def asked(self, dataset: str = "rucio~user.alice:results", **spec: Any) -> int:
        return self.task(**{"command": ("x",), "outputs": ("out",), "output_dataset": dataset, **spec})

    def run(self, text: str = "made", good: bool = True) -> None:
        """Run all jobs that wait, each leaving a file."""
        self.take("broker")
        pilot = self.pilot()
        answer = self.match(pilot)
        pairs = attempts(answer)
        self.report(pilot, "running", pairs)
        for work in answer.works:
            for job in work.jobs:
                self.end(pilot, job, text, good)
        self.deliver()
        self.take("finish")

    def deliver(self) -> None:
        """Stage until no output is on its way any more."""

        def none_is_left() -> bool:
            self.take("stage")
            return not world_of(self.store, "stage", self.now, 1, limit=100).transfers

        wait_for(none_is_left, "the outputs are delivered")
        self.take("stage")

    def end(self, pilot: int, job: Any, text: str, good: bool) -> None:
        """End a job well, with a file, or badly."""
        if not good:
            self.tell(pilot, Report(job=job.job, attempt=job.attempt, state="failed", error="no"))
            return
        scratch = self.place / "north" / job.scratch
        scratch.mkdir(parents=True)
        (scratch / "out").write_text(text)
        output = Output(name="out", size=len(text), checksum=checksum(text))
        self.tell(pilot, Report(job=job.job, attempt=job.attempt, state="done", outputs=(output,)))

    def gathered(self, catalogue: FakeCatalogue | None = None) -> Gathered:
        return (catalogue or self.rucio).datasets["user.alice"]["results"]

    def publications(self, task: int) -> dict[PublicationState, int]:
        found = self.store.publication_queries.of_task(task).files
        return {state: counted.files for state, counted in found.items()}

    def told(self, task: int) -> str:
        view = self.store.queries.task(task)
        assert view is not None
        return "\n".join(lines(remarks.published(self.runtime, view)))


def checksum(text: str) -> str:
    return f"adler32:{adler32(text.encode()):08x}"


@pytest.fixture
def house(store: Store, tmp_path: Path) -> Publisher:
    return Publisher(store, tmp_path)


def test_outputs_come_into_the_dataset_which_is_closed_and_is_the_input_of_another_task(
    house: Publisher,
) -> None:
    task = house.asked(jobs=3)
    house.run()
    house.take("publish")
    names = [f"results.flow.{job}.out" for job in (1, 2, 3)]
    assert house.gathered() == Gathered(files=set(names), rules={RULE}, closed=True)
    found = house.rucio.files["user.alice"][names[0]]
    assert (found.file.size, found.file.checksum) == (4, checksum("made"))
    assert found.paths == {"north-disk": f"tasks/flow/{task}/1/out"}
    assert house.publications(task) == {PublicationState.PUBLISHED: 3}
    assert house.told(task) == "outputs in rucio~user.alice:results: 3 published; closed"
    ((_, reader),) = house.submit(
        {"inputs": (InputDataset(dataset="results", scope="rucio~user.alice"),)}
    ).tasks
    view = house.store.queries.task(reader)
    assert view is not None
    assert [one.name for one in view.spec.inputs if isinstance(one, InputFile)] == names
    entry = house.store.catalogue.entry(f"rucio~user.alice:{names[0]}")
    assert entry is not None
    assert [one.place for one in entry.replicas] == [f"tasks/flow/{task}/1/out"]


def test_nothing_is_asked_again_once_all_is_published(house: Publisher) -> None:
    house.asked(jobs=2)
    house.run()
    house.take("publish")
    calls = list(house.rucio.calls)
    assert house.take("publish") == 0
    assert house.rucio.calls == calls


def test_a_file_is_published_when_its_job_has_ended_and_the_dataset_stays_open_meanwhile(
    house: Publisher,
) -> None:
    task = house.asked(jobs=2)
    house.take("broker")
    pilot = house.pilot(cores=1)
    answer = house.match(pilot, 1)
    house.report(pilot, "running", attempts(answer))
    house.end(pilot, answer.works[0].jobs[0], "first", good=True)
    house.deliver()
    house.take("publish")
    assert (len(house.gathered().files), house.gathered().closed) == (1, False)
    assert "closed when the task has finished" in house.told(task)


def test_only_the_attempt_that_was_accepted_is_published(house: Publisher) -> None:
    task = house.asked(max_attempts=2)
    house.run(good=False)
    house.take("publish")
    assert house.publications(task) == {}
    house.run("second")
    house.take("publish")
    ((found,),) = (house.rucio.files["user.alice"].values(),)
    assert found.file.checksum == checksum("second")


def test_of_a_task_that_merges_what_was_merged_is_published_alone(house: Publisher) -> None:
    task = house.asked(jobs=2, merge=MergeSpec(command=("merge",), outputs=("out",)))
    house.run()
    house.take("publish")
    assert house.rucio.calls == []
    house.run("merged")
    house.take("publish")
    assert house.states(task) == {JobState.FINISHED: 3}
    assert house.gathered() == Gathered(files={"results.flow.3.out"}, rules={RULE}, closed=True)


def test_what_could_not_be_registered_is_tried_again_later_and_later(house: Publisher) -> None:
    task = house.asked()
    house.run()
    house.rucio.error = "the catalogue rucio does not answer"
    waits = []
    for _ in range(3):
        house.take("publish")
        count = house.store.publication_queries.of_task(task).files[PublicationState.WAITING]
        assert count.error == house.rucio.error
        waits.append(count.wake_at - house.now)
        assert house.take("publish") == 0
        house.now = count.wake_at
    assert waits == [30, 60, 120]
    assert "tried again in 0 s: the catalogue rucio does not answer" in house.told(task)
    house.rucio.error = ""
    house.take("publish")
    assert house.gathered().closed


def test_what_cannot_be_registered_for_a_day_is_given_up_until_somebody_asks_again(house: Publisher) -> None:
    task = house.asked()
    house.run()
    house.rucio.error = "no quota"
    house.take("publish")
    house.now += 86_400
    house.take("publish")
    assert house.publications(task) == {PublicationState.FAILED: 1}
    assert "1 output not published: no quota" in house.told(task)
    assert "the dataset is not closed: it is left open, for 1 of its files are not published" in house.told(
        task
    )
    house.rucio.error = ""
    assert house.take("publish") == 0
    assert publish_again(house.runtime, task, "user:alice") == 2
    house.take("publish")
    assert house.publications(task) == {PublicationState.PUBLISHED: 1}
    assert house.gathered().closed


def test_a_name_that_another_file_has_is_refused_by_name_and_the_dataset_is_left_open(
    house: Publisher,
) -> None:
    task = house.asked(jobs=2)
    other = FakeCatalogue(("north-disk",), ("user.alice",))
    house.run()
    from pilotage.ports.catalogue import OutputFile

    occupied = OutputFile(name="results.flow.2.out", size=9, checksum=checksum("x"), paths={})
    other.publish("user.alice", "theirs", [occupied], None)
    house.rucio.files = other.files
    house.take("publish")
    assert house.publications(task) == {PublicationState.PUBLISHED: 1, PublicationState.FAILED: 1}
    assert house.gathered().files == {"results.flow.1.out"}
    assert not house.gathered().closed
    assert "another file is known under user.alice:results.flow.2.out" in house.told(task)
    assert house.rucio.files["user.alice"]["results.flow.2.out"].file.size == 9


def test_a_catalogue_that_does_not_answer_delays_no_other(house: Publisher) -> None:
    first, second = house.asked(jobs=5), house.asked("other~user.alice:results", jobs=5)
    house.run()
    house.rucio.error = "dead"
    house.take("publish")
    assert house.publications(first) == {PublicationState.WAITING: 5}
    assert house.publications(second) == {PublicationState.PUBLISHED: 5}
    assert house.gathered(house.other).closed


@pytest.mark.parametrize("seen", [True, False])
def test_what_a_server_was_publishing_when_it_was_killed_is_published_by_the_next(
    house: Publisher, seen: bool
) -> None:
    task = house.asked(jobs=2)
    house.run()
    # It registered all, and was killed before it could write that down.
    runtime = another_server(house, Named("dead"))
    runtime.publishing._tell = lambda _: None  # type: ignore
    take(step("publish"), runtime, runtime.begin(100))
    assert house.publications(task) == {PublicationState.PUBLISHING: 2}
    files = set(house.gathered().files)
    heir = another_server(house, Named("heir", "dead") if seen else Named("heir"))
    if not seen:
        assert take(step("publish"), heir, heir.begin(100)) == 0
        house.now += LEASE + 1
    for _ in range(9):
        take(step("publish"), heir, heir.begin(100))
        house.now += 0 if seen else 30
    assert house.publications(task) == {PublicationState.PUBLISHED: 2}
    assert house.gathered() == Gathered(files=files, rules={RULE}, closed=True)


def another_server(house: Publisher, presence: Named) -> Runtime:
    return Runtime(
        house.store,
        STEPS,
        load=lambda _: house.element,  # type: ignore[arg-type,return-value]
        movers=lambda _: None,  # type: ignore[arg-type,return-value]
        clock=lambda: house.now,
        workers=Inline(),
        load_catalogue=lambda one, _: house.catalogues[one.name],
        presence=presence,
    )


def test_what_was_answered_of_an_attempt_that_is_over_changes_nothing(house: Publisher) -> None:
    task = house.asked()
    house.run()
    late = another_server(house, Named("late"))
    take(step("publish"), late, late.begin(100))
    told = late.publishing.news()
    assert told
    heir = another_server(house, Named("heir", "late"))
    house.rucio.error = "dead"
    for _ in range(2):
        take(step("publish"), heir, heir.begin(100))
    assert house.publications(task) == {PublicationState.PUBLISHING: 1}
    take(step("publish"), late, late.begin(100))
    assert house.publications(task) == {PublicationState.PUBLISHING: 1}


def test_a_catalogue_that_left_the_federation_is_told_of(house: Publisher) -> None:
    task = house.asked()
    house.run()
    house.declare(declared("other"))
    house.take("publish")
    assert "the federation has no catalogue rucio that takes outputs now" in house.told(task)


def test_an_output_that_its_catalogue_knows_no_storage_of_is_told_of(house: Publisher) -> None:
    task = house.asked()
    house.run()
    moved = replace(declared("rucio"), storages=(MappedStorage(rse="SOUTH", storage="south-disk"),))
    house.declare(moved)
    house.take("publish")
    assert "it is at north-disk; the catalogue rucio maps south-disk" in house.told(task)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"output_dataset": "nowhere~user.alice:x"}, "there is no catalogue 'nowhere'"),
        ({"output_dataset": "shut~user.alice:x"}, "the catalogue shut takes no outputs"),
        ({"output_dataset": "rucio~user.bob:x"}, "not put datasets into the scope 'user.bob' of rucio"),
        ({"output_dataset": "rucio~user.alice:x", "outputs": ()}, "the task has no outputs"),
        ({"output_dataset": "rucio~user.alice:done"}, "user.alice:done is closed"),
        (
            {"output_dataset": "rucio~user.alice:x", "nucleus": "south"},
            "outputs may come to south-disk, where the catalogue rucio knows none",
        ),
    ],
)
def test_a_task_whose_outputs_could_not_be_registered_is_refused(
    house: Publisher, spec: dict[str, Any], message: str
) -> None:
    house.declare(declared("rucio"), replace(declared("shut"), outputs=None))
    house.rucio.datasets["user.alice"]["done"] = Gathered(closed=True)
    ((_, faults),) = house.submit({"outputs": ("out",), "command": ("x",), **spec}).refused
    assert any(message in text for _, text in faults), faults
    assert {field for field, _ in faults} == {"output_dataset"}


def test_only_people_of_its_vos_publish_in_a_catalogue(house: Publisher) -> None:
    asked = {"outputs": ("out",), "command": ("x",), "output_dataset": "rucio~user.alice:x"}
    ((_, faults),) = house.submit(asked, owner=Identity(name="alice", vo="atlas")).refused
    assert "the catalogue rucio is for people of ligo" in faults[0][1]


def test_a_catalogue_that_does_not_answer_takes_no_new_tasks(house: Publisher) -> None:
    house.rucio.error = "the catalogue rucio does not answer"
    asked = {"outputs": ("out",), "command": ("x",), "output_dataset": "rucio~user.alice:x"}
    ((_, faults),) = house.submit(asked).refused
    assert faults == [("output_dataset", "the catalogue rucio does not answer")]


def test_a_dataset_gathers_the_outputs_of_one_task(house: Publisher) -> None:
    asked = {"outputs": ("out",), "command": ("x",), "output_dataset": "rucio~user.alice:x"}
    found = house.submit(asked, asked, owner=ALICE)
    assert [task for _, task in found.tasks] == [1]
    assert refusals(found.refused) == [
        "rucio~user.alice:x is the dataset of another task of this submission; name another one"
    ]
    assert refusals(house.submit(asked).refused) == [TAKEN]


@pytest.mark.parametrize("whole", [False, True])
def test_of_two_submissions_at_once_that_name_one_dataset_the_later_is_refused(
    house: Publisher, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    asked = {"outputs": ("out",), "command": ("x",), "output_dataset": "rucio~user.alice:x"}
    house.submit(asked)
    # As the later one saw it, before the former was recorded.
    monkeypatch.setattr(house.store.publication_queries, "task_of", lambda _: None)
    other = {**asked, "output_dataset": "rucio~user.alice:y"}
    found = house.submit(other, asked, whole=whole)
    assert refusals(found.refused) == [TAKEN]
    assert [field for _, faults in found.refused for field, _ in faults] == ["output_dataset"]
    assert len(found.tasks) == (0 if whole else 1)


def refusals(refused: Iterable[tuple[int, list[tuple[str, str]]]]) -> list[str]:
    return [text for _, faults in refused for _, text in faults]
