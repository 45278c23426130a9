"""Tables at any width: nothing is left out, words stay whole, control characters are shown."""

from hypothesis import given
from hypothesis import strategies as st

from pilotage.cli.terminal.layout import cell_width, lay_out, visible
from pilotage.explain.layout import Column

COLUMNS = (Column("id", number=True), Column("name"), Column("error", essential=False))
ROWS = [(1, "one", "it broke"), (22, "two", ""), (3, None, "x" * 60)]


def lines(width: int) -> list[str]:
    return lay_out(COLUMNS, ROWS, width)


def test_without_a_limit_every_row_is_one_line() -> None:
    assert lines(0) == ["id  name  error", " 1  one   it broke", "22  two", " 3        " + "x" * 60]


def test_what_does_not_fit_stands_below_its_row_and_long_words_stay_whole() -> None:
    assert lines(30) == [
        "id  name",
        " 1  one",
        "    error it broke",
        "22  two",
        " 3",
        "    error",
        "    " + "x" * 60,
    ]


def test_wide_letters_are_counted_as_they_are_shown() -> None:
    rows = [("\u6f22\u5b57", 1), ("abcd", 2)]
    assert [cell_width(line) for line in lay_out((Column("a"), Column("b")), rows, 0)] == [7, 7, 7]


def test_headings_and_states_are_coloured_where_that_is_wanted() -> None:
    columns = (Column("id", number=True), Column("state"))
    assert lay_out(columns, [(1, "failed"), (2, "sent")], 0, coloured=True) == [
        "\x1b[1mid\x1b[0m  \x1b[1mstate\x1b[0m",
        " 1  \x1b[31mfailed\x1b[0m",
        " 2  sent",
    ]


@given(st.lists(st.lists(st.text(max_size=40), min_size=3, max_size=3), max_size=5), st.integers(0, 100))
def test_no_word_is_lost_or_broken_and_no_control_character_left(rows: list[list[str]], width: int) -> None:
    told = "\n".join(lay_out(COLUMNS, rows, width))
    assert visible(told) == told
    for row in rows:
        for cell in row:
            for word in visible(cell).split():
                assert word in told
