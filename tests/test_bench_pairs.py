"""The small comparison of CI: a commit that the clone does not have fails nothing."""

import subprocess
import sys
from pathlib import Path


def test_an_unknown_commit_is_named_and_fails_nothing() -> None:
    words = [sys.executable, "-m", "benchmarks.quick", "--pairs", "no-such-commit"]
    done = subprocess.run(
        words, cwd=Path(__file__).parents[1], check=False, stdout=subprocess.PIPE, text=True
    )
    assert done.returncode == 0
    assert done.stdout.startswith("no comparison with no-such-commit: ")
