"""Values in the texts of shells: variables hold them, so that a shell never reads a value as code.

The text ``wc -l {sample}`` becomes ``PILOTAGE_PARAMETER_sample='a b'; wc -l "${PILOTAGE_PARAMETER_sample}"``.
Should this module misread a quote, a word may come out wrong, but no value runs.
"""

import re
from collections.abc import Mapping, Sequence
from shlex import quote

from .placeholders import parts

SHELLS = frozenset(
    {"sh", "bash", "rbash", "dash", "ash", "ksh", "rksh", "lksh", "mksh", "yash", "posh", "zsh"}
)
OTHER_SHELLS = frozenset({"csh", "tcsh", "fish", "pwsh", "nu"})
"""Shells whose variables are written otherwise."""

VARIABLE = "PILOTAGE_PARAMETER_"
"""Begins the name of the variable that holds a parameter."""

NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")

_WITH_WORD = re.compile(r"[-+][A-Za-z]*[oO][A-Za-z]*|--(rcfile|init-file)")
_CALCULATED = re.compile(r"\$\{[#!]?[A-Za-z0-9_@*]+(\[[^\]}]*|:(?![-=?+])[^}]*)$")
"""The end of a text within ``${name[`` or ``${name:1:``: a shell calculates what follows."""
_REMEMBERED = 300
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
            if option == "--":
                break
        else:
            at += at < len(command) and command[at] == "-"
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
        within = self._within[-1]
        if within in {"plain", "double", "backquote"} and _CALCULATED.search(self._last):
            return "arithmetic"
        return {"backquote": "plain", "bracket": "arithmetic"}.get(within, within)

    def read(self, text: str) -> None:
        """Follow some more text."""
        for character in text:
            self._take(character)
            self._last = (self._last + character)[-_REMEMBERED:]

    def _take(self, character: str) -> None:
        within, last = self._within[-1], self._last[-1:]
        if within == "plain" and self._last.endswith("<<") and not self._last.endswith("<<<"):
            self.has_document |= character != "<"
        if self._escaped:
            self._escaped = False
        elif within in {"single", "ansi", "comment"}:
            self._escaped = within == "ansi" and character == "\\"
            self._end(character == ("\n" if within == "comment" else "'"))
        elif character == "\\":
            self._escaped = True
        elif character == "`":
            self._take_backquote()
        elif character == '"':
            if not self._end(within == "double"):
                self._within.append("double")
        elif character in "([":
            self._take_bracket(character, within, last)
        elif within != "double":
            self._take_plain(character, last)

    def _take_bracket(self, character: str, within: str, last: str) -> None:
        if character == "[":
            self._within += ["bracket"] if last == "$" else []
        elif within != "double":
            self._within.append(
                "arithmetic" if last == "(" or within in {"arithmetic", "bracket"} else "plain"
            )
        elif last == "$":
            self._within.append("plain")

    def _take_backquote(self) -> None:
        if "backquote" not in self._within:
            self._within.append("backquote")
            return
        while self._within.pop() != "backquote":
            pass

    def _end(self, is_over: bool) -> bool:
        if is_over and len(self._within) > 1:
            self._within.pop()
        return is_over

    def _take_plain(self, character: str, last: str) -> None:
        self._end(character == ")" or (character == "]" and self._within[-1] == "bracket"))
        if character == "'":
            self._within.append("ansi" if last == "$" else "single")
        elif character == "#" and (not last or last in " \t\n;&|()`") and self.state == "plain":
            self._within.append("comment")
