"""Scopes of logical names: whose a name is. A file's identifier is ``SCOPE:NAME``.

A scope belongs to a VO, or to one person. Its characters leave out the colon, so the first colon of an
identifier ends the scope. Worlds saved before there were scopes hold names without one.
"""

from .identity import Identity
from .paths import is_output

PERSONAL = "user."
"""How the scopes of persons begin."""


def personal_scope(owner: Identity) -> str:
    """Return the scope of one person: ``user.NAME``, and ``~VO`` where they belong to one.

    People of one name in two VOs are two persons. ``~`` and ``=`` are in no name of a person or VO.
    """
    return _legal(f"{PERSONAL}{owner.name}" + (f"~{owner.vo}" if owner.vo else ""))


def scopes_of(owner: Identity) -> tuple[str, ...]:
    """Return the scopes whose names a person may give and read: their VO's, if any, and their own."""
    own = personal_scope(owner)
    return (vo_scope(owner.vo), own) if owner.vo else (own,)


def is_of_vo(scope: str, vo: str) -> bool:
    """Check that a scope is a VO's own, or that of one of its people."""
    return scope == vo_scope(vo) or (scope.startswith(PERSONAL) and scope.endswith(f"~{_legal(vo)}"))


def default_scope(owner: Identity, name: str) -> str:
    """Return the scope of a name that was given without one: outputs are personal, inputs the VO's."""
    return personal_scope(owner) if is_output(name) else scopes_of(owner)[0]


def identifier(scope: str, name: str) -> str:
    """Return the identifier of a file; without a scope, the name alone."""
    return f"{scope}:{name}" if scope else name


def split_identifier(file: str) -> tuple[str, str]:
    """Split an identifier into scope and name; the scope is empty where it has none."""
    scope, colon, name = file.partition(":")
    return (scope, name) if colon else ("", file)


def name_of(file: str) -> str:
    """Return the name of a file without its scope, which is also where its original lies."""
    return split_identifier(file)[1]


def version_of(dataset: str, version: int | None) -> str:
    """Return how a version of a dataset is written: ``SCOPE:NAME@VERSION``; without one, the dataset."""
    return dataset if version is None else f"{dataset}@{version}"


def vo_scope(vo: str) -> str:
    """Return the scope of a VO; one whose name looks like a person's scope is told apart from it."""
    return _legal(f"vo~{vo}" if vo.startswith(PERSONAL) else vo)


def _legal(scope: str) -> str:
    # The first colon of an identifier ends the scope.
    return scope.replace(":", "=")
