"""Closing a person ends tokens, tasks, pilots and secrets of theirs alone, and names what stays."""

from collections.abc import Iterator

import pytest

from pilotage.adapters.computing.loader import load
from pilotage.adapters.movers.loader import InstalledMovers
from pilotage.flow.calls.administration import people
from pilotage.flow.errors import NotNow, NotThere
from pilotage.flow.runtime import Runtime
from pilotage.flow.steps import STEPS
from pilotage.model.documents.decision import Create
from pilotage.model.records.data import NewDatasetVersion
from pilotage.model.records.notifications import Notify
from pilotage.model.records.states import JobState, PilotState, TaskState
from pilotage.model.records.work import File
from pilotage.model.values.identity import Credential, Identity, Role
from pilotage.model.values.scopes import personal_scope
from pilotage.store import PersonClosed, Store, TaskFilter, TaskPage, session_token
from pilotage.store.people.secrets import Encrypted
from pilotage.testing.records import NOW
from pilotage.testing.stores import FEDERATION, decision, move, new_jobs, new_pilot, new_task

ADA, BOB = Identity(name="ada", vo="atlas"), Identity(name="bob", vo="atlas")
OTHER_ADA = Identity(name="ada", vo="belle")


@pytest.fixture
def runtime(store: Store) -> Iterator[Runtime]:
    """A runtime on both databases."""
    store.save_federation(FEDERATION, "test")
    made = Runtime(store, STEPS, load=load, movers=InstalledMovers, clock=lambda: NOW)
    yield made
    made.close()


def _token(store: Store, person: Identity, role: Role = "user") -> str:
    return store.tokens.create(Credential(role=role, identity=person))


def _running_pilot(store: Store, owner: Identity) -> int:
    pilot = new_pilot(store, kind="private", owner=owner)
    for source, target in (
        (PilotState.CREATED, PilotState.SUBMITTED),
        (PilotState.SUBMITTED, PilotState.RUNNING),
    ):
        store.commit(decision(move("pilot", [pilot], source, target)), "test")
    return pilot


def test_what_is_theirs_ends_and_what_is_others_or_stored_stays(runtime: Runtime) -> None:
    store = runtime.store
    mine = _token(store, ADA)
    credential = Credential(role="user", identity=ADA, expires=NOW + 60)
    session = session_token(store.sessions.open(credential, "Firefox", "a token", mine), "Firefox")
    others = [_token(store, BOB), _token(store, OTHER_ADA), _token(store, ADA, "site")]
    tasks = [new_task(store, ADA), new_task(store, ADA)]
    jobs = new_jobs(store, tasks[0], 2)
    foreign = new_task(store, OTHER_ADA)
    waiting = new_pilot(store, kind="private", owner=ADA)
    pilots = [waiting, _running_pilot(store, ADA)]
    kept = [_running_pilot(store, BOB), new_pilot(store, kind="generic", owner=ADA)]
    store.secrets.put(Encrypted(owner="ada", vo="atlas", name="KEY", ciphertext="x", key="k"), 10)
    store.notification_settings.save(ADA, [Notify(email="ada@example.org")])
    dataset = f"{personal_scope(ADA)}:runs"
    version = NewDatasetVersion(
        dataset=dataset,
        version=1,
        author="ada",
        added=(File(name=f"{personal_scope(ADA)}:a", size=1, checksum=""),),
        removed=(),
        files=1,
        size=1,
    )
    store.commit(decision(Create(records=(version,), cause="made")), "test")

    would = people.close(runtime, ADA, "left", "operator:olga", dry_run=True)
    assert (would.tokens, set(would.tasks), would.jobs, would.pilots) == (1, set(tasks), 2, 2)
    assert (would.secrets, would.receivers, would.left) == (1, 1, 0)
    assert would.datasets == (dataset,)
    assert store.tokens.find(mine) is not None, "a dry run changes nothing"

    assert people.close(runtime, ADA, "left", "operator:olga") == would
    assert store.tokens.find(mine) is store.tokens.find(session) is None
    assert all(store.tokens.find(one) for one in others)
    assert {store.queries.task(one).state for one in tasks} == {TaskState.CANCELLED}  # type: ignore[union-attr]
    assert store.queries.task(foreign).state is TaskState.REGISTERED  # type: ignore[union-attr]
    job = store.queries.job(jobs[0])
    assert job is not None
    assert (job.state, job.error) == (JobState.CANCELLED, "ada was closed: left")
    states = [store.queries.pilot(one).state for one in (*pilots, *kept)]  # type: ignore[union-attr]
    assert states == [PilotState.CANCELLED, PilotState.FAILED, PilotState.RUNNING, PilotState.CREATED]
    assert store.secrets.names("ada", "atlas") == ()
    assert store.notification_settings.of(ADA).notify == ()


