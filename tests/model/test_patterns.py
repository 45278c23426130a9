"""Patterns of names mean what they mean when a storage is scanned."""

import time
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.model.values.patterns import literal_beginning, matcher


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("**", "a/b/c", True),
        ("**", "a", True),
        ("*", "a/b", False),
        ("*", "a", True),
        ("a/**/c", "a/c", True),
        ("a/**/c", "a/b/b/c", True),
        ("a/**/c", "a/bc", False),
        ("a/**", "a/b/c", True),
        ("a/**", "ab", False),
        ("a/?/[bc]*.root", "a/1/c.x.root", True),
        ("a/?/[!bc]", "a/1/c", False),
        ("a.b", "aXb", False),
        ("runs/1*", "runs/12", True),
        ("runs/1*", "runs/1/2", False),
    ],
)
def test_a_star_stays_in_its_folder_and_two_leave_it(pattern: str, name: str, matches: bool) -> None:
    assert matcher(pattern)(name) is matches
    if matches:
        assert name.startswith(literal_beginning(pattern))


def _plainly(parts: list[str], names: list[str]) -> bool:
    """What a pattern means, tried in every way."""
    if not parts:
        return not names
    if parts[0] == "**":
        rest = parts[1:] or ["*"]
        return any(_plainly(rest, names[at:]) for at in range(len(names) + 1))
    return bool(names) and fnmatchcase(names[0], parts[0]) and _plainly(parts[1:], names[1:])


@given(
    st.lists(st.sampled_from(["**", "*", "a", "b", "?", "[ab]"]), min_size=1, max_size=6),
    st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=7),
)
def test_a_pattern_means_what_it_would_if_every_way_were_tried(parts: list[str], names: list[str]) -> None:
    assert matcher("/".join(parts))("/".join(names)) is _plainly(parts, names)


@pytest.mark.parametrize("pattern", ["**/a/" * 95 + "**", "*a" * 200, "**/" * 150 + "b", "*?" * 200])
def test_no_pattern_takes_long_for_a_name(pattern: str) -> None:
    accepts = matcher(pattern)
    name = "/".join(["a"] * 100) + "/" + "a" * 200

    def lasting(accepts: object) -> float:
        begun = time.process_time()
        for _ in range(200):
            accepts(name)  # type: ignore[operator]
        return time.process_time() - begun

    usual = lasting(matcher("**/a/*/b*"))
    assert lasting(accepts) < 60 * usual + 0.05, "of the order of any other pattern, not of its own length"
