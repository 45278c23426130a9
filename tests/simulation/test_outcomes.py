"""What a run lost is told as lost, and makes no time shorter."""

from pathlib import Path

import pytest

from .test_trials import FEW, small, trial

pytestmark = pytest.mark.slow

BROKEN = FEW.replace("wait: 60,", "wait: 60, payload_fails: 1,") + "limit: 50000\n"
NEVER = FEW.replace("wait: 60,", "wait: 1.0e+6,") + "limit: 5000\n"


@pytest.mark.parametrize("scouts", [0, 2])
def test_what_fails_is_lost_with_all_that_ends_without_it_and_takes_as_long_as_the_limit(
    tmp_path: Path, scouts: int
) -> None:
    text = BROKEN.replace("jobs: 4,", f"jobs: 40, scouts: {scouts},")
    found = trial(small(tmp_path, scenario=text)).metrics
    assert (found.lost, found.unfinished) == (found.jobs, 0)
    assert found.lasted < 50_000
    assert found.done_99 == 50_000
    assert found.task_time == pytest.approx(50_000, abs=1)
    assert found.attempts >= 1


def test_what_never_starts_is_unfinished_and_had_no_attempts(tmp_path: Path) -> None:
    found = trial(small(tmp_path, scenario=NEVER)).metrics
    assert (found.lost, found.unfinished, found.attempts) == (0, found.jobs, 0)
    assert (found.done_99, found.lasted) == (5000, 5000)


def test_jobs_that_were_not_made_by_the_limit_are_unfinished(tmp_path: Path) -> None:
    text = NEVER.replace("jobs: 4,", "jobs: 40, jobs_spread: 0, scouts: 2,")
    found = trial(small(tmp_path, scenario=text)).metrics
    assert (found.jobs, found.unfinished) == (40, 40)
