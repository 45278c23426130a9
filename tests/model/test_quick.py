"""Records that are made quickly are the records that ``dataclasses`` makes."""

import copy
import pickle
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, dataclass, field, replace

import pytest

from pilotage.model.documents.decision import Move
from pilotage.model.values.quick import quickly_made


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    number: int
    name: str = "nobody"
    places: Mapping[str, int] = field(default_factory=dict)


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Quick:
    number: int
    name: str = "nobody"
    places: Mapping[str, int] = field(default_factory=dict)


def test_its_fields_are_those_given_or_their_defaults() -> None:
    for given in ({}, {"name": "alice"}, {"places": {"CERN": 1}}):
        plain, quick = Plain(number=1, **given), Quick(number=1, **given)
        assert repr(quick) == repr(plain).replace("Plain", "Quick")
        assert quick == Quick(number=1, **given)
    assert Quick(number=1).places is not Quick(number=1).places


def test_it_is_of_its_class_and_stays_as_it_is() -> None:
    one = Quick(number=1)
    assert type(one) is Quick
    with pytest.raises(FrozenInstanceError):
        one.number = 2  # type: ignore[misc]
    assert replace(one, number=2) == Quick(number=2)
    assert pickle.loads(pickle.dumps(one)) == copy.copy(one) == one


def test_a_field_too_few_or_too_many_is_refused() -> None:
    with pytest.raises(TypeError, match="number"):
        Quick()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="colour"):
        Quick(number=1, colour="red")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="positional"):
        Quick(1)  # type: ignore[call-arg]


def test_a_class_that_gives_fields_by_their_place_or_works_on_them_is_refused() -> None:
    @dataclass(frozen=True, slots=True)
    class Placed:
        number: int

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Worked:
        number: int

        def __post_init__(self) -> None:
            """Check nothing."""

    for cls in (Placed, Worked):
        with pytest.raises(TypeError, match="number"):
            quickly_made(cls)


def test_a_record_may_share_fields_with_others() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Part:
        __slots__ = ()
        number: int

    @quickly_made
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Whole(Part):
        name: str = "nobody"

    one = Whole(number=1)
    assert one == replace(Whole(number=2), number=1)
    assert (type(one), one.number, one.name) == (Whole, 1, "nobody")
    with pytest.raises(FrozenInstanceError):
        one.number = 2  # type: ignore[misc]


def test_the_moves_of_decisions_are_made_quickly() -> None:
    assert "become" in Move.__init__.__code__.co_names
