"""Placeholders in the texts of a task, such as ``{index}`` in a command, which differ from job to job.

Two rules tell a placeholder from other braces. In a task without parameters, only ``{index}``, ``{seed}`` and
``{first_event}`` are placeholders, and neither ``${index}`` nor ``{{index}}``: all other texts stay as they
are, such as ``awk '{print $1}'``. In a task with parameters, every ``{NAME}`` is a placeholder, and other
braces are doubled: ``{{`` becomes ``{``, and ``}}`` becomes ``}``.
"""

import re
from collections.abc import Iterator, Mapping

OWN = ("index", "seed", "first_event")
"""Names that Pilotage gives to every job."""

VARIABLE = "PILOTAGE_PARAMETER_"
"""Begins the name of the variable that holds a parameter."""

NAME = r"[A-Za-z_][A-Za-z0-9_]*"

_OWN = re.compile(rf"(?<![{{$])\{{({'|'.join(OWN)})\}}")
_TOKEN = re.compile(rf"(\{{\{{|\}}\}})|\{{({NAME})\}}|([{{}}])")

Part = tuple[str, str]
"""A kind, ``text``, ``name`` or ``stray``, and the text."""


def parts(template: str, strict: bool) -> Iterator[Part]:
    """Yield a template's texts and names in order. A brace that is neither, under strict rules, is
    ``stray``."""
    at = 0
    for token in (_TOKEN if strict else _OWN).finditer(template):
        if token.start() > at:
            yield "text", template[at : token.start()]
        at = token.end()
        if not strict:
            yield "name", token[1]
        elif token[1]:
            yield "text", token[1][0]
        else:
            yield ("name", token[2]) if token[2] else ("stray", token[3])
    if at < len(template):
        yield "text", template[at:]


def stray(template: str) -> str:
    """Return a template from its first stray brace on, under strict rules; empty if it has none."""
    return next((template[token.start() :] for token in _TOKEN.finditer(template) if token[3]), "")


def names(template: str, strict: bool) -> list[str]:
    """Return the names in a template, each once, in order."""
    if "{" not in template:
        return []
    return list(dict.fromkeys(text for kind, text in parts(template, strict) if kind == "name"))


def filled(template: str, values: Mapping[str, str], strict: bool) -> str:
    """Return a template with values in place of names. Names without a value stay."""
    if "{" not in template and not (strict and "}" in template):
        return template
    return "".join(
        values.get(text, f"{{{text}}}") if kind == "name" else text for kind, text in parts(template, strict)
    )
