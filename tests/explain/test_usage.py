"""What an attempt used, told from its time line."""

from pilotage.explain.layout import usage_of_attempt


def test_an_attempt_without_a_time_line_says_nothing() -> None:
    assert list(usage_of_attempt(1, ())) == []


def test_what_was_used_is_told_with_its_course() -> None:
    points = (
        (1.0, 2.0, 100.0, 500.0, 0.0, 0.0, 0.0),
        (2.0, 3.0, 800.0, 500.0, 2000.0, 0.0, 0.0),
        (4.0, 3.0, 400.0, 1500.0, 2000.0, 3000.0, 100.0),
    )
    assert list(usage_of_attempt(2, points)) == [
        "  attempt 2 over 4 s: 3 s of CPU time, 1.5 MB read from disks and 2.0 MB written, "
        "3.0 MB received and 0.1 MB sent",
        "    cores in use  |█▄ | at most 2.0",
        "    memory in use |▁█▄| at most 800 MB",
    ]
