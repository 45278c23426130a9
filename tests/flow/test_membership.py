"""Servers of one store see who is silent, take over from it, and a frozen one does nothing when it wakes."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from pilotage.flow.outside.fence import FencedWorkers, OutOfTouch
from pilotage.flow.outside.host_processes import HostProcesses
from pilotage.flow.outside.membership import Membership, this_process
from pilotage.flow.outside.workers import Inline
from pilotage.flow.steps import STEPS
from pilotage.ports.presence import Unnamed
from pilotage.store import Store
from pilotage.store.pilots import absences

from .test_servers_gone import Named


@dataclass
class Crew:
    """Servers of one store, each in a process of its own as far as they know; time passes for all."""

    store: Store
    now: float = 1000.0
    told: list[str] = field(default_factory=list)
    loops: tuple[str, ...] = ("stage",)

    def member(self, name: str, host: Named | None = None, url: str = "") -> Membership:
        made = Membership(
            self.store,
            this_process(self.store, name, self.loops, url),
            on_gone=[lambda: self.told.append(name)],
            host=host or Named(""),
            steady=lambda: self.now,
        )
        self.store.servers.join(made.server)
        made.beat()
        return made

    def pass_time(self, seconds: float, *beating: Membership) -> None:
        """Let time pass while only some servers beat."""
        beats = round(seconds / beating[0].times.beats)
        for _ in range(beats):
            self.now += beating[0].times.beats
            for one in beating:
                one.beat()


@pytest.fixture
def crew(store: Store) -> Crew:
    return Crew(store)


def test_a_silent_server_is_gone_within_the_time_that_is_told_and_not_before(crew: Crew) -> None:
    first, second = crew.member("first"), crew.member("second")
    times = first.times
    crew.pass_time(10 * times.beats, first, second)
    crew.pass_time(times.lease - times.beats, second)
    assert second.gone(["first"]) == set()
    crew.pass_time(2 * times.beats, second)
    assert second.gone(["first"]) == {"first"}
    assert first.term is None, "and it knew that before the others did"
    assert crew.told == ["second"]
    (shown, _) = crew.store.servers.everything()
    assert shown.state == "silent"
    assert shown.silent_for is not None
    assert shown.silent_for <= times.takeover


def test_a_server_that_wakes_is_one_again_in_another_term(crew: Crew) -> None:
    first, second = crew.member("first"), crew.member("second")
    term = first.term
    crew.pass_time(2 * first.times.lease, second)
    first.beat()
    second.beat()
    assert second.gone(["first"]) == set()
    assert first.term not in (None, term)
    assert first.gone(["second"]) == set(), "who was frozen itself knows of nobody's silence"


def test_new_records_wake_a_loop_at_one_server(crew: Crew) -> None:
    members = [crew.member(f"server-{number}") for number in range(4)]
    crew.pass_time(members[0].times.beats, *members)
    (turn,) = [member for member in members if member.has_turn("stage")]
    rest = [member for member in members if member is not turn]
    assert all(member.has_turn("a loop that no other server has") for member in members)
    turn.stop()
    crew.pass_time(members[0].times.beats, *rest)
    assert [member.has_turn("stage") for member in rest].count(True) == 1


def test_loops_are_divided_among_servers(crew: Crew) -> None:
    crew.loops = tuple(step.name for step in STEPS)
    members = [crew.member(f"server-{number}") for number in range(3)]
    crew.pass_time(members[0].times.beats, *members)
    turns = [sum(member.has_turn(loop) for loop in crew.loops) for member in members]
    assert sum(turns) == len(crew.loops)
    assert min(turns) > 0


def test_nobody_is_silent_because_the_database_was_away(crew: Crew) -> None:
    first, second = crew.member("first"), crew.member("second")
    crew.now += 100
    second.beat()
    assert second.gone(["first"]) == set()
    first.beat()
    assert crew.told == []


def test_absences_of_all_servers_are_noted_and_those_of_one_are_not(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that slept, and one that starts, are the first to come back; pilots could call nobody meanwhile."""
    begun = crew.store.clock()
    monkeypatch.setattr(crew.store, "clock", lambda: begun + crew.now)

    def noted() -> list[tuple[float, float]]:
        read = crew.store.database.read(absences.everything)
        return [(one.began - begun, one.ended - begun) for one in read]

    def start() -> Membership:
        made = Membership(
            crew.store, this_process(crew.store, f"at-{crew.now}", (), "http://x"), host=Named("")
        )
        made.start()
        made.stop()
        return made

    start()
    assert noted() == [], "there was none before"
    crew.now += 3600
    start()
    assert noted() == [(1000, 4600)]
    first, second = crew.member("first", url="http://a"), crew.member("second", url="http://b")
    crew.pass_time(10 * first.times.beats, second)
    first.beat()
    assert len(noted()) == 1, "the second was there"
    slept = crew.now
    crew.now += 3600
    second.beat()
    first.beat()
    assert noted()[1:] == [(slept, slept + 3600)]


def test_servers_that_left_ended_or_were_forgotten_are_gone_at_once(crew: Crew) -> None:
    second = crew.member("second")
    crew.member("first").stop()
    assert second.gone(["first", "never", ""]) == {"first", "never"}
    second.beat()
    third = crew.member("third", host=Named("", "killed"))
    crew.store.servers.join(this_process(crew.store, "newer", ()))
    assert third.gone(["second", "newer"]) == set(), "one that joined since the last look lives"


def test_a_server_that_was_killed_on_this_host_is_gone_at_once(crew: Crew) -> None:
    first = crew.member("first")
    second = crew.member("second", host=Named("", first.server.process))
    assert second.gone(["first"]) == {"first"}
    assert first.server.process == HostProcesses().name


def test_a_server_whose_row_is_gone_joins_again(crew: Crew) -> None:
    first = crew.member("first")
    crew.store.database.write(lambda connection: connection.exec_driver_sql("DELETE FROM servers") and None)
    first.beat()
    assert [one.name for one in crew.store.servers.everything()] == ["first"]


class Frozen(Unnamed):
    """A server whose lease is lost, and taken again, between asking and acting."""

    def __init__(self, *terms: int | None) -> None:
        self._terms: Iterator[int | None] = iter(terms)

    @property
    def term(self) -> int | None:  # type: ignore[override]
        """The next one."""
        return next(self._terms)


@pytest.mark.parametrize("terms", [(1, None), (1, 2), (None,)])
def test_what_was_asked_for_before_a_freeze_does_not_happen_after_it(terms: tuple[int | None, ...]) -> None:
    done: list[int] = []
    fenced = FencedWorkers(Inline(), Frozen(*terms))
    with pytest.raises(OutOfTouch):
        fenced.call("place", lambda: done.append(1)).result()
    assert done == []
    FencedWorkers(Inline(), Frozen(1, 1)).call("place", lambda: done.append(1)).result()
    assert done == [1]


def test_work_for_one_server_goes_to_the_next_when_it_is_gone(crew: Crew) -> None:
    leases = crew.store.leases
    assert leases.take("archive", "first", 1.0, lambda _: False)
    assert leases.take("archive", "first", 2.0, lambda _: False), "it has it already"
    assert not leases.take("archive", "second", 3.0, lambda _: False)
    assert leases.take("archive", "second", 4.0, lambda name: name == "first")
    leases.give_back("archive", "first")
    assert leases.holders() == {"archive": "second"}
