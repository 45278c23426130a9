"""Faults of parameters in texts that a shell reads as code. No quotes are safe there for every value."""

import re
from collections.abc import Iterator, Sequence

from pilotage.federation.faults import Fault, Path
from pilotage.model.records.spec import TaskSpec
from pilotage.model.values.placeholders import OWN, VARIABLE, names

SHELLS = frozenset(
    "sh bash rbash dash ash ksh rksh lksh mksh yash posh zsh csh tcsh fish pwsh nu".split()  # noqa: SIM905
)
CODE_VARIABLES = ("BASH_ENV", "ENV", "PS4")
"""Variables that shells expand as code."""

_WITH_WORD = re.compile(r"[-+][A-Za-z]*[oO][A-Za-z]*|--(rcfile|init-file)")


def shell_faults(spec: TaskSpec) -> Iterator[Fault]:
    """Yield a fault for each text that names a parameter and that a shell would read as code.

    These are options of a shell, its text behind ``-c``, its standard input, and ``CODE_VARIABLES``. The
    name of a script may contain a parameter, but not begin with one: that could become an option.
    """
    command, at = spec.command, 0
    while at < len(command):
        at += 1
        if command[at - 1].rpartition("/")[2] not in SHELLS:
            continue
        operand, options = _operand(command, at)
        has_code = any(map(_announces_code, options))
        for word in range(at, min(operand + has_code, len(command))):
            yield from _fault(("command", word), command[word])
        if has_code:
            at = operand + 2  # the word behind the text is a name for it, such as sh
            continue
        if operand < len(command) and command[operand][:1] == "{" and "--" not in options:
            yield from _fault(("command", operand), command[operand])
        if operand >= len(command) or any("s" in option for option in options):
            yield from _fault(("stdin",), spec.stdin)
    for name in CODE_VARIABLES:
        yield from _fault(("environment", name), spec.environment.get(name, ""))


def _operand(command: Sequence[str], start: int) -> tuple[int, list[str]]:
    """Return the place of a shell's text or script, and the options in front of it."""
    at, options = start, list[str]()
    while at < len(command) and command[at][:1] in ("-", "+"):
        options.append(command[at])
        at += 2 if _WITH_WORD.fullmatch(command[at]) else 1
        if options[-1] in ("-", "--"):
            break
    return at, options


def _announces_code(option: str) -> bool:
    """Return whether the shell's text follows after an option: -c, -ec, --command, -Command."""
    return option.lower().startswith("--c") or (
        option[:1] == "-" and option[1:2] != "-" and "c" in option.lower()
    )


def _fault(path: Path, text: str) -> Iterator[Fault]:
    for name in names(text, strict=True):
        if name not in OWN:
            remedy = (
                f'write "${VARIABLE}{name}" in double quotes there, or hand it over behind the text: '
                f"[sh, -c, TEXT, sh, {{{name}}}]"
            )
            yield Fault(path, f"is read by a shell, and values of {{{name}}} may be code for it", remedy)
            return
