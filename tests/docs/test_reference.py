"""The reference pages say what the code says."""

import re
from pathlib import Path

import pytest

from draw import stale
from generate import pages
from generators.dependencies import EXPOSED, faults, installed_at_users, locked

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


@pytest.mark.slow
def test_reference_pages_are_up_to_date() -> None:
    stale = [name for name, text in pages().items() if (REFERENCE / name).read_text() != text]
    assert not stale, f"run `make docs` and commit {stale}"


def test_no_version_of_the_lock_is_below_a_known_fix_and_all_licences_fit() -> None:
    assert not list(faults())
    assert set(EXPOSED) <= set(installed_at_users()) <= set(locked())


def test_every_picture_is_drawn_from_its_source_as_it_is() -> None:
    assert not stale(), "run `make docs` with Graphviz installed, and commit the pictures"


def test_every_picture_is_shown_with_words_for_those_who_cannot_see_it() -> None:
    pictures = {path.name for path in REFERENCE.parent.glob("pictures/*.svg")}
    text = "".join(path.read_text() for path in REFERENCE.parent.rglob("*.md"))
    assert pictures == {
        name for words, name in re.findall(r"!\[([^\]]*)\]\(.*?([\w-]+\.svg)\)", text) if words
    }
