"""Scopes of logical names: who owns a name. A file's identifier is ``SCOPE:NAME``.

A scope belongs to a VO, or to one person. Its characters exclude the colon, so the first colon of an
identifier ends the scope. Worlds saved before scopes existed hold names without one.
"""

import re

from pilotage.model.values.identity import Identity
from pilotage.model.values.paths import is_output

_SCOPED = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.@+=~-]*):")
PERSONAL = "user."
"""The prefix of personal scopes."""


def personal_scope(owner: Identity) -> str:
    """Return the scope of one person: ``user.NAME``, followed by ``~VO`` if they belong to one.

    The same name in two VOs means two people. No name of a person or VO contains ``~`` or ``:``
    (``refuse_unfit_names``).
    """
    return f"{PERSONAL}{owner.name}" + (f"~{owner.vo}" if owner.vo else "")


def scopes_of(owner: Identity) -> tuple[str, ...]:
    """Return the scopes where a person may give and read names: their VO's, if any, and their own."""
    personal = personal_scope(owner)
    return (vo_scope(owner.vo), personal) if owner.vo else (personal,)


def is_of_vo(scope: str, vo: str) -> bool:
    """Return whether a scope belongs to a VO, or to one of its people."""
    return scope == vo_scope(vo) or (scope.startswith(PERSONAL) and scope.endswith(f"~{vo}"))


def default_scope(owner: Identity, name: str) -> str:
    """Return the scope of a name without one: personal for outputs, the VO's for inputs."""
    return personal_scope(owner) if is_output(name) else scopes_of(owner)[0]


def identifier(scope: str, name: str) -> str:
    """Return the identifier of a file; without a scope, the name alone."""
    return f"{scope}:{name}" if scope else name


def split_identifier(file: str) -> tuple[str, str]:
    """Split an identifier into scope and name. The scope is empty if there is none.

    A colon behind what no scope may be, such as a folder, belongs to the name.
    """
    if match := _SCOPED.match(file):
        return match[1], file[match.end() :]
    return "", file


def name_of(file: str) -> str:
    """Return the name of a file without its scope, which is also the path of its original."""
    return split_identifier(file)[1]


def version_of(dataset: str, version: int | None) -> str:
    """Return a version of a dataset in its written form, ``SCOPE:NAME@VERSION``; without one, the dataset."""
    return dataset if version is None else f"{dataset}@{version}"


def vo_scope(vo: str) -> str:
    """Return the scope of a VO. A name that looks like a personal scope is changed to differ from it."""
    return f"vo~{vo}" if vo.startswith(PERSONAL) else vo
