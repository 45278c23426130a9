"""Refusals by steps and calls: the status of each, the same for programs and for pages."""

from collections.abc import Mapping

from pilotage.flow.calls.data.catalogue import StillWanted
from pilotage.flow.errors import AlreadyEnrolled, KeyReused, NotNow, NotThere, PilotGone, PilotRefused
from pilotage.ports.catalogue import CatalogueError
from pilotage.request_budget import ClientGone, RequestTooLong
from pilotage.server.api.work.event_hub import TooManyStreams
from pilotage.store import (
    DatasetTaken,
    FederationChanged,
    FileConflict,
    NoFederation,
    PersonClosed,
    UnreadableTask,
)

STATUS: Mapping[type[Exception], int] = {
    **dict.fromkeys((AlreadyEnrolled, PersonClosed, PilotRefused), 403),
    NotThere: 404,
    **dict.fromkeys((CatalogueError, DatasetTaken, FederationChanged, FileConflict, KeyReused), 409),
    **dict.fromkeys((NoFederation, NotNow, StillWanted, UnreadableTask), 409),
    PilotGone: 410,
    RequestTooLong: 413,
    TooManyStreams: 429,
    ClientGone: 499,
}
"""The status of each refusal."""

REFUSALS = tuple(STATUS)


def refusal(fault: Exception) -> tuple[int, str]:
    """Return the status and the words of one of ``REFUSALS``."""
    status = next(STATUS[kind] for kind in type(fault).__mro__ if kind in STATUS)
    return status, type(fault).__doc__ or "" if isinstance(fault, KeyReused | PilotGone) else str(fault)
