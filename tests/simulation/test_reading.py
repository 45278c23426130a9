"""Scenarios: bad input is refused with its place, work is the same for the same seed."""

from pathlib import Path

import pytest

from pilotage.federation.faults import BadFile
from pilotage.request_budget import MOST_FAULTS
from pilotage.simulation.reading import Case, read
from pilotage.simulation.scenario import expected_jobs
from pilotage.simulation.submissions import submissions

EXAMPLES = Path(__file__).parents[2] / "examples" / "simulation"
BEGIN = "name: s\nfederation: federation.yaml\n"


def case(folder: Path, text: str, vos: str = "[]") -> Case:
    declared = (EXAMPLES / "federation.yaml").read_text()
    declared = declared.replace("max_pilots:", "pilot_slots: 3, max_pilots:")
    (folder / "federation.yaml").write_text(declared.replace("core_power:", f"vos: {vos}\n    core_power:"))
    (folder / "scenario.yaml").write_text(BEGIN + text)
    return read(folder / "scenario.yaml")


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("[!f]*.yaml")), ids=lambda path: path.stem)
def test_the_examples_are_sound(path: Path) -> None:
    found = read(path)
    assert submissions(found, 1)
    # What simulated.md tells of the policies pilotage and reference holds of federations that bind early.
    assert found.federation.binding.default == "early"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "scenario.yaml:1: no work is given"),
        ("generated: {}\nswf: {path: log}\n", "work is given by generated and swf"),
        ("generated: {taks: 3}\n", "scenario.yaml:3: generated.taks: "),
        ("generated: {tasks: 0}\n", "scenario.yaml:3: generated.tasks: "),
        (
            "generated:\n  tasks: 100000\n  jobs: 100000\n  jobs_spread: 0\n",
            "scenario.yaml:5: generated.jobs: some 1e+10 jobs in all would be drawn; give fewer tasks "
            "or jobs, for at most 10000000 in all",
        ),
        ("generated: {}\nperiod: 1.0e-9\n", "scenario.yaml:4: period: 1e-09 is below 1; give seconds"),
        ("generated: {}\ntick: 1.0e-9\n", "scenario.yaml:4: tick: 1e-09 is below 1; give 1 or more"),
        (
            "generated: {}\nheartbeat: 1.0e-9\n",
            "scenario.yaml:4: heartbeat: 1e-09 is below 1; give seconds",
        ),
        (
            "generated: {}\npolicies: {mine: {constants: {loops: {heartbeat: 0.5}}}}\n",
            "scenario.yaml:4: policies.mine.constants.loops.heartbeat: 0.5 is below 1; give seconds",
        ),
        ("generated: {nucleus: mars}\n", "generated.nucleus: the federation has no site mars"),
        (
            "generated: {}\nsites: {mars: {wait: 3}}\n",
            "scenario.yaml:4: sites.mars: the federation has no site",
        ),
        (
            "generated: {}\nstorages: {mars-disk: {outages: [{begins: 1, ends: 2}]}}\n",
            "scenario.yaml:4: storages.mars-disk: the federation has no storage",
        ),
        (
            "generated: {}\nstorages:\n  north-disk: {outages: [{begins: 5, ends: 5}]}\n",
            "the spell ends before it begins",
        ),
        (
            "generated: {}\ndefault_site:\n  outages: [{begins: 5, ends: 5}]\n",
            "scenario.yaml:5: default_site.outages[0].ends: the spell ends before it begins",
        ),
        (
            "generated: {users: [{name: eve, share: gold}]}\n",
            "generated.users[0].share: the federation has no share gold; it has production, analysis",
        ),
        ("tasks: [{task: {name: t, nucleus: mars}}]\n", "tasks[0].task.share: "),
        ("generated: {}\npolicies: {early: {}}\n", "policies.early: the policy early is known already"),
        ("generated: {}\npolicies: {reference: {}}\n", "policies.reference: the policy reference is known"),
        (
            "generated: {}\npolicies: {mine: {queues: {computing_element: {max_pilots: 3}}}}\n",
            "policies.mine.queues.computing_element: computing elements are virtual here",
        ),
        (
            "generated: {}\nsites:\n  north: {slots: 2}\n  east: {slots: 3}\n",
            "scenario.yaml:5: sites.north.slots: no pilot of north-queue starts: each takes 3 slots "
            "(pilot_slots), there are 2; give 3 or more",
        ),
        (
            "generated: {}\nsites:\n  north: {slots: 3, slots_taken: 0.1}\n",
            "scenario.yaml:5: sites.north.slots: no pilot of north-queue starts: each takes 3 slots "
            "(pilot_slots), there are 3, of which others take some (slots_taken); give 4 or more",
        ),
        (
            "tasks: [{task: {name: t, binding: sometimes}, vo: ü}]\n",
            "tasks[0].task.binding: 'sometimes' is none of early, elastic, late; give one of them",
        ),
        (
            "tasks: [{task: {name: t, share: main, inputs: [{storages: [home], glob: 'raw/*'}]}}]\n",
            "tasks[0].task.inputs[0]: virtual storages list no files; name each file, with size and replicas",
        ),
        ("generated: {}\npolicies: {mine: {without: [broker]}}\n", "the step broker cannot be left out"),
        (
            "generated: {}\npolicies: {mine: {constants: {guard: {rows: 3}}}}\n",
            "scenario.yaml:4: policies.mine.constants.guard.rows: there is no such field; known: ",
        ),
        (
            "generated: {}\npolicies: {mine: {constants: {name: {x: 3}}}}\n",
            "scenario.yaml:4: policies.mine.constants.name: a federation has no constants of this name",
        ),
        (
            "generated: {}\npolicies: {mine: {queues: {num_slots: many}}}\n",
            "scenario.yaml:4: policies.mine.queues.num_slots: 'many' is not a whole number; give digits",
        ),
        (
            "generated: {}\npolicies:\n  mine:\n    constants:\n      guard: {in_a_row: -5}\n",
            "scenario.yaml:7: policies.mine.constants.guard.in_a_row: -5 is below 1; give 1 or more",
        ),
    ],
)
def test_bad_scenarios_are_refused_with_the_place(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(BadFile) as caught:
        case(tmp_path, text)
    assert told in str(caught.value)
    assert "none of ;" not in str(caught.value)


LOGGED = "{number} {at} -1 60 1 -1 -1 -1 -1 -1 1 7 -1 -1 0 -1 -1 -1\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "generated: {arrivals: 700000}\n",
            "scenario.yaml:3: generated.arrivals: tasks come later than 604800 s after the beginning, when "
            "the simulation ends (limit); give limit: 700001 or more, or less work",
        ),
        (
            "limit: 100\ntasks: [{task: {name: t}}, {at: 101, task: {name: u}}, {at: 150.5, task: {name: v}}]"
            "\n",
            "tasks: 2 of 3 tasks come later than 100 s after the beginning, when the simulation ends "
            "(limit); give limit: 151 or more",
        ),
        (
            "swf: {path: log}\nlimit: 100\n",
            "scenario.yaml:3: swf.jobs: 2 of 4 tasks come later than 100 s after the beginning, when the "
            "simulation ends (limit); give limit: 301 or more, or less work, or draw it together with faster",
        ),
    ],
)
def test_work_that_comes_after_the_limit_is_refused_with_the_limit_that_would_do(
    tmp_path: Path, text: str, told: str
) -> None:
    lines = [LOGGED.format(number=number, at=100 + 100 * number) for number in range(4)]
    (tmp_path / "log").write_text("".join(lines))
    with pytest.raises(BadFile) as caught:
        case(tmp_path, text)
    assert told in str(caught.value)


