"""How much is asked of a catalogue at a time, and in what order."""

from dataclasses import replace

from pilotage.model.documents.decision import Move
from pilotage.model.documents.world import World
from pilotage.model.records.catalogues import ExternalCatalogue, MappedStorage, OutputTerms
from pilotage.model.records.observations import PublicationSighting
from pilotage.model.records.publications import Publication, published_name
from pilotage.model.records.states import PublicationState
from pilotage.model.records.work import File, Replica
from pilotage.policies.staging.publishing import AT_ONCE, LONGEST_DELAY, MOST_FILES, begin, observed
from pilotage.testing import NOW
from pilotage.testing.worlds import federation

U = PublicationState


def one(number: int, dataset: str, state: PublicationState = U.WAITING, attempt: int = 1) -> Publication:
    return Publication(
        id=number,
        task=number,
        dataset=f"rucio~s:{dataset}",
        file=f"s:tasks/f/1/{number}/out",
        state=state,
        attempt=attempt,
        created=NOW,
        since=NOW,
        asked=NOW,
        wake_at=NOW - number,
    )


def world(*publications: Publication, told: tuple[PublicationSighting, ...] = ()) -> World:
    known = federation()
    storage = known.storages[0].name
    rucio = ExternalCatalogue(
        name="rucio",
        vos=("atlas",),
        storages=(MappedStorage(rse="R", storage=storage),),
        outputs=OutputTerms(scopes=("s",), give_up_after=10 * LONGEST_DELAY),
    )
    return World(
        time=NOW,
        seed=1,
        federation=replace(known, catalogues=(rucio,)),
        publications=publications,
        files=tuple(File(name=each.file, size=1, checksum="") for each in publications),
        replicas=tuple(Replica(file=each.file, storage=storage) for each in publications),
        published=told,
    )


def begun(asked: World) -> list[tuple[int, ...]]:
    moves = [change for change in begin(asked).changes if isinstance(change, Move)]
    assert {move.target for move in moves} <= {U.PUBLISHING}
    return [move.ids for move in moves]


def test_the_datasets_whose_files_wait_the_longest_go_first_and_no_more_than_a_few_at_once() -> None:
    waiting = [one(number, f"d{number}") for number in range(1, AT_ONCE + 3)]
    assert begun(world(*waiting)) == [(number,) for number in range(AT_ONCE + 2, 2, -1)]


def test_one_call_registers_a_bounded_number_of_files() -> None:
    ((*ids,),) = begun(world(*(one(number, "d") for number in range(1, MOST_FILES + 9))))
    assert len(ids) == MOST_FILES


def test_a_dataset_that_is_worked_on_waits_and_counts() -> None:
    busy = [one(number, f"d{number}", U.PUBLISHING) for number in range(1, AT_ONCE)]
    waiting = [one(50, "d1"), one(51, "e1"), one(52, "e2")]
    assert begun(world(*busy, *waiting)) == [(52,)]


def test_waits_grow_to_an_hour_and_no_further() -> None:
    for attempt, wait in ((1, 30), (4, 240), (8, LONGEST_DELAY), (5000, LONGEST_DELAY)):
        asked = one(1, "d", U.PUBLISHING, attempt)
        told = PublicationSighting(publication=1, attempt=attempt, error="no answer")
        (move,) = observed(world(asked, told=(told,))).changes
        assert isinstance(move, Move)
        assert (move.target, move.changes["wake_at"]) == (U.WAITING, NOW + wait)


def test_names_keep_to_what_other_catalogues_take_and_apart() -> None:
    dataset = "rucio~s:results"
    assert published_name(dataset, "u:tasks/fed/1/22/out.root") == "results.fed.22.out.root"
    odd = [f"u:tasks/fed/1/22/{path}" for path in ("a/b", "a.b", "a+b", "a=b", "x" * 200, "y" + "x" * 199)]
    names = [published_name(dataset, file) for file in odd]
    assert len(set(names)) == len(names)
    assert all(
        len(name) <= 200 and set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789._-") for name in names
    )
    assert names[0].endswith(".results.fed.22.a.b")
