"""Results of attempts that wait in a site's spool until a server takes them from there."""

from dataclasses import dataclass

from pilotage.model.values.field_marks import Bytes, RecordId
from pilotage.model.values.types import DESCRIBED


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingResults:
    """What a pilot left of an attempt because no server was there.

    The job stays with that pilot, although the pilot has ended. If the pilot left anything, the record is
    there before anybody hears that the pilot ended.
    """

    __pydantic_config__ = DESCRIBED

    job: RecordId
    """The job."""
    attempt: int
    """The attempt."""
    pilot: RecordId
    """The pilot that left them."""
    queue: str
    """The pilot's queue."""
    size: Bytes
    """Bytes of the outputs."""
    since: float
    """When a server found them, in s since 1970 UTC."""
    until: float
    """When they are given up, in s since 1970 UTC."""
    problem: str = ""
    """Why the last try to take them failed; empty: it did not."""
