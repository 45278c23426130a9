"""Filters of lists of tasks, as requests give them."""

from typing import Annotated

from fastapi import Depends, HTTPException, Query
from pydantic import Field

from pilotage.server.api.edge.dependencies import TheStore
from pilotage.store import NoFederation, Store, TaskFilter

TEXT = r"^[^\x00]*$"
"""What stores can compare with: no null characters."""

_NAME = Query(max_length=200, pattern=TEXT, description="their name; `*`: any characters, `?`: any one")
_OWNER = Query(max_length=200, pattern=TEXT, description="the name of their owner")
_VO = Query(max_length=200, pattern=TEXT, description="the VO of their owner")
_LABEL = Query(max_length=20, description="with this label: `NAME=TEXT`, or `NAME` with any text; repeatable")
LabelWanted = Annotated[str, Field(min_length=1, max_length=300, pattern=r"^[^\x00-\x1f\x7f]*$")]
_SITE = Query(max_length=200, pattern=TEXT, description="with jobs at this site that have not ended well")


def filter_of(
    store: TheStore,
    name: Annotated[str, _NAME] = "",
    owner: Annotated[str, _OWNER] = "",
    site: Annotated[str, _SITE] = "",
    label: Annotated[list[LabelWanted] | None, _LABEL] = None,
    vo: Annotated[str, _VO] = "",
) -> TaskFilter:
    """Return a filter; 404 if there is no such site."""
    queues = _queues(store, site) if site else None
    return TaskFilter(name=name, owner=owner, vo=vo, labels=tuple(label or ()), queues=queues)


def _queues(store: Store, site: str) -> tuple[str, ...]:
    """Return the queues of a site; 404 if there is no such site."""
    try:
        federation = store.federation()
    except NoFederation:
        raise HTTPException(404, f"there is no site {site!r}: no federation is in force") from None
    if site not in {declared.name for declared in federation.sites}:
        raise HTTPException(404, f"there is no site {site!r}; pilotage sites lists them")
    return tuple(queue.name for queue in federation.queues if queue.site == site)


Filter = Annotated[TaskFilter, Depends(filter_of)]
"""Which tasks a request lists."""
