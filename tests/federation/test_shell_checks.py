"""No value of a parameter is code for a shell: what shells would read as code is refused, the rest runs."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from pilotage.federation.faults import field_name
from pilotage.federation.shell_checks import shell_faults
from pilotage.model.records.work import TaskSpec
from pilotage.model.values.placeholders import VARIABLE, filled

VALUES = ("$(touch BAD)", "`touch BAD`", ";touch BAD;", "'; touch BAD; '", '"; touch BAD; "', "\ntouch BAD\n")
OPTIONS = ("-c", "-ec", "-s")


def spec(*command: str, **fields: Any) -> TaskSpec:
    return TaskSpec(name="t", command=command, parameters=({"k": "1"},), **fields)


REFUSED = [
    (spec("sh", "-c", "echo {k}"), "command[2]"),
    (spec("sh", "-c", "echo '{k}'"), "command[2]"),
    (spec("sh", "-c", 'echo "{k}"'), "command[2]"),
    (spec("bash", "-c", 'echo $(( "{k}" ))'), "command[2]"),
    (spec("bash", "-c", "a[{k}]=1"), "command[2]"),
    (spec("bash", "-c", "x='{k}'; echo ${{x@P}}"), "command[2]"),
    (spec("sh", "-c", "trap '{k}' EXIT"), "command[2]"),
    (spec("sh", "-c", "cat <<E\n{k}\nE"), "command[2]"),
    (spec("timeout", "5", "/bin/bash", "-euo", "pipefail", "-c", "echo {k}"), "command[6]"),
    (spec("bash", "-oe", "pipefail", "-c", "--", "echo {k}"), "command[5]"),
    (spec("sh", "{k}", "touch BAD"), "command[1]"),
    (spec("sh", "-{k}", "touch BAD"), "command[1]"),
    (spec("sh", "-c", 'exec "$@"', "sh", "bash", "-c", "echo {k}"), "command[6]"),
    (spec("sh", stdin="echo {k}\n"), "stdin"),
    (spec("sh", stdin="{k}"), "stdin"),
    (spec("sh", "-s", "x", stdin="echo {k}\n"), "stdin"),
    (spec("bash", "-c", "true", environment={"BASH_ENV": "{k}"}), "environment.BASH_ENV"),
    *((spec(shell, "-c", "echo {k}"), "command[2]") for shell in ("csh", "fish", "pwsh", "nu")),
    (spec("fish", "--command=echo {k}"), "command[1]"),
    (spec("pwsh", "-Command", "echo {k}"), "command[2]"),
]


@pytest.mark.parametrize(("task", "field"), REFUSED)
def test_what_a_shell_reads_as_code_takes_no_parameter(task: TaskSpec, field: str) -> None:
    (fault,) = shell_faults(task)
    assert field_name(fault.path) == field
    assert f'"${VARIABLE}k" in double quotes' in fault.remedy


TAKEN = [
    spec("sh", "-c", f'echo "${VARIABLE}k"'),
    spec("sh", "-c", 'echo "$1"', "sh", "{k}"),
    spec("bash", "-euc", "echo \"$1\" '{index}'", "bash", "{k}"),
    spec("sh", "-c", "cat", stdin="{k}\n"),
    spec("sh", "./script", "{k}"),
    spec("sh", "--", "{k}"),
    spec("sh", "./{k}"),
    spec("cat", stdin="{k}\n"),
    spec("env", "A={k}", "true"),
]


@pytest.mark.parametrize("task", TAKEN)
def test_no_value_of_what_is_taken_runs(task: TaskSpec, tmp_path: Path) -> None:
    assert not [*shell_faults(task)]
    (tmp_path / "script").write_text('echo "$1"\n')
    for value in (*VALUES, *OPTIONS):
        values = {"k": value, "index": "0"}
        words = [filled(word, values, strict=True) for word in task.command]
        subprocess.run(
            words,
            input=filled(task.stdin, values, strict=True),
            env={"PATH": "/usr/bin:/bin", f"{VARIABLE}k": value},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert not (tmp_path / "BAD").exists(), value