def test_what_was_under_way_while_a_person_is_closed_starts_nothing(runtime: Runtime) -> None:
    """Servers believe a revoked token for some seconds: its tasks are refused at their commit."""
    store = runtime.store
    _token(store, ADA)
    ended = new_task(store, ADA)
    people.close(runtime, ADA, "left", "operator:olga")
    for person in (BOB, OTHER_ADA):
        new_task(store, person)
    with pytest.raises(PersonClosed, match="ada of VO atlas was closed; a new token lets them work again"):
        new_task(store, ADA)
    again = decision(move("task", [ended], TaskState.CANCELLED, TaskState.RUNNING))
    with pytest.raises(PersonClosed):
        store.commit(again, "test")
    secret = Encrypted(owner="ada", vo="atlas", name="KEY", ciphertext="x", key="k")
    with pytest.raises(PersonClosed):
        store.secrets.put(secret, 10)
    with pytest.raises(PersonClosed):
        store.notification_settings.save(ADA, [Notify(email="ada@example.org")])
    _token(store, ADA, "site")
    with pytest.raises(PersonClosed):
        new_task(store, ADA)
    _token(store, ADA)
    new_task(store, ADA)
    assert store.commit(again, "test").handed_back == 0
    assert store.secrets.put(secret, 10)


def test_of_two_people_with_one_name_the_vo_must_be_given(runtime: Runtime) -> None:
    store = runtime.store
    _token(store, ADA)
    new_task(store, OTHER_ADA)
    with pytest.raises(NotNow, match="--vo 'atlas' or 'belle'"):
        people.of_name(runtime, "ada", None)
    assert people.of_name(runtime, "ada", "belle") == Identity(name="ada", vo="belle")
    with pytest.raises(NotThere):
        people.close(runtime, people.of_name(runtime, "nobody", None), "left", "operator:olga")


def test_tasks_beyond_one_call_are_counted_and_go_with_the_next(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(people, "MOST_TASKS", 2)
    tasks = [new_task(runtime.store, ADA) for _ in range(3)]
    first = people.close(runtime, ADA, "left", "operator:olga")
    assert (first.tasks, first.left) == (tuple(tasks[:0:-1]), 1)
    assert people.close(runtime, ADA, "left", "operator:olga").tasks == (tasks[0],)


def test_tasks_are_chosen_by_their_vo(runtime: Runtime) -> None:
    mine, _ = new_task(runtime.store, ADA), new_task(runtime.store, OTHER_ADA)
    found = runtime.store.task_lists.page(TaskPage(task_filter=TaskFilter(vo="atlas")))
    assert [task.id for task in found] == [mine]


def test_a_task_that_goes_on_while_tasks_are_read_is_told_once(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    number, lists = new_task(runtime.store, ADA), runtime.store.task_lists
    read = lists.page

    def page(wanted: TaskPage) -> object:
        found = read(wanted)
        if wanted.state is TaskState.REGISTERED:
            runtime.store.commit(
                decision(move("task", [number], TaskState.REGISTERED, TaskState.RUNNING)), "test"
            )
        return found

    monkeypatch.setattr(lists, "page", page)
    assert people.close(runtime, ADA, "left", "operator:olga", dry_run=True).tasks == (number,)
