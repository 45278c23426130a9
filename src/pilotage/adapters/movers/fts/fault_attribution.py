"""Blame for a file that FTS gave up, from the beginning of its reason."""

import errno
import re

from pilotage.model.records.observations import Fault

_REASON = re.compile(r"(SOURCE|DESTINATION|TRANSFER)\b[A-Z_ ]*\[(\d+)\]")
"""FTS writes ``SCOPE [errno] words``. Its own faults have the scope GENERAL_FAILURE."""

_SCOPES: dict[str, Fault] = {"SOURCE": "source", "DESTINATION": "destination", "TRANSFER": "either"}

_OF_NAMES = frozenset({errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG})
_OF_READING = frozenset({errno.ENOENT, errno.EACCES, errno.EPERM})
"""Errors of a working storage: about a name, and about a file to read."""


def fault_of(reason: str) -> Fault:
    """Return who is to blame for a reason; empty if it does not say."""
    found = _REASON.match(reason)
    if found is None or (code := int(found[2])) == errno.ECANCELED:
        return ""
    if code in _OF_NAMES or (found[1] != "DESTINATION" and code in _OF_READING):
        return "file"
    return _SCOPES[found[1]]
