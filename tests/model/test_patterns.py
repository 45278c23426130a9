"""Patterns of names mean what they mean when a storage is scanned."""

import pytest

from pilotage.model.patterns import literal_beginning, matcher


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
