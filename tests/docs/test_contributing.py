"""The table of files to touch names files that are there, and holds where that can be seen in the code."""

import re
from functools import cache
from pathlib import Path

from pilotage.flow.steps import STEPS
from pilotage.model.records.states import JOBS_AT_WORK, STATES
from pilotage.model.rules.timeouts import JOB_RULES
from pilotage.model.values import step_names

from .modules import SOURCE, modules

ROOT = Path(__file__).parents[2]
TABLE = (ROOT / "CONTRIBUTING.md").read_text().partition("## Files to touch")[2]


def test_every_file_of_the_table_is_there() -> None:
    named = re.findall(r"`([a-z_/]+(?:\.py|/))`", TABLE)
    assert len(named) >= 10
    assert [name for name in named if not (SOURCE / name).exists()] == []


def test_the_table_counts_the_files_that_it_names() -> None:
    rows = re.findall(r"^\| an? ([^|]+) \| (\d): (.*) \|$", TABLE, re.MULTILINE)
    assert len(rows) >= 9
    for thing, number, files in rows:
        paths = [path for path in re.findall(r"`([^`]+)`", files) if "/" in path or path.endswith(".toml")]
        parts = re.findall(r"\b(?:its|the) policy\b|\bthe (?:check or )?step that\b", files)
        assert int(number) == len(paths) + len(parts), (thing, paths, parts)


def modules_naming(pattern: str, word: str = "") -> set[str]:
    """Modules in whose text a pattern stands; a word that it holds is much faster to look for."""
    return {module for module, of in modules().items() if word in of.text and re.search(pattern, of.text)}


@cache
def imports() -> dict[str, str]:
    """The lines of each module that import something by ``from``."""
    return {
        module: "\n".join(re.findall(r"^ *from .*", of.text, re.MULTILINE))
        for module, of in modules().items()
    }


def modules_importing(pattern: str, word: str) -> set[str]:
    """Modules in which a pattern, which holds a word, stands in a line that imports."""
    return {module for module, lines in imports().items() if word in lines and re.search(pattern, lines)}


def test_a_check_is_one_file() -> None:
    """No other module imports a check: the package finds them. Waivers ask one themselves."""
    checks = [
        name
        for path in (SOURCE / "policies" / "brokerage" / "production" / "checks").glob("[a-z]*.py")
        for name in re.findall(r"@check\((?:[^()]|\([^()]*\))*\)\ndef (\w+)", path.read_text())
    ]
    assert len(checks) > 15
    for name in checks:
        importers = modules_importing(rf"production.checks\S* import .*\b{name}\b", name)
        assert importers <= {"policies/brokerage/production/waivers.py"}, name


def test_a_step_is_one_file_and_its_policy() -> None:
    """Nothing but the table of steps imports a step."""
    for path in (SOURCE / "flow" / "steps").glob("[a-z]*.py"):
        importers = modules_importing(
            rf"from (pilotage\.flow)?\.*steps(\.{path.stem})? import .*\b{path.stem}\b", path.stem
        )
        assert importers <= {"flow/steps/__init__.py"}, (path.stem, importers)


def test_a_step_has_the_name_of_its_module_and_no_other_module_writes_it_out() -> None:
    """A wake-up by a name that no step has would wake nobody, and nothing would tell."""
    names = {path.stem for path in (SOURCE / "flow" / "steps").glob("[a-z]*.py")}
    assert {name for word, name in vars(step_names).items() if word.isupper()} <= names
    assert {step.name for step in STEPS} == names
    for word, place in {
        "step=": r"\bstep=",
        "actor=": r"\bactor=f?",
        "wakeups.wake": r"\bwakeups\.wake(?:, |\()",
        "iterated(": r"\biterated\(",
        "plan(": r"\bplan\(",
        "commit(": r"\bcommit\(\w+, ",
        "joined(": r"\bjoined\(",
    }.items():
        assert modules_naming(rf'{place}"(?:{"|".join(names)})[":]', word) == set(), place


def test_a_field_of_a_task_is_four_files() -> None:
    """Fields that one check or step reads, with names of their own."""
    for name in ("only_tags", "nightlies", "direct_access_only", "copy_inputs", "sw_version", "site_rank"):
        assert len(modules_naming(rf"\b{name}\b", name)) <= 4, name


def test_sql_takes_states_from_their_table() -> None:
    """A state that a statement wrote out would be one more place to touch; migrations stay as they were."""
    values = "|".join(state for states in STATES.values() for state in states)
    written = modules_naming(rf"\b(?:state|source|target) (?:=|<>|IN) \(?'(?:{values})'")
    assert {name for name in written if "migrations" not in name} == set()


def test_a_state_of_jobs_at_work_has_its_time_out() -> None:
    """Jobs that wait to be merged last as long as their task."""
    assert {rule.state for rule in JOB_RULES} == set(JOBS_AT_WORK)


def test_functions_fit_a_screen_and_modules_hold_one_subject() -> None:
    """Forty lines and four hundred; migrations stay as they were."""
    found = []
    for name, module in modules().items():
        if "versions/" in name:
            continue
        if module.text.count("\n") > 400:
            found.append(f"{name}: {module.text.count(chr(10))} lines")
        found += [
            f"{name}:{function.line} {function.name}: {function.lines} lines"
            for function in module.functions
            if function.lines > 40
        ]
    assert sum(len(module.functions) for module in modules().values()) > 3000
    assert found == []


def test_a_command_is_one_file_and_the_list_of_commands() -> None:
    listed = (SOURCE / "cli" / "commands.py").read_text()
    for path in (SOURCE / "cli").rglob("*.py"):
        if re.search(r"^@app\.command", path.read_text(), re.MULTILINE):
            assert re.search(rf"\b{path.stem}\b", listed), path.stem


def test_adapters_are_known_by_their_entry_points_alone() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    for group, room in (("computing", "adapters.computing"), ("movers", "adapters.movers")):
        found = project.partition(f'[project.entry-points."pilotage.{group}"]')[2].partition("[")[0]
        assert re.findall(rf'= "pilotage\.{room}\.', found), group