def test_a_log_may_begin_with_the_mark_of_its_encoding(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("\ufeff; a comment\n" + LOGGED.format(number=1, at=0))
    assert len(case(tmp_path, "swf: {path: log}\n").log) == 1


def test_users_of_a_log_have_a_vo_that_is_served(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(LOGGED.format(number=1, at=0))
    with pytest.raises(
        BadFile, match=r"swf\.vo: no queue that is online serves VO swf; these are served: atlas"
    ):
        case(tmp_path, "swf: {path: log}\n", vos="[atlas]")
    (one,) = submissions(case(tmp_path, "swf: {path: log, vo: atlas}\n", vos="[atlas]"), 1)
    assert one.owner.vo == "atlas"


def test_faults_of_a_scenario_are_told_up_to_a_bound_and_name_a_few_sites(tmp_path: Path) -> None:
    declared = (EXAMPLES / "federation.yaml").read_text()
    more = "".join(f"  - {{ name: more-{number} }}\n" for number in range(50))
    (tmp_path / "federation.yaml").write_text(declared.replace("sites:\n", f"sites:\n{more}"))
    unknown = ", ".join(f"mars-{number}: {{}}" for number in range(MOST_FAULTS + 500))
    (tmp_path / "scenario.yaml").write_text(f"{BEGIN}generated: {{}}\nsites: {{{unknown}}}\n")
    with pytest.raises(BadFile) as caught:
        read(tmp_path / "scenario.yaml")
    assert len(caught.value.faults) == MOST_FAULTS
    assert caught.value.faults[0].remedy.endswith("more-9, ...")


@pytest.mark.parametrize("text", ['swf: {path: "a\\0b"}\n', 'federation: "a\\0b"\ngenerated: {}\n'])
def test_a_path_that_no_file_can_have_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "federation.yaml").write_text((EXAMPLES / "federation.yaml").read_text())
    path = tmp_path / "scenario.yaml"
    path.write_text((BEGIN if "swf" in text else "name: s\n") + text)
    with pytest.raises(BadFile, match="a\0b: is not a path: embedded null byte; give one without"):
        read(path)


def test_a_file_that_is_not_there_is_told_with_the_line_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text("name: s\nfederation: nofed.yaml\n")
    with pytest.raises(BadFile) as caught:
        read(path)
    none, missing = str(caught.value).splitlines()
    assert none.startswith(f"{path}:1: no work is given"), "its other faults are told, too"
    assert missing == f"{path}:2: federation: {tmp_path}/nofed.yaml: there is no such file; check the path"
    with pytest.raises(BadFile) as caught:
        case(tmp_path, "swf: {path: nolog}\n")
    told = f"{path}:3: swf.path: {tmp_path}/nolog: there is no such file; check the path"
    assert str(caught.value) == told


def test_a_bad_line_of_a_log_is_told(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("; a comment\n1 2 3\n")
    with pytest.raises(BadFile, match="log:2: has 3 fields, a job has 18"):
        case(tmp_path, "swf: {path: log}\n")


@pytest.mark.parametrize(
    ("number", "told"),
    [
        ("-10000000001", r"holds a number beyond 1e\+10; "),
        *(
            (word, f"is '{word}', which is no number of")
            for word in ("nan", "inf", "-1e300", "1_000", "٣", "1-2")
        ),
    ],
)
@pytest.mark.parametrize("field", [0, 1, 3, 4, 11])
def test_a_log_with_an_absurd_number_is_refused_with_its_line(
    tmp_path: Path, number: str, told: str, field: int
) -> None:
    words = ["1", "100", "-1", "60", *["1"] * 14]
    words[field] = number
    (tmp_path / "log").write_text("; a comment\n" + " ".join(words))
    with pytest.raises(BadFile, match=f"log:2: .*{told}") as caught:
        case(tmp_path, "swf: {path: log}\n")
    assert "give 18 numbers, -1 for what is not known" in str(caught.value)


def test_a_job_of_a_log_that_ran_was_submitted_after_the_log_began(tmp_path: Path) -> None:
    never_ran = LOGGED.format(number=1, at=-1).replace(" 60 ", " -1 ")
    (tmp_path / "log").write_text(never_ran + LOGGED.format(number=2, at=-5))
    with pytest.raises(BadFile, match="log:2: the job ran, and was submitted at -5, before the log began"):
        case(tmp_path, "swf: {path: log}\n")


def test_jobs_of_a_log_come_in_the_order_of_their_times(tmp_path: Path) -> None:
    lines = [LOGGED.format(number=number, at=at) for number, at in ((1, 300), (2, 100), (3, 200))]
    (tmp_path / "log").write_text("".join(lines))
    found = submissions(case(tmp_path, "swf: {path: log}\n"), 1)
    assert [(one.spec.name, one.at) for one in found] == [("job-2", 0), ("job-3", 100), ("job-1", 200)]


def test_a_log_of_which_no_job_is_taken_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("1 100 -1 60 8 -1 -1 -1 -1 -1 1 7 -1 -1 0 -1 -1 -1\n")
    with pytest.raises(BadFile, match="log: none of the 1 jobs that ran is taken; give other first"):
        case(tmp_path, "swf: {path: log}\n")


def test_a_log_gives_tasks_of_one_job(tmp_path: Path) -> None:
    rest = "-1 -1 -1 -1 -1 1 7 -1 -1 0 -1 -1 -1"
    lines = [
        f"1 100 -1 60 1 {rest}",
        f"2 150 -1 30 8 {rest}",
        f"3 160 -1 0 1 {rest}",
        f"4 300 -1 20 2 {rest}",
    ]
    (tmp_path / "log").write_text("\n".join(lines))
    found = submissions(case(tmp_path, "swf: {path: log, most_cores: 2, faster: 2}\n"), 1)
    assert [(one.at, one.spec.cores, one.work) for one in found] == [(0, 1, (600,)), (100, 2, (400,))]
    assert {one.owner.name for one in found} == {"user-7"}


def test_the_same_seed_gives_the_same_work(tmp_path: Path) -> None:
    drawn = case(tmp_path, "generated: {tasks: 5}\nestimate_spread: 1\n")
    assert submissions(drawn, 1) == submissions(drawn, 1) != submissions(drawn, 2)


@pytest.mark.parametrize("text", ["jobs: 30", "jobs: 100, short: 0.5", "jobs: 2, jobs_spread: 4"])
def test_as_many_jobs_are_expected_as_are_drawn(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("scenario", "submissions"):
        monkeypatch.setattr(f"pilotage.simulation.{module}.MOST_JOBS", 1000)
    drawn = case(tmp_path, f"generated: {{tasks: 300, {text}}}\n")
    assert drawn.scenario.generated
    jobs = [sum(one.spec.planned_jobs for one in submissions(drawn, seed)) for seed in (1, 2, 3)]
    assert expected_jobs(drawn.scenario.generated) == pytest.approx(sum(jobs) / 3, rel=0.2)


def test_estimates_differ_from_the_truth_by_their_spread_alone(tmp_path: Path) -> None:
    text = "generated: {tasks: 5, job_spread: 0}\nestimate_spread: "
    exact, wrong = (submissions(case(tmp_path, text + spread), 1) for spread in ("0", "2"))
    assert [one.spec.cpu_time for one in exact] == pytest.approx([one.work[0] for one in exact])
    assert sum(one.spec.cpu_time > 2 * one.work[0] or one.spec.cpu_time < one.work[0] / 2 for one in wrong)


def test_a_user_whose_vo_no_queue_serves_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="no queue that is online serves VO nobody; these are served: dune"):
        case(tmp_path, "generated: {users: [{name: alice, vo: nobody}]}\n", vos="[dune]")


@pytest.mark.parametrize(("status", "names"), [("offline", False), ("offline", True), ("standby", False)])
def test_a_site_may_be_too_small_for_pilots_of_a_queue_to_which_none_goes(
    tmp_path: Path, status: str, names: bool
) -> None:
    declared = (
        (EXAMPLES / "federation.yaml").read_text().replace("max_pilots:", "pilot_slots: 3, max_pilots:")
    )
    closed = declared.replace("name: north-queue", f"name: north-queue\n    status: {status}")
    (tmp_path / "federation.yaml").write_text(closed)
    queues = "[north-queue]" if names else "[]"
    path = tmp_path / "scenario.yaml"
    task = f"{{name: t, share: production, queues: {queues}}}"
    path.write_text(f"{BEGIN}sites: {{north: {{slots: 2}}}}\ntasks: [{{task: {task}}}]\n")
    if status == "offline" and not names:
        assert read(path)
    else:
        with pytest.raises(BadFile, match=r"sites\.north\.slots: no pilot of north-queue starts"):
            read(path)


def test_a_part_of_the_tasks_is_multi_core(tmp_path: Path) -> None:
    found = submissions(case(tmp_path, "generated: {tasks: 40, cores: 8, multicore: 0.5}\n"), 1)
    assert {one.spec.cores for one in found} == {1, 8}
