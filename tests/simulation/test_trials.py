"""Whole runs: limits of sites hold, faults show in the metrics, and runs are compared seed by seed."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from pilotage.cli.app import app
from pilotage.cli.planning.simulating import _cell
from pilotage.model.records.constants import BindingConstants
from pilotage.simulation import baselines
from pilotage.simulation.metrics import Metrics
from pilotage.simulation.outcomes import Unended
from pilotage.simulation.pictures import SHOWN, ratios, runs
from pilotage.simulation.policies import KNOWN, changed
from pilotage.simulation.reading import read
from pilotage.simulation.scenario import Spell
from pilotage.simulation.submissions import submissions
from pilotage.simulation.trials import Trial, compared, run

NONE = Unended(states={}, refused={})
FEDERATION = Path(__file__).parents[2] / "examples" / "simulation" / "federation.yaml"
SVG = "{http://www.w3.org/2000/svg}"
FEW = """
name: few
federation: federation.yaml
default_site: { wait: 60, wait_spread: 0.5 }
generated:
  { tasks: 1, jobs: 4, arrivals: 1, work: 600, nucleus: north, users: [{ name: alice, share: production }] }
"""
SMALL = """
name: small
federation: federation.yaml
default_site: { wait: 60, wait_spread: 0.5 }
generated:
  tasks: 3
  jobs: 8
  arrivals: 1000
  work: 6000
  file_size: 100
  nucleus: north
  users: [{ name: alice, share: production }]
