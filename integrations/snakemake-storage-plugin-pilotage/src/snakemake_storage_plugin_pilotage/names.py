"""Names of the catalogue as queries of Snakemake, and back."""

import re

SCHEME = "pilotage://"

_QUERY = re.compile(r"pilotage://(?P<scope>[^/:]+)/(?P<name>.+)", re.DOTALL)


def is_whole(query: str) -> bool:
    """Return whether a query has a scope and a name."""
    return _QUERY.fullmatch(query) is not None


def identifier(query: str) -> str:
    """Return the name in the catalogue, ``SCOPE:NAME``, of a query, or of the beginning of one."""
    return query.removeprefix(SCHEME).replace("/", ":", 1)


def query_of(name: str) -> str:
    """Return the query of a name in the catalogue."""
    return SCHEME + name.replace(":", "/", 1)
