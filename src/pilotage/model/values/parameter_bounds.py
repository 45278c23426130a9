"""How much a task may have of parameters, without the types that check it."""

MOST_ROWS = 100_000
"""Most rows of a task, each a job."""

MOST_NAMES, LONGEST_NAME = 100, 64
"""Most parameters of a task, and most characters of a name."""

MOST_BYTES, LONGEST_VALUE = 4 << 20, 4096
"""Most bytes of all values as they are given, and of one value."""