"""


def small(folder: Path, extra: str = "", scenario: str = SMALL) -> Path:
    (folder / "federation.yaml").write_text(FEDERATION.read_text())
    path = folder / "small.yaml"
    path.write_text(scenario + extra)
    return path


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    """The small scenario, as it is."""
    return trial(small(tmp_path_factory.mktemp("plain")))


def trial(path: Path, policy: str = "pilotage", seed: int = 1) -> Trial:
    case = read(path)
    return run(case, policy, seed, submissions(case, seed))


def test_a_run_whose_task_is_refused_says_why_in_words(tmp_path: Path) -> None:
    case = read(small(tmp_path, scenario=FEW))
    (given,) = submissions(case, 1)
    unknown = replace(given, spec=replace(given.spec, share="other"))
    with pytest.raises(ValueError, match="refused 1 task, the first because of share: there is no"):
        run(case, "pilotage", 1, [unknown])


@pytest.mark.slow
def test_all_work_is_done_once_and_again_the_same(tmp_path: Path, plain: Trial) -> None:
    one, again = plain.metrics, trial(small(tmp_path)).metrics
    assert one == again
    assert (one.lost, one.unfinished, one.attempts) == (0, 0, 1)
    assert 0 <= one.work <= 1.0001
    assert 0 < one.cpu_efficiency <= 1
    assert one.moved > 0
    assert 0 < one.done_99_bound <= one.done_99
    assert 0 < one.task_time_bound <= one.task_time


@pytest.mark.slow
def test_e5_pilots_that_stay_as_long_as_new_ones_wait_take_what_comes_meanwhile(tmp_path: Path) -> None:
    scenario = SMALL.replace("wait: 60,", "wait: 900,").replace("arrivals: 1000", "arrivals: 5000")
    path = small(tmp_path, scenario=scenario)
    leaving, staying = trial(path, "leaving").metrics, trial(path, "elastic").metrics
    assert staying.wait < leaving.wait
    assert staying.pilots < leaving.pilots
    assert staying.cpu_efficiency < leaving.cpu_efficiency


@pytest.mark.slow
def test_the_reference_waits_and_moves_for_nothing(tmp_path: Path, plain: Trial) -> None:
    assert trial(small(tmp_path), "reference").metrics.task_time < plain.metrics.task_time


@pytest.mark.slow
def test_the_reference_has_the_faults_of_its_sites(tmp_path: Path) -> None:
    path = small(tmp_path, scenario=SMALL.replace("wait: 60,", "wait: 60, payload_fails: 0.3,"))
    assert trial(path, "reference").metrics.attempts > 1.1


@pytest.mark.slow
def test_a_site_never_runs_more_than_its_slots(tmp_path: Path) -> None:
    slow = trial(
        small(tmp_path, "sites: {north: {slots: 1}, east: {slots: 1}, south: {slots: 1}, west: {slots: 1}}\n")
    )
    work = submissions(read(tmp_path / "small.yaml"), 1)
    least = sum(sum(one.work) for one in work) / (12 + 10 + 8 + 10)
    assert slow.metrics.done_99 >= 0.9 * least
    assert slow.metrics.work <= 1.0001


@pytest.mark.slow
def test_payloads_that_fail_use_up_attempts(tmp_path: Path) -> None:
    path = small(tmp_path, scenario=SMALL.replace("wait: 60,", "wait: 60, payload_fails: 0.3,"))
    assert trial(path).metrics.attempts > 1.1


@pytest.mark.slow
def test_what_runs_in_an_outage_runs_again(tmp_path: Path) -> None:
    case = read(small(tmp_path))
    site = replace(case.scenario.default_site, outages=(Spell(begins=1500, ends=2500),))
    case = replace(case, scenario=replace(case.scenario, default_site=site))
    found = run(case, "pilotage", 1, submissions(case, 1)).metrics
    assert (found.lost, found.unfinished) == (0, 0)
    assert found.cpu_efficiency < 1


def made(policy: str, name: str, *values: float | None) -> list[Trial]:
    """A run for each value of a metric, all others of which are 1."""
    rest: dict[str, Any] = dict.fromkeys(Metrics.__dataclass_fields__, 1)
    return [
        Trial(policy=policy, seed=seed, metrics=Metrics(**{**rest, name: value}), unended=NONE, seconds=1)
        for seed, value in enumerate(values)
    ]


def test_differences_are_paired_by_seed() -> None:
    one = made("one", "task_time", 100, 1000, 10000)
    other = made("other", "task_time", 50, 500, 5000)
    found = compared([*one, *other])["other"]["task_time"]
    assert found.ratio == pytest.approx(0.5)
    assert [found.low, found.high] == pytest.approx([0.5, 0.5])


def test_seeds_without_short_jobs_are_left_out_of_the_mean_of_their_waits_and_of_its_ratio() -> None:
    found = compared([*made("one", "short_wait", 100, 300, None), *made("other", "short_wait", None, 600, 7)])
    assert [found[policy]["short_wait"].mean for policy in found] == [200, 303.5]
    assert found["other"]["short_wait"].ratio == pytest.approx(2)
    none = compared([*made("one", "short_wait", None), *made("other", "short_wait", None)])
    assert {(by["short_wait"].mean, by["short_wait"].ratio) for by in none.values()} == {(None, None)}
    assert _cell(none["other"]["short_wait"]) == "–"


def test_pictures_have_no_dot_where_a_run_has_no_short_job() -> None:
    for waits, dots in ((("short_wait", None, 60.0), 1), (("short_wait", None, None), 0)):
        found = made("one", *waits)
        drawn = ElementTree.fromstring(runs(found))
        assert len(drawn.findall(f".//{SVG}circle")) == 2 * (len(SHOWN) - 1) + dots
        assert ElementTree.fromstring(ratios(compared(found))) is not None


@pytest.mark.slow
def test_where_no_job_is_short_their_wait_is_absent_and_not_the_best(tmp_path: Path) -> None:
    text = FEW.replace("work: 600", "work: 36000, work_spread: 0")
    assert trial(small(tmp_path, scenario=text)).metrics.short_wait is None


@pytest.mark.slow
def test_the_command_prints_a_table_or_a_document(tmp_path: Path) -> None:
    path = str(small(tmp_path, scenario=FEW))
    runner = CliRunner()
    words = ["simulate", path, "--workers", "1", "--policy", "pilotage"]
    table = runner.invoke(app, [*words, "--policy", "bound"])
    assert table.exit_code == 0, table.output
    assert {"task time (s)", "moved (GB)"} <= {line.split("  ")[0] for line in table.stdout.splitlines()}
    document = json.loads(runner.invoke(app, [*words, "--json"]).stdout)
    assert document["runs"][0]["metrics"]["lost"] == 0
    assert document["compared"]["pilotage"]["wait"]["ratio"] is None


@pytest.mark.slow
def test_pictures_show_every_run_and_each_ratio(tmp_path: Path) -> None:
    words = [
        "simulate",
        str(small(tmp_path, scenario=FEW)),
        "--policy",
        "pilotage",
        "--policy",
        "random",
        "--seeds",
        "2",
        "--workers",
        "1",
    ]
    result = CliRunner().invoke(app, [*words, "--pictures", str(tmp_path / "new" / "pictures")])
    assert result.exit_code == 0, result.output
    drawn = {path.name: ElementTree.parse(path) for path in (tmp_path / "new" / "pictures").iterdir()}
    circles = {name: len(tree.findall(f".//{SVG}circle")) for name, tree in drawn.items()}
    assert circles["runs.svg"] == 2 * 2 * len(SHOWN)
    assert 0 < circles["ratios.svg"] <= len(SHOWN)


def test_a_folder_of_pictures_that_cannot_be_is_refused_before_any_run(tmp_path: Path) -> None:
    path = small(tmp_path)
    found = CliRunner().invoke(app, ["simulate", str(path), "--pictures", str(path / "below")])
    assert (found.exit_code, "cannot be made: Not a directory" in " ".join(found.output.split())) == (2, True)


def test_either_a_scenario_or_a_world_is_given() -> None:
    found = CliRunner().invoke(app, ["simulate"])
    assert (found.exit_code, "give a scenario" in found.output) == (2, True)


def test_an_unknown_policy_is_bad_input(tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["simulate", str(small(tmp_path)), "--policy", "nonsense"])
    assert found.exit_code == 2
    assert "there is no policy 'nonsense'; known: bound, " in found.output
    misspelt = CliRunner().invoke(app, ["simulate", str(small(tmp_path)), "--policy", "elatsic"])
    assert (misspelt.exit_code, "'elatsic'; did you mean elastic?" in misspelt.output) == (2, True)


@pytest.mark.slow
def test_random_placement_uses_every_queue_that_fits_and_ends_all_work(tmp_path: Path, plain: Trial) -> None:
    case = read(small(tmp_path))
    found = run(case, "random", 1, submissions(case, 1)).metrics
    assert (found.lost, found.unfinished) == (0, 0)
    assert found.moved > plain.metrics.moved


@pytest.mark.slow
def test_of_three_queues_the_first_pilot_takes_a_job_and_reads_what_lies_elsewhere(tmp_path: Path) -> None:
    path = small(tmp_path)
    racing, alone = trial(path, "race").metrics, trial(path, "random").metrics
    assert (racing.lost, racing.unfinished, racing.attempts) == (0, 0, 1)
    assert racing.wait < alone.wait


@pytest.mark.slow
def test_jobs_wait_for_a_pilot_at_their_input_and_go_elsewhere_once_they_were_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = small(
        tmp_path, "sites: {north: {slots: 2}, east: {slots: 2}, south: {slots: 2}, west: {slots: 2}}\n"
    )
    delayed, racing = trial(path, "delayed").metrics, trial(path, "race").metrics
    assert (delayed.lost, delayed.unfinished, delayed.attempts) == (0, 0, 1)
    assert 0 < delayed.moved < racing.moved, "some were skipped for long enough"
    monkeypatch.setattr(baselines, "LOCAL_FOR", 1e9)
    strict = trial(path, "delayed").metrics
    assert (strict.moved, strict.unfinished) == (0, 0)
    assert strict.wait > delayed.wait


@pytest.mark.slow
def test_slots_that_stand_empty_while_jobs_wait_are_told_by_their_reason(tmp_path: Path) -> None:
    path = small(tmp_path, scenario=SMALL.replace("wait: 60,", "wait: 6000,"))
    found, ideal = trial(path).metrics, trial(path, "reference").metrics
    assert found.idle_batch > 1000, "pilots wait for hours"
    assert found.idle_batch > 10 * max(found.idle_pilot, found.idle_inputs)
    assert ideal.idle_batch < found.idle_batch / 10
    assert ideal.idle_inputs == 0


@pytest.mark.slow
def test_longer_ticks_are_coarser_and_do_the_same_work(tmp_path: Path, plain: Trial) -> None:
    coarse = trial(small(tmp_path, "tick: 300\n"))
    assert (coarse.metrics.jobs, coarse.metrics.lost) == (plain.metrics.jobs, 0)
    assert coarse.metrics.wait > plain.metrics.wait


@pytest.mark.parametrize("name", ["early", "bound"])
def test_policies_that_bind_once_do_so_in_federations_whose_jobs_may_be_borrowed(
    tmp_path: Path, name: str
) -> None:
    binding = BindingConstants(default="elastic", by_vo={"sim": "late"}, least_gain=60)
    federation = replace(read(small(tmp_path)).federation, binding=binding)
    found = changed(federation, KNOWN[name]).binding
    assert (found.default, found.by_vo, found.least_gain) == ("early", {}, 60)
