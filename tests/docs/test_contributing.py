"""The table of files to touch names files that are there, and holds where that can be seen in the code."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "pilotage"
TABLE = (ROOT / "CONTRIBUTING.md").read_text().partition("## Files to touch")[2]


def test_every_file_of_the_table_is_there() -> None:
    named = re.findall(r"`([a-z_/]+(?:\.py|/))`", TABLE)
    assert len(named) >= 10
    assert [name for name in named if not (SOURCE / name).exists()] == []


def modules_naming(pattern: str, under: Path = SOURCE) -> set[str]:
    """Modules in whose text a pattern stands."""
    return {
        str(path.relative_to(SOURCE)) for path in under.rglob("*.py") if re.search(pattern, path.read_text())
    }


def test_a_check_is_one_file() -> None:
    """No other module imports a check: the package finds them."""
    checks = [
        name
        for path in (SOURCE / "brokerage" / "production" / "checks").glob("[a-z]*.py")
        for name in re.findall(r"@check\((?:[^()]|\([^()]*\))*\)\ndef (\w+)", path.read_text())
    ]
    assert len(checks) > 15
    for name in checks:
        assert modules_naming(rf"production.checks\S* import .*\b{name}\b") == set(), name


def test_a_step_is_one_file_and_its_policy() -> None:
    """Nothing but the table of steps imports a step."""
    for path in (SOURCE / "flow" / "steps").glob("[a-z]*.py"):
        importers = modules_naming(
            rf"from (pilotage\.flow)?\.*steps(\.{path.stem})? import .*\b{path.stem}\b"
        )
        assert importers <= {"flow/steps/__init__.py"}, (path.stem, importers)


def test_a_command_is_one_file_and_the_application() -> None:
    app = (SOURCE / "cli" / "app.py").read_text()
    for path in (SOURCE / "cli").glob("*.py"):
        if re.search(r"^@app\.command", path.read_text(), re.MULTILINE):
            assert re.search(rf"\b{path.stem}\b", app), path.stem


def test_adapters_are_known_by_their_entry_points_alone() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    for group, room in (("computing", "computing"), ("movers", "movers")):
        found = project.partition(f'[project.entry-points."pilotage.{group}"]')[2].partition("[")[0]
        assert re.findall(rf'= "pilotage\.{room}\.', found), group
