"""A shell reads no parameter as code, whatever the value and wherever it stands in the text."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.model.values.shell_texts import in_shell, shell_texts

PLACES = {
    "bare": "printf %s {v}",
    "within a word": "printf %s a{v}b",
    "in double quotes": 'printf %s "{v}"',
    "in single quotes": "printf %s '{v}'",
    "in double quotes with others": 'printf %s "it\'s {v}"',
    "behind an apostrophe in a comment": "# don't\nprintf %s {v}",
    "in a command substitution": 'printf %s "$(printf %s "{v}")"',
    "in a bare command substitution": 'x=$(printf %s {v}); printf %s "$x"',
    "in a subshell": "(printf %s {v})",
    "in a quoted backquote substitution": 'x="`printf %s {v}`"; printf %s "$x"',
    "in a group": "{{ printf %s {v}; }}",
    "behind case": "case x in x) printf %s {v};; esac",
    "behind a quoted quote": "printf %s \\'{v}",
    "behind doubled braces": 'y=1; printf %s "${{y}}{v}"',
    "assigned": 'x={v}; printf %s "$x"',
}
BEFORE = {
    "within a word": "a",
    "in double quotes with others": "it's ",
    "behind a quoted quote": "'",
    "behind doubled braces": "1",
}
AFTER = {"within a word": "b"}
SHELLS = [shell for shell in ("sh", "bash") if shutil.which(shell)]


VALUES = (
    "a b",
    "a;touch BAD",
    "$(touch BAD)",
    "`touch BAD`",
    "'; touch BAD; '",
    '"; touch BAD; "',
    "'\"'\"'$(touch BAD)",
    "\\'; touch BAD #",
    "a\nb",
    "* ? [a]",
    "",
    "-n",
    "$HOME ${HOME}",
    "!x &",
    "ü €",
    "21",
    "{v}",
)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("shell", SHELLS)
def test_a_value_is_one_word_and_no_code(shell: str, place: str, tmp_path: Path) -> None:
    """One shell runs the text with each value in turn: one that ends its quotes would change the rest."""
    texts = (f"{in_shell(PLACES[place], {'v': value})}\nprintf '\\0'\n" for value in VALUES)
    done = subprocess.run([shell, "-c", "".join(texts)], capture_output=True, cwd=tmp_path, check=True)
    before, after = BEFORE.get(place, ""), AFTER.get(place, "")
    assert done.stdout.decode().split("\0") == [*(f"{before}{value}{after}" for value in VALUES), ""]
    assert not (tmp_path / "BAD").exists()


PIECES = st.sampled_from(
    ["'", '"', "$(", ")", "`", "{v}", "\\", "#", "\n", " ", "a", "<<E", "((", "))", ";", "|"]
)


@given(st.lists(PIECES, max_size=12).map("".join), st.text("a'\"$(`;)\n \\", max_size=8))
def test_whatever_the_text_no_value_ends_the_quotes(text: str, rest: str) -> None:
    """The value stands in front, quoted as a whole; behind it there are only names of variables."""
    value = f"{rest}VALUE"
    made = in_shell(text, {"v": value})
    assert made.count("VALUE") == (1 if "{v}" in text else 0)


@pytest.mark.parametrize(
    ("command", "found"),
    [
        (["sh", "-c", "x"], {2}),
        (["/bin/bash", "-euo", "pipefail", "-c", "x", "y"], {4}),
        (["bash", "-lc", "x"], {2}),
        (["bash", "-oe", "pipefail", "-c", "x"], {4}),
        (["bash", "-c", "-", "x"], {3}),
        (["bash", "-c", "--", "x"], {3}),
        (["rbash", "-c", "x"], {2}),
        (["bash", "--norc", "-c", "x"], {3}),
        (["bash", "--rcfile", "f", "-c", "x"], {4}),
        (["bash", "-c", "-e", "x"], {3}),
        (["timeout", "5", "dash", "-c", "x"], {4}),
        (["busybox", "sh", "-c", "x"], {3}),
        (["sh", "script.sh", "-c", "x"], set()),
        (["python3", "-c", "x"], set()),
        (["sh", "-c"], set()),
        (["sh"], set()),
        ([], set()),
    ],
)
def test_which_words_a_shell_runs(command: list[str], found: set[int]) -> None:
    assert shell_texts(command) == found
