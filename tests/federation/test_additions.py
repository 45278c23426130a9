"""Records added to a file as text leave the rest of it alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.federation.additions import added
from pilotage.federation.faults import BadDocument
from pilotage.federation.text import parse, render

FILE = """\
# ours
name: mine  # the name
sites:
  - { name: home, nucleus: true }   # outputs
  # a comment at the end of the list

storages:   # disks
- name: disk
  site: home
  url: |
    file:///a
# a comment before the queues
queues:
    - name: q
      vos:
        - a
        - b
"""


def test_comments_and_layout_stay() -> None:
    text = added(
        FILE,
        {
            "sites": [{"name": "new"}],
            "storages": [{"name": "s"}],
            "queues": [{"name": "n"}],
            "links": [{"a": 1}],
        },
    )
    assert [line for line in FILE.splitlines() if line not in text.splitlines()] == []
    assert text.index("# outputs") < text.index("- name: new") < text.index("# a comment at the end")
    before, after = parse(FILE), parse(text)
    assert after == {
        "name": "mine",
        "sites": [*before["sites"], {"name": "new"}],
        "storages": [*before["storages"], {"name": "s"}],
        "queues": [*before["queues"], {"name": "n"}],
        "links": [{"a": 1}],
    }


@pytest.mark.parametrize(
    "text", ["sites: [{name: a}]\n", "sites: 3\n", "[1, 2]\n", "{sites: []}\n", "sites: []\n"]
)
def test_a_list_that_is_written_otherwise_is_refused(text: str) -> None:
    with pytest.raises(BadDocument):
        added(text, {"sites": [{"name": "new"}]})


WORDS = st.text(alphabet="ab #-:\n", max_size=6)
RECORDS = st.lists(
    st.dictionaries(st.sampled_from("xyz"), WORDS | st.lists(WORDS, max_size=2), min_size=1), min_size=1
)


@given(RECORDS, RECORDS)
def test_what_is_added_is_read_back(first: list[dict[str, object]], second: list[dict[str, object]]) -> None:
    text = render({"name": "x", "sites": first, "rest": 1})
    assert parse(added(text, {"sites": second})) == {"name": "x", "sites": first + second, "rest": 1}
