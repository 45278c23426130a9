"""What a run lost is told as lost, and makes no time shorter."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from pilotage.cli.app import app

from .test_trials import FEW, small, trial

pytestmark = pytest.mark.slow

BROKEN = FEW.replace("wait: 60,", "wait: 60, payload_fails: 1,") + "limit: 50000\n"
NEVER = FEW.replace("wait: 60,", "wait: 1.0e+6,") + "limit: 5000\n"


@pytest.mark.parametrize("scouts", [0, 2])
def test_what_fails_is_lost_with_all_that_ends_without_it_and_is_never_quick(
    tmp_path: Path, scouts: int
) -> None:
    text = BROKEN.replace("jobs: 4,", f"jobs: 40, scouts: {scouts},")
    found = trial(small(tmp_path, scenario=text)).metrics
    assert (found.lost, found.unfinished) == (found.jobs, 0)
    assert found.lasted < 50_000
    assert found.done_99 == 50_000
    assert found.task_time == pytest.approx(50_000, abs=1)
    assert found.wait == pytest.approx(50_000, abs=1)
    assert found.attempts >= 1


def test_what_never_starts_is_unfinished_and_had_no_attempts(tmp_path: Path) -> None:
    found = trial(small(tmp_path, scenario=NEVER)).metrics
    assert (found.lost, found.unfinished, found.attempts) == (0, found.jobs, 0)
    assert (found.done_99, found.lasted) == (5000, 5000)
    assert found.wait == found.short_wait == found.wait_95 == pytest.approx(5000, abs=1)


def test_one_that_is_lost_of_many_waits_until_the_end_of_the_simulation(tmp_path: Path) -> None:
    """It has no place in the mean as one that started soon, and does not outweigh the others by a limit."""
    never = "{ task: { name: wide, share: production, cores: 64, scouts: 0 } }"
    most = "{ task: { name: most, share: production, jobs: 199, scouts: 0 }, work: 600 }"
    text = FEW.partition("generated:")[0] + f"tasks: [{most}, {never}]\nlimit: 20000\n"
    found = trial(small(tmp_path, scenario=text)).metrics
    assert (found.jobs, found.unfinished) == (200, 1)
    assert found.done_99 < found.lasted == 20_000
    assert found.task_time == pytest.approx((found.done_99 + 20_000) / 2, rel=0.1)
    others = found.wait * 200 - 20_000
    assert 0 < others / 199 < 1000


def test_jobs_that_were_not_made_by_the_limit_are_unfinished(tmp_path: Path) -> None:
    text = NEVER.replace("jobs: 4,", "jobs: 40, jobs_spread: 0, scouts: 2,")
    found = trial(small(tmp_path, scenario=text)).metrics
    assert (found.jobs, found.unfinished) == (40, 40)


def test_cores_that_serve_none_of_the_work_are_none_that_it_could_have_had(tmp_path: Path) -> None:
    path = small(tmp_path, scenario=FEW)
    before = trial(path).metrics
    declared = tmp_path / "federation.yaml"
    more = "queues:\n  - { name: huge, site: north, storage: north-disk, core_power: 900, vos: [nobody], "
    more += "computing_element: { max_pilots: 400 } }\n"
    declared.write_text(declared.read_text().replace("queues:\n", more))
    after = trial(path).metrics
    assert (after.done_99_bound, after.task_time_bound) == (before.done_99_bound, before.task_time_bound)


def test_where_jobs_are_left_and_what_keeps_them_out_is_told(tmp_path: Path) -> None:
    waiting = "{ task: { name: waits, share: production, jobs: 3, scouts: 0 } }"
    too_wide = "{ task: { name: wide, share: production, cores: 64, jobs: 2, scouts: 0 } }"
    text = NEVER.partition("generated:")[0] + f"tasks: [{waiting}, {too_wide}]\nlimit: 5000\n"
    path = small(tmp_path, scenario=text)
    found = trial(path).unended
    assert (found.states, found.refused) == ({"activated": 3, "pending": 2}, {"B13 cores": 2})
    told = CliRunner().invoke(app, ["simulate", str(path)])
    line = "pilotage, seed 1: jobs left at the limit: 3 activated, 2 pending; refused 2 by B13 cores\n"
    assert line in told.stderr


def test_jobs_of_a_log_that_are_wider_than_what_is_taken_are_told(tmp_path: Path) -> None:
    rest = "-1 -1 -1 -1 -1 1 7 -1 -1 0 -1 -1 -1"
    (tmp_path / "log").write_text("".join(f"{n} 0 -1 60 {n} {rest}\n" for n in (1, 2, 3)))
    text = FEW.partition("generated:")[0] + "swf: { path: log }\n"
    path = small(tmp_path, scenario=text)
    told = CliRunner().invoke(app, ["simulate", str(path)])
    assert "log: 2 of the 3 jobs that ran are wider than most_cores (1), and left out\n" in told.stderr
