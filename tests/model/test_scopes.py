"""Scopes are of one VO or one person each, and identifiers tell scope and name apart again."""

from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from pilotage.model.values.identity import Identity
from pilotage.model.values.scopes import (
    default_scope,
    identifier,
    name_of,
    personal_scope,
    scopes_of,
    split_identifier,
)
from pilotage.model.values.types import FileName, Name, Scope

NAMES = st.from_regex(TypeAdapter(Name).json_schema()["pattern"].replace("$", r"\Z"), fullmatch=True).filter(
    lambda name: len(name) <= 200 and ":" not in name
)
PEOPLE = st.builds(Identity, name=NAMES | st.just("x"), vo=st.just("") | NAMES | st.just("user.x"))


@given(PEOPLE, PEOPLE)
def test_nobody_shares_a_scope_but_members_of_one_vo(one: Identity, other: Identity) -> None:
    assert (personal_scope(one) == personal_scope(other)) == ((one.name, one.vo) == (other.name, other.vo))
    shared = set(scopes_of(one)) & set(scopes_of(other))
    if (one.name, one.vo) != (other.name, other.vo):
        assert bool(shared) == (one.vo == other.vo != "")


@given(PEOPLE, st.sampled_from(["data/f", "a:b/c:d", "x"]))
def test_an_identifier_is_split_into_what_it_was_made_of(who: Identity, name: FileName) -> None:
    for scope in scopes_of(who):
        assert TypeAdapter(Scope).validate_python(scope) == scope
        assert split_identifier(identifier(scope, name)) == (scope, name)
        assert name_of(identifier(scope, name)) == name


def test_inputs_are_the_vo_s_and_outputs_one_s_own() -> None:
    alice, loner = Identity(name="alice", vo="atlas"), Identity(name="alice")
    assert default_scope(alice, "data/f") == "atlas"
    assert default_scope(alice, "tasks/north/1/2/out") == "user.alice~atlas"
    assert default_scope(loner, "data/f") == "user.alice"
