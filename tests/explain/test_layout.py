"""Lines and tables that fit a width."""

from pilotage.explain.layout import Column, folded, table

LINE = "  memory  31 queues  need 16000 MB, best 12000  only obstacle at 7  you: ask for ram: 12000"
COLUMNS = (Column("queue"), Column("jobs", number=True), Column("cause", essential=False))


def test_lines_are_folded_between_words_and_keep_them_all() -> None:
    lines = folded([LINE], 40)
    assert all(len(line) <= 40 for line in lines)
    assert " ".join(lines).split() == LINE.split()
    assert [len(line) - len(line.lstrip()) for line in lines] == [2, 6, 6]


def test_without_a_width_nothing_is_folded_and_a_long_word_is_never_broken() -> None:
    assert folded([LINE], 0) == [LINE]
    assert folded(["x" * 50], 40) == ["x" * 50]


def test_what_is_not_essential_stands_below_its_row_where_a_table_is_too_wide() -> None:
    rows = [("home", 3, "brokered (B38) by a very long cause"), ("far", 12, "")]
    assert table(COLUMNS, rows)[0].split() == ["queue", "jobs", "cause"]
    below = ["    cause brokered", "    (B38) by a very", "    long cause"]
    assert table(COLUMNS, rows, 20) == ["queue  jobs", "-----  ----", "home      3", *below, "far      12"]


def test_what_is_too_wide_gives_up_its_columns_first() -> None:
    line = "  cores          1 queue  need 1 core, best 8                     you: ask for cores: 8"
    assert folded([line], 80) == ["  cores  1 queue  need 1 core, best 8  you: ask for cores: 8"]
