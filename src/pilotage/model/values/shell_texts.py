"""Values in the texts of shells: variables hold them, so that a shell never reads a value as code.

The text ``wc -l {sample}`` becomes ``PILOTAGE_PARAMETER_sample='a b'; wc -l "${PILOTAGE_PARAMETER_sample}"``.
Should this module misread a quote, a word may come out wrong, but no value runs.
"""

import re
from collections.abc import Mapping, Sequence
from shlex import quote

from .placeholders import parts

SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "mksh", "zsh"})
OTHER_SHELLS = frozenset({"csh", "tcsh", "fish", "pwsh", "nu"})
"""Shells whose variables are written otherwise."""

VARIABLE = "PILOTAGE_PARAMETER_"
"""Begins the name of the variable that holds a parameter."""

NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")

_WITH_WORD = re.compile(r"[-+][A-Za-z]*[oO]|--(rcfile|init-file)")
_QUOTED = {
    "plain": '"${%s}"',
    "double": "${%s}",
    "single": "'\"${%s}\"'",
    "ansi": "'\"${%s}\"$'",
    "arithmetic": "${%s}",
    "comment": "${%s}",
}


def shell_texts(command: Sequence[str], shells: frozenset[str] = SHELLS) -> set[int]:
    """Return which words of a command are code that a shell runs, after ``-c``."""
    found = set()
    for start, word in enumerate(command):
        if word.rpartition("/")[2] not in shells:
            continue
        at, has_code = start + 1, False
        while at < len(command) and command[at][:1] in ("-", "+") and len(command[at]) > 1:
            option = command[at]
            has_code |= option[0] == "-" and option[1] != "-" and "c" in option
            at += 2 if _WITH_WORD.fullmatch(option) else 1
        if has_code and at < len(command):
            found.add(at)
    return found


def in_shell(template: str, values: Mapping[str, str]) -> str:
    """Return a shell's text, with variables in place of names, and what these hold in front of it."""
    used: dict[str, str] = {}
    quoting, text = Quoting(), ""
    for kind, part in parts(template, strict=True):
        if kind != "name" or part not in values:
            quoting.read(part)
            text += part
        elif NUMBER.fullmatch(values[part]):
            quoting.read("0")
            text += values[part]
        else:
            used[part] = values[part]
            text += _QUOTED[quoting.state] % f"{VARIABLE}{part}"
            quoting.read("x")
    told = "".join(f"{VARIABLE}{name}={quote(value)}; " for name, value in used.items())
    return f"{told}{text}"


class Quoting:
    """Follows the quotes of a shell's text, character by character."""

    def __init__(self) -> None:
        self._within = ["plain"]
        self._escaped = False
        self._last = ""
        self.has_document = False
        """Whether a here-document, ``<<END``, has begun."""

    @property
    def state(self) -> str:
        """The kind of quotes that the next character is in: plain, double, single, ansi, comment or
        arithmetic."""
        return self._within[-1]

    def read(self, text: str) -> None:
        """Follow some more text."""
        for character in text:
            self._take(character)
            self._last = (self._last + character)[-3:]

    def _take(self, character: str) -> None:
        if self._escaped:
            self._escaped = False
        elif self.state in {"single", "ansi"}:
            self._escaped = self.state == "ansi" and character == "\\"
            self._end(character == "'")
        elif self.state == "comment":
            self._end(character == "\n")
        elif character == "\\":
            self._escaped = True
        elif character == '"':
            if not self._end(self.state == "double"):
                self._within.append("double")
        elif character == "(" and (self.state != "double" or self._last[-1:] == "$"):
            calculates = self._last[-1:] == "(" or self.state == "arithmetic"
            self._within.append("arithmetic" if calculates else "plain")
        elif self.state != "double":
            self._take_plain(character)

    def _end(self, is_over: bool) -> bool:
        if is_over and len(self._within) > 1:
            self._within.pop()
        return is_over

    def _take_plain(self, character: str) -> None:
        last = self._last[-1:]
        self._end(character == ")")
        if character == "'":
            self._within.append("ansi" if last == "$" else "single")
        elif character == "#" and (not last or last in " \t\n;&|()`") and self.state == "plain":
            self._within.append("comment")
        elif self._last.endswith("<<") and not self._last.endswith("<<<") and self.state == "plain":
            self.has_document |= character != "<"
